"""Facts about one recorded history that several rules of the model need: who was up when, which copies are surely held.

The judge (`conformance.judge.cell`) makes one `Facts` for each cell, after its run, and passes it to every rule. Nothing here
decides whether something was right, reads a file or waits.

`n` is an event's number in the history, `t` its time in documented seconds since the cell began; `after_n` and `before_n` exclude
these two events, except in `possible_...` and `may_be_off`, which include them. A *server under test* is one of the topology's
servers, by its name; a *party* may also be a sender or a sink of the harness. A *primary* delivers a message of which the
*holder* keeps a shadow copy. A *dial* is a client's call for a connection. A fault *altered* a session where it changed, added or
removed octets, *held* it where it kept octets back (`stall`), and *delayed* it where it kept them back or slowed them.
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
    Configured,
    ConnectFailed,
    Delivered,
    FaultFired,
    NodeEvent,
)
from conformance.model.contacts import Contact, find_contacts, find_database_names
from conformance.model.parameter_changes import ParameterChanges, ParameterRange
from conformance.trace.context import CheckContext
from conformance.trace.dials import EndsAndHeldDials, ends_and_held_dials
from conformance.trace.parameters import LISTENER_LIMITS, parameter_at
from conformance.trace.promotions import PromotedTransmission, find_promotions
from conformance.trace.sessions import Exchange, Session, Transaction
from conformance.trace.trace import Discard, ShadowAttempt, ShadowCopy, Trace

T = TypeVar("T")

STOPPING_ACTIONS = frozenset({"stopped", "killed", "wiped", "paused", "refused", "exited", "failed", "starved"})
"""Actions of a `NodeEvent` after which a node does not work, or not on the queue that it had."""

_SLOWING_FAULTS = frozenset({"delay", "throttle", "split", "merge"})
"""Faults under which all lines arrive in the end: a line is recorded when it is passed on."""


@dataclass(frozen=True, slots=True)
class WorkingSpan:
    """A time during which a node works without a break, from being ready or resumed to what stops it.

    `until_n` and `until_t` are the end of the history (`Facts.end_n`, `Facts.end_t`) where nothing stops the node.
    """

    since_n: int
    since_t: float
    until_n: int
    until_t: float


@dataclass(frozen=True, slots=True)
class HeldInterval:
    """A stored copy, and the event and time up to which it is surely held, that event excluded.

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
        """Return whether the copy is surely held at event `n`: after the stored reply, and before `until_n` if there is one."""
        return self.since_n < n and (self.until_n is None or n < self.until_n)


class Facts:
    """A history with what rules ask about it; properties and `compute_once` keep what they have computed.

    `context` is the cell with its history and the candidate's claims, `trace` the history with its indexes, `topology` that of
    the cell, `slack` by how many documented seconds a time may miss a bound.
    """

    def __init__(self, context: CheckContext) -> None:
        """Hold the cell's context; nothing is computed before a rule asks for it."""
        self.context = context
        self.trace: Trace = context.trace
        self.topology = context.cell.topology
        self.slack = context.slack
        self._derived: dict[Callable[[Facts], Any], Any] = {}

    def compute_once(self, compute: Callable[["Facts"], T]) -> T:
        """Return `compute(facts)`, called the first time only: rules share the result.

        The key is the function itself, so callers pass a function or class of a module, not a new lambda.
        """
        if compute not in self._derived:
            self._derived[compute] = compute(self)
        result: T = self._derived[compute]
        return result

    # ---- servers

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

    def is_paused(self, server: str, n: int) -> bool:
        """Return whether a node's last state change before event `n` was `paused`; False without one."""
        actions = [event.action for event in self.node_events.get(server, ()) if event.n < n]
        return actions[-1:] == ["paused"]

    def stopped_or_wiped_between(self, server: str, after_n: int, before_n: int | None = None) -> bool:
        """Return whether an action of STOPPING_ACTIONS befell a node between two events: it stopped, lost its queue and so on.

        `before_n` None: until the end of the history.
        """
        end = self.end_n if before_n is None else before_n
        return any(after_n < e.n < end and e.action in STOPPING_ACTIONS for e in self.node_events.get(server, ()))

    def stopped_or_wiped_by_time(self, server: str, after_n: int, by_t: float) -> bool:
        """Return whether an action of STOPPING_ACTIONS befell a node after event `after_n` and not later than time `by_t`.

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
        """Return whether a server under test does not work when the history ends.

        A step that waits for a moment of the protocol may stop a server as late as in the drain.
        """
        spans = self.working_spans[server]
        return not spans or spans[-1].until_n != self.end_n

    # ---- parameters

    def parameter(self, server: str, name: str, n: int) -> JsonValue:
        """Return the value of a transport parameter that is in force on a server just before event `n`.

        Without a value from the topology or an accepted configuration it is the documented default; changes that the server
        refused are left out. Raises KeyError for an unknown parameter that the topology does not set, and for an unknown server.
        """
        return parameter_at(self.context, server, name, n)

    def numeric_parameter(self, server: str, name: str, n: int) -> float | None:
        """Return a parameter's value in force at event `n` as documented seconds or a count.

        None where the value that was set is not a number.
        """
        value = self.parameter(server, name, n)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def is_change_offered_between(self, server: str, name: str, after_n: int = -1, before_n: int | None = None) -> bool:
        """Return whether a configuration that names the parameter was offered to the server between two events.

        It counts whether the server refused it or not. By default the whole history is looked at.
        """
        end = self.end_n if before_n is None else before_n
        return any(
            e.node == server and after_n < e.n < end and name in e.changes for e in self.trace.events_of(Configured)
        )

    def parameter_values_between(self, server: str, name: str, after_n: int, before_n: int) -> list[JsonValue]:
        """Return the values of a parameter that were in force between two events, the oldest first; refused changes left out."""
        changed = [
            e.changes[name]
            for e in self._accepted_changes.get(server, ())
            if after_n < e.n < before_n and name in e.changes
        ]
        return [self.parameter(server, name, after_n), *changed]

    def parameter_numbers_between(self, server: str, name: str, after_n: int, before_n: int) -> list[float]:
        """Return those values of a parameter in force between two events that are numbers: documented seconds, or counts."""
        values = self.parameter_values_between(server, name, after_n, before_n)
        return [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]

    def listener_limits(self, server: str, listener: str, n: int) -> dict[str, float]:
        """Return the limits of a receive connector in force at event `n`: limit's name -> documented seconds.

        The limits are `connection_timeout` and `connection_inactivity_timeout`. `listener` names the connector, such as
        `transport` (SR-TMO-06, SR-TMO-07).
        """
        return self.listener_limits_between(server, listener, n, n)[0]

    def listener_limits_between(
        self, server: str, listener: str, after_n: int, before_n: int
    ) -> list[dict[str, float]]:
        """Return the limits of a receive connector in force between two events, the oldest first.

        Each entry is what `listener_limits` returns.
        """
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
        """The limits of receive connectors from the start, by server and listener; `listener_limits_between` fills it."""
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
        """The accepted changes of parameters, with the events between which each took effect."""
        return ParameterChanges(self.context)

    def possible_parameter_values(self, server: str, name: str, after_n: int, before_n: int) -> list[JsonValue]:
        """Return each value that a transport parameter may have had from one event to another, both included; the oldest first.

        A change is under way from its offer until the server's answer: then the old and the new value are possible.
        """
        return self._parameter_changes.possible_values(server, name, after_n, before_n)

    def possible_parameter_range(self, server: str, name: str, after_n: int, before_n: int) -> ParameterRange:
        """Return the least and the greatest number that a parameter may have been from one event to another, both included.

        A change under way counts with both values. The documented default takes the place of a value that is not a number.
        """
        return self._parameter_changes.possible_range(server, name, after_n, before_n)

    def may_be_off(self, server: str, after_n: int, before_n: int) -> bool:
        """Return whether shadow redundancy may be off on a server at some time between two events, or is being changed then.

        No document says whether a server keeps its shadow copies while redundancy is off: it may drop them, or keep them (ruling 37).
        """
        values = self.possible_parameter_values(server, "ShadowRedundancyEnabled", after_n, before_n)
        return any(value is not True for value in values)

    # ---- sessions and messages

    @cached_property
    def transactions_by_client(self) -> Mapping[str, list[Transaction]]:
        """The transactions of each client, in order; those of the harness under a server's name included."""
        found: dict[str, list[Transaction]] = defaultdict(list)
        for transaction in self.trace.transactions:
            found[transaction.client].append(transaction)
        return found

    @cached_property
    def starttls_sessions(self) -> list[Session]:
        """The sessions of which nothing was seen after STARTTLS was granted, in the order in which they ended.

        Sessions that are still open are left out.
        """
        return [self.trace.sessions[e.session] for e in self.trace.events_of(Closed) if e.how == "secured"]

    @cached_property
    def contacts_by_client_and_server(self) -> Mapping[tuple[str, str], list[Contact]]:
        """The attempts of servers under test at sessions with a listener `transport`: (client, server) -> contacts in order."""
        return find_contacts(self.context)

    @cached_property
    def database_names_seen(self) -> Mapping[tuple[str, str], list[tuple[int, float, str]]]:
        """The names of queue databases that were seen: (who read the name, whose database) -> names in order.

        Each is a tuple of the event's number, its time and the name. Sessions of the harness under a server's name count too.
        """
        return find_database_names(self.trace)

    def is_altered_or_held(self, session: str) -> bool:
        """Return whether a fault altered the session's octets, or held them back."""
        return session in self.trace.altered_sessions or session in self.trace.held_sessions

    def is_disturbed(self, session: str | None) -> bool:
        """Return whether a fault acted in a session, or may have delayed its dial; False for None.

        A fault that delays a dial is recorded without a session. So every later session of its client with its server may be the
        delayed one.
        """
        return session in self.faults_by_session or session in self.trace.delayed_sessions

    @cached_property
    def ends_and_held_dials(self) -> Mapping[tuple[str, str], EndsAndHeldDials]:
        """For each (client, server): the connections that were opened or failed, and the dials that faults held back."""
        return ends_and_held_dials(self.trace)

    @cached_property
    def faults_by_session(self) -> Mapping[str, list[FaultFired]]:
        """The faults that fired in each session, in order."""
        found: dict[str, list[FaultFired]] = defaultdict(list)
        for event in self.trace.events_of(FaultFired):
            if event.session is not None:
                found[event.session].append(event)
        return found

    @cached_property
    def sessions_by_client_and_server(self) -> Mapping[tuple[str, str], list[Session]]:
        """The sessions of each pair (client, server), in the order in which they were opened."""
        found: dict[tuple[str, str], list[Session]] = defaultdict(list)
        for session in self.trace.sessions.values():
            found[session.client, session.server].append(session)
        return found

    @cached_property
    def _cut_sessions(self) -> frozenset[str]:
        """The names of the sessions in which a fault other than `_SLOWING_FAULTS` fired.

        In these sessions a line that was sent may not have arrived.
        """
        fired = self.trace.events_of(FaultFired)
        return frozenset(f.session for f in fired if f.session is not None and f.action not in _SLOWING_FAULTS)

    @cached_property
    def given_by_server_and_message(self) -> Mapping[tuple[str, str], list[Transaction]]:
        """The transactions in which a server under test was given a whole message, by server and message's name.

        They are in order. Shadow copies are left out; a refused message is not.
        """
        found: dict[tuple[str, str], list[Transaction]] = defaultdict(list)
        for given in self.trace.transactions:
            if given.kind != "shadow" and given.message is not None and self.is_tested_server(given.server):
                found[given.server, given.message].append(given)
        return found

    @cached_property
    def transactions_by_server(self) -> Mapping[str, list[Transaction]]:
        """The transactions in which each server under test was the server, in the order of their MAIL."""
        found: dict[str, list[Transaction]] = defaultdict(list)
        for given in self.trace.transactions:
            if self.is_tested_server(given.server):
                found[given.server].append(given)
        return found

    @cached_property
    def copy_transactions_by_holder(self) -> Mapping[str, list[Transaction]]:
        """The transactions by which each server was given a shadow copy that it stored, or may have stored.

        It may have stored a copy to which no final reply was seen.
        """
        return {
            server: [g for g in given if g.kind == "shadow" and g.dot_n is not None and (g.acceptance or not g.replies)]
            for server, given in self.transactions_by_server.items()
        }

    @cached_property
    def shadow_attempts_by_primary(self) -> Mapping[str, list[ShadowAttempt]]:
        """The attempts of each server under test to have a shadow copy stored, in order.

        Those that the harness made under a server's name count too.
        """
        found: dict[str, list[ShadowAttempt]] = defaultdict(list)
        for attempt in self.trace.shadow_attempts:
            if self.is_tested_server(attempt.client):
                found[attempt.client].append(attempt)
        return found

    def end_of_session(self, session: str) -> int:
        """Return the number of the event that closed a session, or the number after the history's last event while it is open."""
        closed = self.trace.sessions[session].closed
        return self.end_n if closed is None else closed.n

    def failed_connections(self, client: str, after_n: int) -> list[ConnectFailed]:
        """Return the failed connections of a party to any other party after event `after_n`, in order."""
        return [event for event in self._failed_by_client.get(client, ()) if event.n > after_n]

    @cached_property
    def _failed_by_client(self) -> Mapping[str, list[ConnectFailed]]:
        """The failed connections of each party, in order."""
        found: dict[str, list[ConnectFailed]] = defaultdict(list)
        for event in self.trace.events_of(ConnectFailed):
            found[event.client].append(event)
        return found

    def is_known_to_primary(self, copy: ShadowCopy) -> bool:
        """Return whether the primary of a copy of 2013 or later surely got the reply that says that the copy is stored.

        It did where no fault could keep the reply from arriving, the session outlasted it, and the primary did not stop between
        MAIL and the reply.
        """
        stored, session = copy.stored_reply, copy.transaction.session
        return (
            session not in self._cut_sessions
            and self.end_of_session(session) > stored.n
            and not self.stopped_or_wiped_by_time(copy.primary, copy.transaction.n, stored.t)
        )

    @cached_property
    def deliveries_by_id(self) -> Mapping[str, list[Delivered]]:
        """The deliveries to sinks of each Message-ID, in order; contents without a Message-ID are left out."""
        found: dict[str, list[Delivered]] = defaultdict(list)
        for event in self.trace.events_of(Delivered):
            if event.digest.message_id is not None:
                found[event.digest.message_id].append(event)
        return found

    @cached_property
    def promotions_by_message(self) -> Mapping[str, list[PromotedTransmission]]:
        """The promotions of each message's shadow copies: transmissions by a holder of what it held as a copy."""
        return {name: find_promotions(self.context, name) for name in self.trace.messages}

    @cached_property
    def discards_by_copy(self) -> Mapping[tuple[str, str, str], list[Discard]]:
        """The discard notifications for each shadow copy: (primary, shadow id, notified server) -> notifications in order."""
        found: dict[tuple[str, str, str], list[Discard]] = defaultdict(list)
        for discard in self.trace.discards:
            found[discard.primary, discard.shadow_id, discard.holder].append(discard)
        return found

    @cached_property
    def held_intervals(self) -> list[HeldInterval]:
        """All stored copies, each with the time during which it is surely held."""
        promoted: dict[int, Transaction] = {}  # id() of a copy: the first transmission of it by its holder
        for promotions in self.promotions_by_message.values():
            for promotion in promotions:
                for copy in promotion.held_copies:
                    promoted.setdefault(id(copy), promotion.transmission)
        return [self._held_interval(copy, promoted.get(id(copy))) for copy in self.trace.copies]

    def _held_interval(self, copy: ShadowCopy, promotion: Transaction | None) -> HeldInterval:
        """Return the time during which a copy is surely held.

        `promotion` is the first transmission of the copy's message by its holder, None without one.
        """
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
