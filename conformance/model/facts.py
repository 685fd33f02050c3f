"""Facts about one recorded history that several rules of the model need: its sessions and messages, which copies are surely held.

The judge (`conformance.judge.cell`) makes one `Facts` for each cell, after its run, and passes it to every rule. `Facts` inherits
what is known of servers (`ServerFacts`: who was up when) and of parameters (`ParameterFacts`: what was in force when). Nothing
here decides whether something was right, reads a file or waits.

`n` is an event's number in the history, `t` its time in documented seconds since the cell began; `after_n` excludes that event.
A *server under test* is one of the topology's servers, by its name; a *party* may also be a sender or a sink of the harness.
A *primary* delivers a message of which the *holder* keeps a shadow copy. A *dial* is a client's call for a connection. A fault
*altered* a session where it changed, added or removed octets, *held* it where it kept octets back (`stall`), and *delayed* it
where it kept them back or slowed them.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from conformance.history.events import Closed, Connected, ConnectFailed, Delivered, FaultArmed, FaultFired
from conformance.model.contacts import Contact, find_contacts, find_database_names
from conformance.model.parameter_facts import ParameterFacts
from conformance.trace.context import CheckContext
from conformance.trace.dials import EndsAndHeldDials, ends_and_held_dials
from conformance.trace.promotions import PromotedTransmission, find_promotions
from conformance.trace.sessions import Exchange, Session, Transaction
from conformance.trace.shadows import Discard, ShadowAttempt, ShadowCopy

T = TypeVar("T")

_SLOWING_FAULTS = frozenset({"delay", "throttle", "split", "merge"})
"""Faults under which all lines arrive in the end: a line is recorded when it is passed on."""


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


class Facts(ParameterFacts):
    """A history with what rules ask about it; properties and `compute_once` keep what they have computed.

    Its attributes are those of `ServerFacts`: the cell's `context`, `trace`, `topology` and `slack`.
    """

    def __init__(self, context: CheckContext) -> None:
        """Hold the cell's context; nothing is computed before a rule asks for it."""
        super().__init__(context)
        self._derived: dict[Callable[[Facts], Any], Any] = {}

    def compute_once(self, compute: Callable[["Facts"], T]) -> T:
        """Return `compute(facts)`, called the first time only: rules share the result.

        The key is the function itself, so callers pass a function or class of a module, not a new lambda.
        """
        if compute not in self._derived:
            self._derived[compute] = compute(self)
        result: T = self._derived[compute]
        return result

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
        """Return whether a fault acted in a session, or cut or may have delayed its dial; False for None.

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
        """The faults that fired in each session, in order, and before them a partition in which the session was opened.

        A partition that swallows octets may begin while a dial is on its way. It is recorded without a session then, since the
        session has no name yet; the connection is made all the same, and nothing passes before the partition is healed. A
        dial that begins in a partition makes no connection before that. So a session is opened in one only in that case.
        """
        if not self.trace.events_of(FaultFired):  # the usual case
            return {}
        found: dict[str, list[FaultFired]] = defaultdict(list)
        in_force: dict[tuple[str, str], dict[str, FaultFired]] = defaultdict(dict)
        for event in self.trace.events:
            match event:
                case FaultFired(session=str(session)):
                    found[session].append(event)
                case FaultFired(action="partition-blackhole"):
                    in_force[event.client, event.server][event.fault] = event
                case FaultArmed(healed=True):
                    for partitions in in_force.values():
                        partitions.pop(event.fault, None)
                case Connected() if cutting := in_force.get((event.client, event.server)):
                    found[event.session].extend(cutting.values())
                case _:
                    pass
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
        return frozenset(
            session
            for session, faults in self.faults_by_session.items()
            if any(fault.action not in _SLOWING_FAULTS for fault in faults)
        )

    @cached_property
    def given_by_server_and_message(self) -> Mapping[tuple[str, str], list[Transaction]]:
        """The transactions in which a server under test was given a whole message: (server, message's name) -> transactions in order.

        Shadow copies are left out; a message that the server refused is not.
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
        """The transactions by which each server was given a shadow copy that it stored, or may have stored, in order of their MAIL.

        It may have stored a copy to which no final reply was seen. A server under test without such copies has an empty list, or
        no key if it was the server of no transaction.
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
        MAIL and the reply. Where a fault delayed the session, or the holder was interrupted, the primary must have said something
        after the reply: it may have left before.
        """
        stored, session = copy.stored_reply, copy.transaction.session
        return (
            session not in self._cut_sessions
            and not self.trace.may_be_unread(session, stored.n)
            and not (
                self.was_interrupted_between(copy.holder, copy.transaction.n, stored.n)
                and not any(x.command.n > stored.n for x in self.trace.sessions[session].exchanges)
            )
            and self.end_of_session(session) > stored.n
            and not self.was_interrupted_until(copy.primary, copy.transaction.n, stored.t)
        )

    @cached_property
    def deliveries_by_id(self) -> Mapping[str, list[Delivered]]:
        """The deliveries to sinks and mailbox stores of each Message-ID, in order; contents without a Message-ID are left out."""
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
        """Return the time during which a copy is surely held, from its stored reply to the first event that may end it.

        That is the first notification for the copy after its MAIL, a wipe of the holder's queue after the stored reply, or the
        begin of the session of `promotion`. `promotion` is the first transmission of the copy's message by its holder, None
        without one.
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
