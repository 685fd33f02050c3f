"""Dials that faults held back: when a client called for a connection, and which connection or failure came of that.

A *dial* is the client's call for a connection; a fault that holds it back is recorded with the session None. `n` is an event's number.
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
    """The dials of clients that faults held back. Such a fault fires when the client dials; how the dial ends comes later."""

    ended: Mapping[int, FaultFired]
    """By the number of the event with which the dial ended: the connection, or its failure."""
    without_end: tuple[FaultFired, ...]
    """Those that went on when the client stopped, or when the history ended."""


def find_dials(trace: Trace) -> Dials:
    """Return the dials that faults held back. Those of one client at one server are taken to end in the order in which they began."""
    if not any(fault.session is None for fault in trace.events_of(FaultFired)):
        return Dials({}, ())
    open_dials: dict[tuple[str, str], deque[FaultFired]] = defaultdict(deque)
    ended: dict[int, FaultFired] = {}
    given_up: list[FaultFired] = []
    for event in trace.events:
        match event:
            case FaultFired(session=None):
                open_dials[event.client, event.server].append(event)
            case Connected() | ConnectFailed() if open_dials[event.client, event.server]:
                ended[event.n] = open_dials[event.client, event.server].popleft()
            case NodeEvent() if event.action in _ENDS_DIALS:
                for (client, _), dials in open_dials.items():
                    if client == event.node:
                        given_up.extend(dials)
                        dials.clear()
    return Dials(ended, (*given_up, *(fault for dials in open_dials.values() for fault in dials)))


def is_end_unclear(trace: Trace, held: FaultFired, until_t: float) -> bool:
    """Return whether more connections of the same pair ended by `until_t` than were held back, so that any may be the held one.

    `until_t` is in documented seconds. A client may dial anew while a fault holds its first dial back.
    """
    pair = (held.client, held.server)
    ends: list[Connected | ConnectFailed] = [*trace.events_of(Connected), *trace.events_of(ConnectFailed)]
    ended = sum(held.n < end.n and end.t <= until_t and (end.client, end.server) == pair for end in ends)
    holds = sum(
        fault.session is None and held.t <= fault.t <= until_t and (fault.client, fault.server) == pair
        for fault in trace.events_of(FaultFired)
    )
    return ended > holds
