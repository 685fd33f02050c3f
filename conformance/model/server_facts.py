"""Facts about the servers of one recorded history: which were up when, of which generation, and how they are named.

`n` is an event's number in the history, `t` its time in documented seconds since the cell began; `after_n` and `before_n` exclude
these two events. A *server under test* is one of the topology's servers, by its name; a *party* may also be a sender or a sink of
the harness. A *node* is what runs a server: its events say when it was started, stopped, paused or lost its queue. `Facts`
(`conformance.model.facts`), which every rule of the model gets, inherits these facts. Nothing here decides whether something was
right, reads a file or waits.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from conformance.history.events import FaultArmed, NodeEvent
from conformance.trace.context import CheckContext
from conformance.trace.trace import Trace

STOPPING_ACTIONS = frozenset({"stopped", "killed", "wiped", "paused", "refused", "exited", "failed", "starved"})
"""Actions of a `NodeEvent` after which a node does not work, or not on the queue that it had."""


@dataclass(frozen=True, slots=True)
class WorkingSpan:
    """A time during which a node works without a break, from being ready or resumed to what stops it.

    `until_n` and `until_t` are the end of the history (`ServerFacts.end_n`, `ServerFacts.end_t`) where nothing stops the node.
    """

    since_n: int
    since_t: float
    until_n: int
    until_t: float


class ServerFacts:
    """The servers of a history; properties keep what they have computed.

    `context` is the cell with its history and the candidate's claims, `trace` the history with its indexes, `topology` that of
    the cell, `slack` by how many documented seconds a time may miss a bound.
    """

    def __init__(self, context: CheckContext) -> None:
        """Hold the cell's context; nothing is computed before a rule asks for it."""
        self.context = context
        self.trace: Trace = context.trace
        self.topology = context.cell.topology
        self.slack = context.slack

    @cached_property
    def node_events(self) -> Mapping[str, list[NodeEvent]]:
        """The state changes of each node (started, killed, wiped and so on), in order; a node without any has no key."""
        found: dict[str, list[NodeEvent]] = defaultdict(list)
        for event in self.trace.events_of(NodeEvent):
            found[event.node].append(event)
        return found

    @cached_property
    def end_t(self) -> float:
        """The time of the last event, 0 for a history without events."""
        return self.trace.events[-1].t if self.trace.events else 0.0

    @cached_property
    def end_n(self) -> int:
        """The number after that of the last event, 0 for a history without events."""
        return self.trace.events[-1].n + 1 if self.trace.events else 0

    def first_event_at(self, t: float) -> int:
        """Return the number of the first event at or after a time; the number after the last one without such an event."""
        position = bisect_left(self.trace.events, t, key=lambda event: event.t)
        return self.trace.events[position].n if position < len(self.trace.events) else self.end_n

    def is_tested_server(self, party: str) -> bool:
        """Return whether a party is a server under test, and not a sender or sink of the harness."""
        return self.context.is_tested_server(party)

    def server_named(self, name: str) -> str:
        """Return the topology's spelling of a server's name, which is compared without regard to letter case.

        Another name is returned as it is.
        """
        return self._names_in_any_case.get(name.casefold(), name)

    @cached_property
    def _names_in_any_case(self) -> Mapping[str, str]:
        """The names of the topology's servers by their form without letter case."""
        return {name.casefold(): name for name in self.topology.by_name}

    def is_2010(self, server: str) -> bool:
        """Return whether a server under test is of the 2010 generation, in which the sender keeps the shadow.

        Raises KeyError for another party.
        """
        return self.context.is_2010(server)

    def is_opened_by_tested_server(self, client: str, session: str) -> bool:
        """Return whether `client` is a server under test and opened the session itself.

        The harness may open sessions under a server's name; these do not count.
        """
        return self.context.is_opened_by_tested_server(client, session)

    def had_disk_trouble(self, server: str, after_n: int, before_n: int) -> bool:
        """Return whether a fault was in force on a server's disk at some time between two events.

        What the server should have recorded in this time may be missing from its queue database.
        """
        return any(
            begin.n < before_n and (end is None or end.n > after_n) for begin, end in self.disk_fault_times(server)
        )

    def disk_fault_times(self, server: str) -> Iterator[tuple[FaultArmed, FaultArmed | None]]:
        """Yield begin and end of each time in which faults were in force on a server's disk; the end is None at the history's end."""
        in_force: set[str] = set()
        begin: FaultArmed | None = None
        for event in self.trace.events_of(FaultArmed):
            if f"{server} disk" not in event.links or (event.healed and not in_force):
                continue
            (in_force.discard if event.healed else in_force.add)(event.fault)
            begin = event if begin is None else begin
            if not in_force:
                yield begin, event
                begin = None
        if begin is not None:
            yield begin, None

    def is_paused(self, server: str, n: int) -> bool:
        """Return whether a node's last state change before event `n` was `paused`; False without one."""
        actions = [event.action for event in self.node_events.get(server, ()) if event.n < n]
        return actions[-1:] == ["paused"]

    def was_interrupted_between(self, server: str, after_n: int, before_n: int | None = None) -> bool:
        """Return whether a node was interrupted between two events: stopped, killed, paused, wiped, or any of STOPPING_ACTIONS.

        `before_n` None: until the end of the history. False for a party without a node.
        """
        end = self.end_n if before_n is None else before_n
        return any(after_n < e.n < end and e.action in STOPPING_ACTIONS for e in self.node_events.get(server, ()))

    def was_interrupted_until(self, server: str, after_n: int, by_t: float) -> bool:
        """Return whether a node was interrupted (any of STOPPING_ACTIONS) after event `after_n`, and not later than time `by_t`.

        Recording order is not exact at one moment: what is recorded after an event, at the same time, may have been done before
        it.
        """
        return any(
            e.n > after_n and e.t <= by_t and e.action in STOPPING_ACTIONS for e in self.node_events.get(server, ())
        )

    def has_node_event_between(self, server: str, after_n: int, before_n: int | None = None) -> bool:
        """Return whether any state change of a node lies between two events, a start or a reload included.

        `before_n` None: until the end of the history.
        """
        end = self.end_n if before_n is None else before_n
        return any(after_n < e.n < end for e in self.node_events.get(server, ()))

    @cached_property
    def working_spans(self) -> Mapping[str, list[WorkingSpan]]:
        """The times during which each server under test works; a node of which no event is recorded works all the time."""
        return {server: self._working_spans(server) for server in self.topology.by_name}

    def _working_spans(self, server: str) -> list[WorkingSpan]:
        """Return the times during which a server works, in order: from ready or resumed until an action of STOPPING_ACTIONS.

        A node without events works all the time, from event -1 at time 0 on. The last time ends with the history if nothing stops
        the node.
        """
        spans: list[WorkingSpan] = []
        since: tuple[int, float] | None = None if self.node_events.get(server) else (-1, 0.0)
        for event in self.node_events.get(server, ()):
            if event.action in ("ready", "resumed"):
                since = since or (event.n, event.t)
            elif event.action in STOPPING_ACTIONS and since is not None:
                spans.append(WorkingSpan(*since, event.n, event.t))
                since = None
        return spans if since is None else [*spans, WorkingSpan(*since, self.end_n, self.end_t)]

    def is_down_at_end(self, server: str) -> bool:
        """Return whether a server under test does not work when the history ends: it is stopped, paused, or was never ready.

        A step that waits for a moment of the protocol may stop a server as late as in the drain, the wait at the end of a cell.
        """
        spans = self.working_spans[server]
        return not spans or spans[-1].until_n != self.end_n
