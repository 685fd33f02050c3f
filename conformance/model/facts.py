"""Facts about one history that several rules need: who was up when, which copies are surely held, parameters in force.

Nothing here decides whether something was right. `n` is an event's number in the history, times are documented seconds.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from pydantic import JsonValue

from conformance.history.events import (
    Closed,
    CommandRun,
    Configured,
    ConnectFailed,
    Delivered,
    FaultFired,
    NodeEvent,
    StepEvent,
)
from conformance.model.contacts import Contact, find_contacts, find_database_names
from conformance.model.parameter_changes import ParameterChanges
from conformance.trace.context import CheckContext
from conformance.trace.parameters import LISTENER_LIMITS, parameter_at
from conformance.trace.promotions import PromotedTransmission, find_promotions
from conformance.trace.sessions import Exchange, Session, Transaction
from conformance.trace.trace import Discard, ShadowAttempt, ShadowCopy, Trace

T = TypeVar("T")

STOPPING = frozenset({"stopped", "killed", "wiped", "paused", "refused", "exited", "failed", "starved"})
"""Actions of a `NodeEvent` after which a node does not work, or not on the queue that it had."""

RESUBMITTING_STEPS = frozenset({"activate", "resubmit", "redirect"})
"""Steps after which servers may transmit again what they had finished, or pass it to another server."""

_SLOWING_FAULTS = frozenset({"delay", "throttle", "split", "merge"})
"""Faults under which all lines arrive in the end: a line is recorded when it is passed on."""


@dataclass(frozen=True, slots=True)
class WorkingSpan:
    """A time during which a node works without a break, from being ready or resumed to what stops it, or to the end."""

    since_n: int
    since_t: float
    until_n: int
    until_t: float


@dataclass(frozen=True, slots=True)
class HeldInterval:
    """A stored copy, and the last event and time at which it is surely held.

    It is held from its stored reply until the holder is notified, begins to transmit it itself, or loses its database.
    `until_n` and `until_t` are None when none of that happens in the history; the end may lie before the stored reply.
    """

    copy: ShadowCopy
    until_n: int | None
    until_t: float | None

    @property
    def since_n(self) -> int:
        """The number of the reply that shows that the copy is stored."""
        return self.copy.stored_reply.n

    @property
    def since_t(self) -> float:
        """The time of the reply that shows that the copy is stored."""
        return self.copy.stored_reply.t

    def covers(self, n: int) -> bool:
        """Return whether the copy is surely held at event `n`."""
        return self.since_n < n and (self.until_n is None or n < self.until_n)


class Facts:
    """A history with what rules ask about it; each answer is computed once."""

    def __init__(self, context: CheckContext) -> None:
        self.context = context
        self.trace: Trace = context.trace
        self.topology = context.cell.topology
        self.slack = context.slack
        self._derived: dict[Callable[[Facts], Any], Any] = {}

    def derive(self, compute: Callable[["Facts"], T]) -> T:
        """Return what a function computes from these facts; it is called once."""
        if compute not in self._derived:
            self._derived[compute] = compute(self)
        result: T = self._derived[compute]
        return result

    # ---- servers

    @cached_property
    def node_events(self) -> Mapping[str, list[NodeEvent]]:
        """The events of each node, in order."""
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
        """The number after that of the last event."""
        return self.trace.events[-1].n + 1 if self.trace.events else 0

    def first_event_at(self, t: float) -> int:
        """Return the number of the first event at or after a time; the number after the last one without such an event."""
        position = bisect_left(self.trace.events, t, key=lambda event: event.t)
        return self.trace.events[position].n if position < len(self.trace.events) else self.end_n

    def is_tested(self, party: str) -> bool:
        """Return whether a party is a server under test, and not one of the harness's own."""
        return self.context.is_tested_server(party)

    def is_2010(self, server: str) -> bool:
        """Return whether a server under test is of the 2010 generation."""
        return self.context.is_2010(server)

    def is_own(self, client: str, session: str) -> bool:
        """Return whether the server under test `client` opened the session itself."""
        return self.context.is_opened_by_tested_server(client, session)

    def was_interrupted(self, server: str, after_n: int, before_n: int | None = None) -> bool:
        """Return whether the node stopped working, or lost its queue, between two events (None: the end)."""
        end = self.end_n if before_n is None else before_n
        return any(after_n < e.n < end and e.action in STOPPING for e in self.node_events.get(server, ()))

    def was_interrupted_by(self, server: str, after_n: int, t: float) -> bool:
        """Return whether the node stopped working, or lost its queue, after an event and not later than a time.

        What is recorded after an event, at the same time, may have been done before it.
        """
        return any(e.n > after_n and e.t <= t and e.action in STOPPING for e in self.node_events.get(server, ()))

    def had_node_event(self, server: str, after_n: int, before_n: int | None = None) -> bool:
        """Return whether anything happened to the node between two events, a start or a reload included."""
        end = self.end_n if before_n is None else before_n
        return any(after_n < e.n < end for e in self.node_events.get(server, ()))

    @cached_property
    def working_spans(self) -> Mapping[str, list[WorkingSpan]]:
        """The times during which each server under test works; a node of which no event is recorded works all the time."""
        return {server: self._working_spans(server) for server in self.topology.by_name}

    def _working_spans(self, server: str) -> list[WorkingSpan]:
        """Return the times during which a server works, in order."""
        spans: list[WorkingSpan] = []
        since: tuple[int, float] | None = None if self.node_events.get(server) else (-1, 0.0)
        for event in self.node_events.get(server, ()):
            if event.action in ("ready", "resumed"):
                since = since or (event.n, event.t)
            elif event.action in STOPPING and since is not None:
                spans.append(WorkingSpan(*since, event.n, event.t))
                since = None
        return spans if since is None else [*spans, WorkingSpan(*since, self.end_n, self.end_t)]

    # ---- parameters

    def parameter(self, server: str, name: str, n: int) -> JsonValue:
        """Return a transport parameter's value in force on a server at event `n`; the documented default without another."""
        return parameter_at(self.context, server, name, n)

    def seconds(self, server: str, name: str, n: int) -> float | None:
        """Return a parameter's value that is a duration or a number, None where what was set is neither."""
        value = self.parameter(server, name, n)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def is_changed(self, server: str, name: str, after_n: int = -1, before_n: int | None = None) -> bool:
        """Return whether a configuration that names the parameter was offered between two events, refused or not."""
        end = self.end_n if before_n is None else before_n
        return any(
            e.node == server and after_n < e.n < end and name in e.changes for e in self.trace.events_of(Configured)
        )

    def values_between(self, server: str, name: str, after_n: int, before_n: int) -> list[JsonValue]:
        """Return the values of a parameter that were in force at some time between two events; the first is the oldest."""
        changed = [
            e.changes[name]
            for e in self._accepted_changes.get(server, ())
            if after_n < e.n < before_n and name in e.changes
        ]
        return [self.parameter(server, name, after_n), *changed]

    def numbers_between(self, server: str, name: str, after_n: int, before_n: int) -> list[float]:
        """Return those of the values in force at some time between two events that are numbers: durations, or counts."""
        values = self.values_between(server, name, after_n, before_n)
        return [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]

    def listener_limits(self, server: str, listener: str, n: int) -> dict[str, float]:
        """Return the limits of a receive connector in force at event `n`, in seconds (SR-TMO-06, SR-TMO-07)."""
        return self.limits_between(server, listener, n, n)[0]

    def limits_between(self, server: str, listener: str, after_n: int, before_n: int) -> list[dict[str, float]]:
        """Return the limits of a receive connector in force at some time between two events; the first are the oldest."""
        limits = self._first_limits.get((server, listener))
        if limits is None:
            own = self.topology.by_name[server]
            limits = {**LISTENER_LIMITS["edge" if own.role == "edge" else ""], **own.listeners.get(listener, {})}  # type: ignore[dict-item]
            self._first_limits[server, listener] = limits
        found = []
        for event in self._accepted_changes.get(server, ()):
            if isinstance(change := event.changes.get(f"listeners.{listener}"), dict) and event.n < before_n:
                if event.n > after_n:
                    found.append(limits)
                limits = {**limits, **change}  # type: ignore[dict-item]  # what was taken is a number, or SR-CFG-03 fails
        return [*found, limits]

    @cached_property
    def _first_limits(self) -> dict[tuple[str, str], dict[str, float]]:
        """The limits of receive connectors from the start, as far as they were asked for."""
        return {}

    @cached_property
    def _accepted_changes(self) -> Mapping[str, list[Configured]]:
        """The configurations that each server did not refuse, in order."""
        found: dict[str, list[Configured]] = defaultdict(list)
        for event in self.trace.events_of(Configured):
            if event.refused is None:
                found[event.node].append(event)
        return found

    @cached_property
    def _parameter_changes(self) -> ParameterChanges:
        return ParameterChanges(self.context)

    def possible_values(self, server: str, name: str, after_n: int, before_n: int) -> list[JsonValue]:
        """Return each value that a transport parameter may have had between two events, a change under way included."""
        return self._parameter_changes.possible_values(server, name, after_n, before_n)

    def possible_numbers(self, server: str, name: str, after_n: int, before_n: int) -> tuple[float, float]:
        """Return the least and the greatest value that a parameter may have had between two events."""
        return self._parameter_changes.possible_numbers(server, name, after_n, before_n)

    # ---- sessions and messages

    @cached_property
    def transactions_from(self) -> Mapping[str, list[Transaction]]:
        """The transactions of each client, in order; those of the harness under a server's name included."""
        found: dict[str, list[Transaction]] = defaultdict(list)
        for transaction in self.trace.transactions:
            found[transaction.client].append(transaction)
        return found

    @cached_property
    def secured_sessions(self) -> list[Session]:
        """The sessions of which nothing was seen any more once STARTTLS was granted."""
        return [self.trace.sessions[e.session] for e in self.trace.events_of(Closed) if e.how == "secured"]

    @cached_property
    def contacts(self) -> Mapping[tuple[str, str], list[Contact]]:
        """The attempts of each pair (client, server) of servers under test at a session on `transport`, in order."""
        return find_contacts(self.context)

    @cached_property
    def database_names(self) -> Mapping[tuple[str, str], list[tuple[int, float, str]]]:
        """The names of its queue database that each server (the second) gave to another: number and time of the event, name."""
        return find_database_names(self.trace)

    def is_disturbed(self, session: str) -> bool:
        """Return whether a fault altered the session's octets or held them back."""
        return session in self.trace.altered_sessions or session in self.trace.held_sessions

    @cached_property
    def faults_in(self) -> Mapping[str, list[FaultFired]]:
        """The faults that fired in each session, in order."""
        found: dict[str, list[FaultFired]] = defaultdict(list)
        for event in self.trace.events_of(FaultFired):
            if event.session is not None:
                found[event.session].append(event)
        return found

    @cached_property
    def sessions_between(self) -> Mapping[tuple[str, str], list[Session]]:
        """The sessions of each pair (client, server), in the order in which they were opened."""
        found: dict[tuple[str, str], list[Session]] = defaultdict(list)
        for session in self.trace.sessions.values():
            found[session.client, session.server].append(session)
        return found

    @cached_property
    def _cut_sessions(self) -> frozenset[str]:
        """The names of the sessions in which a fault may have kept a line from arriving, or did more than slow it down."""
        fired = self.trace.events_of(FaultFired)
        return frozenset(f.session for f in fired if f.session is not None and f.action not in _SLOWING_FAULTS)

    @cached_property
    def receipts(self) -> Mapping[tuple[str, str], list[Transaction]]:
        """The transactions in which a server under test was given a whole message, by server and message.

        Shadow copies are left out; a refused message is not.
        """
        found: dict[tuple[str, str], list[Transaction]] = defaultdict(list)
        for given in self.trace.transactions:
            if given.kind != "shadow" and given.message is not None and self.is_tested(given.server):
                found[given.server, given.message].append(given)
        return found

    @cached_property
    def transactions_at(self) -> Mapping[str, list[Transaction]]:
        """The transactions in which each server under test was the server, in the order of their MAIL."""
        found: dict[str, list[Transaction]] = defaultdict(list)
        for given in self.trace.transactions:
            if self.is_tested(given.server):
                found[given.server].append(given)
        return found

    @cached_property
    def copies_held_by(self) -> Mapping[str, list[Transaction]]:
        """The transactions by which each server was given a shadow copy that it stored, or may have stored unseen."""
        return {
            server: [g for g in given if g.kind == "shadow" and g.dot_n is not None and (g.acceptance or not g.replies)]
            for server, given in self.transactions_at.items()
        }

    @cached_property
    def shadow_attempts(self) -> Mapping[str, list[ShadowAttempt]]:
        """The attempts of each server under test to have a shadow copy stored, in order."""
        found: dict[str, list[ShadowAttempt]] = defaultdict(list)
        for attempt in self.trace.shadow_attempts:
            if self.is_tested(attempt.client):
                found[attempt.client].append(attempt)
        return found

    def end_of(self, session: str) -> int:
        """Return the number of the event that closed a session, or that after the last event."""
        closed = self.trace.sessions[session].closed
        return self.end_n if closed is None else closed.n

    def failed_connections(self, client: str, after_n: int) -> list[ConnectFailed]:
        """Return the failed connections of a party to anything since an event."""
        return [event for event in self._failed_by_client.get(client, ()) if event.n > after_n]

    @cached_property
    def _failed_by_client(self) -> Mapping[str, list[ConnectFailed]]:
        """The failed connections of each party, in order."""
        found: dict[str, list[ConnectFailed]] = defaultdict(list)
        for event in self.trace.events_of(ConnectFailed):
            found[event.client].append(event)
        return found

    def is_heard(self, copy: ShadowCopy) -> bool:
        """Return whether the primary of a copy of 2013 or later surely got the reply that says that it is stored."""
        stored, session = copy.stored_reply, copy.transaction.session
        return (
            session not in self._cut_sessions
            and self.end_of(session) > stored.n
            and not self.was_interrupted_by(copy.primary, copy.transaction.n, stored.t)
        )

    @cached_property
    def deliveries_by_id(self) -> Mapping[str, list[Delivered]]:
        """The deliveries to sinks of each Message-ID, in order."""
        found: dict[str, list[Delivered]] = defaultdict(list)
        for event in self.trace.events_of(Delivered):
            if event.digest.message_id is not None:
                found[event.digest.message_id].append(event)
        return found

    @cached_property
    def has_resubmission(self) -> bool:
        """Whether an administrator or a step of the scenario may have had finished messages transmitted again."""
        return bool(self.trace.events_of(CommandRun)) or any(
            step.verb in RESUBMITTING_STEPS for step in self.trace.events_of(StepEvent)
        )

    @cached_property
    def promotions(self) -> Mapping[str, list[PromotedTransmission]]:
        """The promotions of each message's shadow copies."""
        return {name: find_promotions(self.context, name) for name in self.trace.messages}

    @cached_property
    def discards_by_copy(self) -> Mapping[tuple[str, str, str], list[Discard]]:
        """The notifications for each shadow copy, by primary, shadow id and notified server, in order."""
        found: dict[tuple[str, str, str], list[Discard]] = defaultdict(list)
        for discard in self.trace.discards:
            found[discard.primary, discard.shadow_id, discard.holder].append(discard)
        return found

    @cached_property
    def held_intervals(self) -> list[HeldInterval]:
        """All stored copies, each with the time during which it is surely held."""
        promoted: dict[int, Transaction] = {}
        for promotions in self.promotions.values():
            for promotion in promotions:
                for copy in promotion.held_copies:
                    promoted.setdefault(id(copy), promotion.transmission)
        return [self._held_interval(copy, promoted.get(id(copy))) for copy in self.trace.copies]

    def _held_interval(self, copy: ShadowCopy, promotion: Transaction | None) -> HeldInterval:
        """Return the time during which a copy is surely held."""
        stored = copy.stored_reply.n
        notified = self.discards_by_copy.get((copy.primary, copy.shadow_id, copy.holder), ())
        # a primary may be done, and say so, before the reply that shows that the copy is stored has passed the link
        ends: list[tuple[int, float]] = [(d.n, d.t) for d in notified if d.n > copy.transaction.n][:1]
        ends += [(e.n, e.t) for e in self.node_events.get(copy.holder, ()) if e.action == "wiped" and e.n > stored][:1]
        if promotion is not None:  # the session in which it is transmitted begins after the decision
            session = self.trace.sessions[promotion.session]
            ends.append((max(session.n, stored + 1), max(session.t, copy.stored_reply.t)))
        return HeldInterval(copy, *min(ends, default=(None, None)))


def operation_name(exchange: Exchange) -> str | None:
    """Return the name of the operation of shadow redundancy that a command asks for, None for another command."""
    return exchange.command.operation.name if exchange.command.operation else None
