"""A history, indexed for the checks: sessions, mail transactions, shadow copies, discard notifications, deliveries.

Theory of operation
-------------------
`Trace.add` takes the events of one cell in their order. Each costs about the same, however long the history is: a run that
waits for an expectation judges again after every event (`conformance.judge.incremental`).

An event of a session goes to its `Session`, which pairs commands with replies and says which transaction a final reply
answers. What a transaction or reply means for shadow redundancy is derived at once (`conformance.trace.shadows`):

- The content that was sent is identified with a message of the scenario by the hash of its body, else by its Message-ID.
- A positive final reply to a shadow or tracked transaction is a stored `ShadowCopy`. Its *primary* is the server that
  delivers the message, its *holder* the server that keeps the copy.
- Each id in a discard list is a `Discard`: the primary notified the holder that the copy is no longer needed.
- Each XQDISCARD is a `Query`, each try of a primary to have a copy stored a `ShadowAttempt`.

Sessions that a fault altered or held, and those that the harness opened itself, are noted by their names: a server is not
responsible for what was said there. A message is known by the scenario's name of it: `m#1` is the first of the messages
that the scenario calls `m`. Rulings are those of docs/rulings.md. `n` is an event's number, `t` its time in documented
seconds since the cell began.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypeVar

from conformance.faults import ALTERING_FAULTS, DELAYING_FAULTS, HOLDING_FAULTS
from conformance.history.events import (
    AnyEvent,
    Attempt,
    Closed,
    Command,
    Connected,
    ConnectFailed,
    Content,
    Delivered,
    Event,
    FaultFired,
    MessageMade,
    Reply,
    StepEvent,
    Talked,
)
from conformance.history.values import Digest
from conformance.trace.sessions import Session, Transaction
from conformance.trace.shadows import Discard, Query, ShadowAttempt, ShadowCopy, find_shadow_attempts

E = TypeVar("E", bound=Event)

_EMPTY_BODY = hashlib.sha256(b"").hexdigest()
"""Several messages may have an empty body, so its hash identifies none of them."""


class Trace:
    """The events of a cell so far, and indexes over them; built event by event, by the judge and while a cell runs.

    `sessions` are by name, `messages` by the scenario's name (`m#1`). The other lists are in the order of the history.
    """

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        """Index the events of a history, none by default; `add` takes the later ones."""
        self.events: list[AnyEvent] = []
        self.sessions: dict[str, Session] = {}
        self.messages: dict[str, MessageMade] = {}
        self.transactions: list[Transaction] = []
        self.reports: list[Transaction] = []
        """The transactions, shadow copies included, whose content is a report; in the order of their contents."""
        self.copies: list[ShadowCopy] = []
        self.discards: list[Discard] = []
        self.queries: list[Query] = []
        self.altered_sessions: set[str] = set()
        """Names of sessions in which a fault changed, added or removed octets."""
        self.held_sessions: set[str] = set()
        """Names of sessions in which a fault held octets back."""
        self._delayed_dials: set[tuple[str, str]] = set()
        """Client and server of connections that a fault delayed: which session came of one is not recorded."""
        self.delayed_sessions: set[str] = set()
        """Names of sessions in which a fault held octets back or delayed them, or which it may have delayed from the dial on."""
        self.harness_sessions: set[str] = set()
        """Names of sessions that the harness opened itself, perhaps under a server's name."""
        self._by_type: dict[type, list[Any]] = defaultdict(list)
        self._messages_by_base: dict[str, list[MessageMade]] = defaultdict(list)
        self._name_by_body: dict[str, str] = {}
        self._names_by_id: dict[str, list[str]] = defaultdict(list)
        # the next four by message; discards by primary and shadow id, steps by path and phase
        self._transactions: dict[str, list[Transaction]] = defaultdict(list)
        self._copies: dict[str, list[ShadowCopy]] = defaultdict(list)
        self._deliveries: dict[str, list[Delivered]] = defaultdict(list)
        self._attempts: dict[str, list[Attempt]] = defaultdict(list)
        self._discards_by_copy: dict[tuple[str, str], list[Discard]] = defaultdict(list)
        self._steps: dict[tuple[str, str], StepEvent] = {}
        self._labels: dict[str, StepEvent] = {}
        for event in events:
            self.add(event)

    def add(self, event: AnyEvent) -> None:
        """Add the next event to the history and to every index.

        Raises KeyError for an event of a session that was never opened.
        """
        self.events.append(event)
        self._by_type[type(event)].append(event)
        match event:
            case Connected():
                self.sessions[event.session] = Session.from_event(event)
                if (event.client, event.server) in self._delayed_dials:
                    self.delayed_sessions.add(event.session)
            case Command():
                self._add_command(event, self.sessions[event.session])
            case Reply():
                self._add_reply(event, self.sessions[event.session])
            case Content():
                self._add_content(event, self.sessions[event.session])
            case Closed():
                self.sessions[event.session].closed = event
            case MessageMade():
                self._add_message(event)
            case Delivered():
                if (name := self.identify_message(event.digest)) is not None:
                    self._deliveries[name].append(event)
            case Attempt():
                self._attempts[event.message].append(event)
                if event.session is not None:
                    self.harness_sessions.add(event.session)
            case Talked(session=str(session)):
                self.harness_sessions.add(session)
            case FaultFired(session=None) if event.action in DELAYING_FAULTS:
                self._delayed_dials.add((event.client, event.server))
            case FaultFired(session=str(session)):
                if event.action in ALTERING_FAULTS:
                    self.altered_sessions.add(session)
                if event.action in HOLDING_FAULTS | DELAYING_FAULTS:
                    self.delayed_sessions.add(session)
                if event.action in HOLDING_FAULTS:
                    self.held_sessions.add(session)
            case StepEvent():
                self._steps[event.path, event.phase] = event
                # A started node counts from when it is ready: a program's start-up time is not part of its protocol.
                if event.phase == ("ended" if event.verb == "start" else "began") and event.label is not None:
                    self._labels[event.label] = event
            case _:
                pass

    def events_of(self, event_type: type[E]) -> list[E]:
        """Return the events of one type so far, in order: the list of the index itself, which grows."""
        return self._by_type[event_type]

    def find_step_event(self, path: str, phase: str) -> StepEvent | None:
        """Return the last event of the step with this path and of this phase, None when there is none yet."""
        return self._steps.get((path, phase))

    def find_label_event(self, label: str) -> StepEvent | None:
        """Return the event from which `since: LABEL` counts: the last begin of the step with that label, the end of a `start`.

        None before that event.
        """
        return self._labels.get(label)

    def find_messages(self, name: str) -> list[MessageMade]:
        """Return the message `m#3`, or every message of `m`, in the order in which they were made; [] for none."""
        message = self.messages.get(name)
        return [message] if message is not None else self._messages_by_base.get(name, [])

    def identify_message(self, digest: Digest | None) -> str | None:
        """Return the name of the message with this content, by its body, else by its Message-ID; None for no message.

        Of several messages with the same body the last that was made is meant, with the same Message-ID the first. A report about a
        message is not the message. None for None.
        """
        if digest is None or digest.report is not None:
            return None
        if (name := self._name_by_body.get(digest.body_sha256)) is not None:
            return name
        names = self._names_by_id.get(digest.message_id or "", [])
        return names[0] if names else None

    def indistinguishable_messages(self, original: MessageMade) -> list[str]:
        """Return the names of the messages with the same Message-ID and Date as `original`, its own name first.

        Duplicate detection of a mailbox goes by these two header fields. Without one of them, only `original` itself.
        """
        if original.message_id is None or original.digest.date is None:
            return [original.message]
        same_id = (self.messages[name] for name in self._names_by_id[original.message_id])
        others = [m.message for m in same_id if m.digest.date == original.digest.date and m is not original]
        return [original.message, *others]

    def transactions_of(self, name: str) -> list[Transaction]:
        """Return the transactions of any party in which the whole content of a message was sent, in the order of their dots."""
        return self._transactions.get(name, [])

    def accepted_since(self, sent: Transaction) -> int | None:
        """Return the number of the event since which the server of a transaction may have accepted the message.

        That is its positive reply, or the final dot in a session that a fault delayed: the link may have held the reply back.
        None where no positive reply was recorded.
        """
        if sent.acceptance is None:
            return None
        return sent.dot_n if sent.session in self.delayed_sessions and sent.dot_n is not None else sent.acceptance.n

    def may_be_unread(self, session: str, n: int) -> bool:
        """Return whether the client of a session may never have read the reply of event `n`.

        That is so if a fault delayed the session and the client sent no command after that event.
        """
        exchanges = self.sessions[session].exchanges
        return session in self.delayed_sessions and not any(x.command.n > n for x in exchanges)

    def attempts_of(self, name: str) -> list[Attempt]:
        """Return the harness's own transmissions of a message that have ended, in order."""
        return self._attempts.get(name, [])

    def copies_of(self, name: str) -> list[ShadowCopy]:
        """Return the stored shadow copies of a message, in the order in which they were stored."""
        return self._copies.get(name, [])

    def deliveries_of(self, name: str) -> list[Delivered]:
        """Return the deliveries of a message to sinks, one event for each recipient and time, in order; not those of reports about it."""
        return self._deliveries.get(name, [])

    def discards_of(self, name: str) -> list[Discard]:
        """Return the discard notifications for a message's shadow copies, in their order."""
        keys = dict.fromkeys((copy.primary, copy.shadow_id) for copy in self.copies_of(name))
        return sorted((d for key in keys for d in self._discards_by_copy.get(key, [])), key=lambda discard: discard.n)

    @property
    def shadow_attempts(self) -> list[ShadowAttempt]:
        """Every attempt to have a shadow copy stored, in the order of its numbers.

        That is each transaction of the kind `shadow`, each failed connection to a `transport` listener, and each session that
        asked for a shadow copy and has no such transaction, unless it was granted one and is still open. A session with such a
        listener in which EHLO was never answered positively counts too: its purpose cannot be seen.
        """
        return find_shadow_attempts(self.sessions.values(), self.events_of(ConnectFailed))

    def _add_message(self, event: MessageMade) -> None:
        """Index a message by its name, its base name (`m` of `m#1`), its body (unless that is empty) and its Message-ID."""
        self.messages[event.message] = event
        self._messages_by_base[event.message.partition("#")[0]].append(event)
        if event.digest.body_sha256 != _EMPTY_BODY:
            self._name_by_body[event.digest.body_sha256] = event.message
        if event.message_id:
            self._names_by_id[event.message_id].append(event.message)

    def _add_command(self, event: Command, session: Session) -> None:
        """Add a command to its session; add to the trace the query, or the transaction, that begins with it."""
        exchange = session.add_command(event)
        if event.operation is not None and event.operation.name == "query-discard":
            self.queries.append(
                Query(
                    client=session.client,
                    server=session.server,
                    session=session.name,
                    n=event.n,
                    t=event.t,
                    exchange=exchange,
                )
            )
        if event.verb == "MAIL":  # of a damaged history, whatever the operation is
            self.transactions.append(session.transactions[-1])

    def _add_content(self, event: Content, session: Session) -> None:
        """End the session's open transaction, and index it by its message if the content is of one.

        If the content is a report, add the transaction to `reports`. Nothing is indexed for a content outside of any transaction.
        """
        name = self.identify_message(event.digest)
        sent = session.add_content(event, name)
        if sent is not None and name is not None:
            self._transactions[name].append(sent)
        if sent is not None and event.digest.report is not None:
            self.reports.append(sent)

    def _add_reply(self, event: Reply, session: Session) -> None:
        """Add a reply to its session, and to the trace the discard notifications that it lists, or the copy that it shows as stored."""
        sent = session.add_reply(event)
        operation = event.operation
        if operation is not None and operation.name == "discard-list":
            for shadow_id in operation.shadow_ids:
                discard = Discard(
                    primary=session.server,
                    holder=session.client,
                    shadow_id=shadow_id,
                    session=session.name,
                    n=event.n,
                    t=event.t,
                )
                self.discards.append(discard)
                self._discards_by_copy[session.server, shadow_id].append(discard)
        elif sent is not None and sent.kind != "plain" and sent.acceptance is event:  # not a later one of LMTP
            # 2010 (`tracked`): the client keeps the copy, and the server delivers
            primary, holder = (sent.client, sent.server) if sent.kind == "shadow" else (sent.server, sent.client)
            copy = ShadowCopy(primary=primary, holder=holder, transaction=sent, stored_reply=event)
            self.copies.append(copy)
            if sent.message is not None:
                self._copies[sent.message].append(copy)
