"""Dials that faults held back: when a client called for a connection, and which connection or failure came of that.

A *dial* is the client's call for a connection. A fault or partition that acts on a dial is recorded with the session None,
since the session has no name yet; how the dial ends is recorded later, or at once if it is refused. The trouble of a disk is
recorded with the session None too, its node as client and server; that is no dial. `n` is an event's number. Rules of the
model and `promotions` ask for dials.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass

from conformance.history.events import Connected, ConnectFailed, FaultFired, NodeEvent
from conformance.trace.trace import Trace

_ENDS_DIALS = frozenset({"stopped", "killed", "wiped", "exited", "failed"})
"""Actions of a `NodeEvent` after which nothing that the node dialled goes on."""


@dataclass(frozen=True, slots=True)
class Dials:
    """The dials of clients that faults held back, each as the event of its fault."""

    ended: Mapping[int, FaultFired]
    """By the number of the event with which the dial ended: the connection, or its failure."""
    without_end: tuple[FaultFired, ...]
    """Those that went on when the client stopped, or when the history ended."""


def find_dials(trace: Trace) -> Dials:
    """Return the dials that faults held back, each as the event of its fault: with and without an end.

    Those of one client at one server are taken to end in the order in which they began: each connection of the pair, or failure
    to connect, ends the earliest. A dial whose client stops before that has no end, nor has one that goes on when the history ends.
    """
    if not any(map(_is_held_dial, trace.events_of(FaultFired))):
        return Dials({}, ())
    open_dials: dict[tuple[str, str], deque[FaultFired]] = defaultdict(deque)
    ended: dict[int, FaultFired] = {}
    given_up: list[FaultFired] = []
    for event in trace.events:
        match event:
            case FaultFired() if _is_held_dial(event):
                open_dials[event.client, event.server].append(event)
            case Connected() | ConnectFailed() if open_dials[event.client, event.server]:
                ended[event.n] = open_dials[event.client, event.server].popleft()
            case NodeEvent() if event.action in _ENDS_DIALS:
                for (client, _), dials in open_dials.items():
                    if client == event.node:
                        given_up.extend(dials)
                        dials.clear()
    return Dials(ended, (*given_up, *(fault for dials in open_dials.values() for fault in dials)))


def _is_held_dial(fault: FaultFired) -> bool:
    """Return whether a fault held back a dial. The trouble of a disk has no session either: it fires at a server itself."""
    return fault.session is None and fault.client != fault.server


EndsAndHeldDials = tuple[list[Connected | ConnectFailed], list[FaultFired]]
"""Of one client at one server: the connections that were opened or that failed, and the dials that faults held back."""


def ends_and_held_dials(trace: Trace) -> Mapping[tuple[str, str], EndsAndHeldDials]:
    """Return all ends of dials (held back or not), and the dials that faults held back, by (client, server).

    Of the two lists for a pair the first has its connections, then its failures to connect; both are empty for a pair without any.
    """
    found: dict[tuple[str, str], EndsAndHeldDials] = defaultdict(lambda: ([], []))
    ends: list[Connected | ConnectFailed] = [*trace.events_of(Connected), *trace.events_of(ConnectFailed)]
    for end in ends:
        found[end.client, end.server][0].append(end)
    for fault in trace.events_of(FaultFired):
        if _is_held_dial(fault):
            found[fault.client, fault.server][1].append(fault)
    return found


def is_end_unclear(dials: Mapping[tuple[str, str], EndsAndHeldDials], held: FaultFired, until_t: float) -> bool:
    """Return whether it is unclear which dial of a pair ended: more of its dials ended than were held back since `held`.

    Ends count from `held` on up to time `until_t` (documented seconds), held dials likewise. A client may dial anew while a
    fault holds its first dial back, so any of the ends may be that of the held one then.
    """
    ends, held_back = dials[held.client, held.server]
    ended = sum(held.n < end.n and end.t <= until_t for end in ends)
    holds = sum(held.t <= dial.t <= until_t for dial in held_back)
    return ended > holds
