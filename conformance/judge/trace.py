"""A history as the judge sees it: sessions and their mail transactions, shadow copies, discard notifications, deliveries.

Events are taken one by one, each at a cost that does not grow with how many came before: what waits for an
expectation asks again after every event.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from conformance.faults import ALTERING_FAULTS, HOLDING_FAULTS
from conformance.history.events import (
    AnyEvent,
    Attempt,
    Closed,
    Command,
    Connected,
    ConnectFailed,
    Content,
    Delivered,
    Digest,
    Event,
    FaultFired,
    MessageMade,
    Reply,
    StepEvent,
    Talked,
)
from conformance.judge.sessions import Exchange, Session, Transaction

E = TypeVar("E", bound=Event)

_EMPTY = hashlib.sha256(b"").hexdigest()
"""The hash of a body that is empty: it tells no message from another."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A shadow copy that is known to be stored, since `stored` said so; `holder` keeps it for `primary`.

    In 2013 and later the holder is the server of the transaction; in 2010 it is the client, who keeps what it sent.
    """

    primary: str
    holder: str
    transaction: Transaction
    stored: Reply

    @property
    def shadow_id(self) -> str:
        """Under which name the primary tells that it may go."""
        assert self.transaction.shadow_id is not None
        return self.transaction.shadow_id


@dataclass(frozen=True, slots=True)
class ShadowAttempt:
    """A primary's attempt at a shadow server; `message` and `sent` are None where it did not come to a message.

    Its number and time are those of MAIL; where it did not come so far, those of the request that was in vain, or of the
    connection. A session may be opened long before it is used (ruling 14).
    """

    client: str
    server: str
    n: int
    t: float
    message: str | None
    sent: Transaction | None


@dataclass(frozen=True, slots=True)
class Discard:
    """One discard notification: the primary told a shadow server that a shadow may go."""

    primary: str
    holder: str
    shadow_id: str
    session: str
    n: int
    t: float


@dataclass(slots=True)
class Query:
    """One XQDISCARD, and the discard list that was the answer to it, if there was one."""

    by: str
    at: str
    session: str
    n: int
    t: float
    exchange: Exchange

    @property
    def answered(self) -> bool:
        """Whether a discard list was the answer."""
        reply = self.exchange.reply
        return reply is not None and reply.operation is not None and reply.operation.name == "discard-list"


class Trace:
    """Everything that checks ask of a sequence of events."""

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        self.events: list[AnyEvent] = []
        self.sessions: dict[str, Session] = {}
        self.messages: dict[str, MessageMade] = {}
        self.transactions: list[Transaction] = []
        self.copies: list[Copy] = []
        self.discards: list[Discard] = []
        self.queries: list[Query] = []
        self.tampered: set[str] = set()
        self.held: set[str] = set()
        self.spoken: set[str] = set()
        self._kinds: dict[type, list[Any]] = defaultdict(list)
        self._named: dict[str, list[MessageMade]] = defaultdict(list)
        self._by_body: dict[str, str] = {}
        self._by_id: dict[str, list[str]] = defaultdict(list)
        self._sent: dict[str, list[Transaction]] = defaultdict(list)
        self._copies: dict[str, list[Copy]] = defaultdict(list)
        self._delivered: dict[str, list[Delivered]] = defaultdict(list)
        self._attempts: dict[str, list[Attempt]] = defaultdict(list)
        self._told: dict[tuple[str, str], list[Discard]] = defaultdict(list)
        self._steps: dict[tuple[str, str], StepEvent] = {}
        self._labels: dict[str, StepEvent] = {}
        for event in events:
            self.add(event)

    def add(self, event: AnyEvent) -> None:
        """Take the next event."""
        self.events.append(event)
        self._kinds[type(event)].append(event)
        match event:
            case Connected():
                self.sessions[event.session] = Session.begun(event)
            case Command():
                self._command(event, self.sessions[event.session])
            case Reply():
                self._reply(event, self.sessions[event.session])
            case Content():
                self._content(event, self.sessions[event.session])
            case Closed():
                self.sessions[event.session].closed = event
            case MessageMade():
                self._made(event)
            case Delivered():
                if (message := self.message_of(event.digest)) is not None:
                    self._delivered[message].append(event)
            case Attempt():
                self._attempts[event.message].append(event)
                if event.session is not None:
                    self.spoken.add(event.session)
            case Talked(session=str(session)):
                self.spoken.add(session)
            case FaultFired(session=str(session)):
                if event.action in ALTERING_FAULTS:
                    self.tampered.add(session)
                if event.action in HOLDING_FAULTS:
                    self.held.add(session)
            case StepEvent():
                self._steps[event.path, event.phase] = event
                # A node that starts is there when it is ready: how long a program takes to start is not its protocol.
                if event.phase == ("ended" if event.verb == "start" else "began") and event.label is not None:
                    self._labels[event.label] = event
            case _:
                pass

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of a kind, in order."""
        return self._kinds[kind]

    def step(self, path: str, phase: str) -> StepEvent | None:
        """Return the last event of a step and phase."""
        return self._steps.get((path, phase))

    def labelled(self, label: str) -> StepEvent | None:
        """Return where the step of that label began last."""
        return self._labels.get(label)

    def named(self, name: str) -> list[MessageMade]:
        """Return the messages that `m` or `m#3` stands for."""
        one = self.messages.get(name)
        return [one] if one is not None else self._named.get(name, [])

    def message_of(self, digest: Digest | None) -> str | None:
        """Return the name of the message whose content this is: by its body, which no two share, else by Message-ID."""
        if digest is None or digest.report is not None:
            return None
        if (found := self._by_body.get(digest.body_sha256)) is not None:
            return found
        same = self._by_id.get(digest.message_id or "", [])
        return same[0] if same else None

    def twins(self, made: MessageMade) -> list[str]:
        """Return the names of all messages, itself first, that no mailbox can tell from one: same Message-ID and Date."""
        if made.message_id is None or made.digest.date is None:
            return [made.message]
        same = (self.messages[name] for name in self._by_id[made.message_id])
        others = [one.message for one in same if one.digest.date == made.digest.date and one is not made]
        return [made.message, *others]

    def transactions_of(self, message: str) -> list[Transaction]:
        """Return the transactions in which the whole content of a message was sent, in the order of their dots."""
        return self._sent.get(message, [])

    def attempts_of(self, message: str) -> list[Attempt]:
        """Return the harness's transmissions of a message."""
        return self._attempts.get(message, [])

    def copies_of(self, message: str) -> list[Copy]:
        """Return the stored shadow copies of a message."""
        return self._copies.get(message, [])

    def deliveries_of(self, message: str) -> list[Delivered]:
        """Return what sinks took of a message."""
        return self._delivered.get(message, [])

    def discards_of(self, message: str) -> list[Discard]:
        """Return the discard notifications for a message's shadows, in the order of their telling."""
        keys = dict.fromkeys((copy.primary, copy.shadow_id) for copy in self.copies_of(message))
        return sorted((d for key in keys for d in self._told.get(key, [])), key=lambda discard: discard.n)

    @property
    def shadow_attempts(self) -> list[ShadowAttempt]:
        """Every attempt at a shadow server, in order: each shadow message that was begun, each session that was to make
        one and never came so far, and each connection in vain.

        A session between servers in which the server never answered EHLO is one too: nobody can see what it was for.
        """
        found = []
        for one in self.sessions.values():
            sent = [t for t in one.transactions if t.way == "shadow"]
            found += [ShadowAttempt(one.client, one.server, t.n, t.t, t.message, t) for t in sent]
            if not sent and (vain := _came_to_nothing(one)) is not None:
                found.append(ShadowAttempt(one.client, one.server, *vain, None, None))
        found += [
            ShadowAttempt(event.client, event.server, event.n, event.t, None, None)
            for event in self.of(ConnectFailed)
            if event.listener == "transport"
        ]
        return sorted(found, key=lambda attempt: attempt.n)

    def _made(self, event: MessageMade) -> None:
        self.messages[event.message] = event
        self._named[event.message.partition("#")[0]].append(event)
        if event.digest.body_sha256 != _EMPTY:
            self._by_body[event.digest.body_sha256] = event.message
        if event.message_id:
            self._by_id[event.message_id].append(event.message)

    def _command(self, event: Command, session: Session) -> None:
        exchange = session.command(event)
        if event.operation is not None and event.operation.name == "query-discard":
            self.queries.append(Query(session.client, session.server, session.name, event.n, event.t, exchange))
        elif event.verb == "MAIL":
            self.transactions.append(session.transactions[-1])

    def _content(self, event: Content, session: Session) -> None:
        message = self.message_of(event.digest)
        sent = session.content(event, message)
        if sent is not None and message is not None:
            self._sent[message].append(sent)

    def _reply(self, event: Reply, session: Session) -> None:
        sent = session.reply(event)
        operation = event.operation
        if operation is not None and operation.name == "discard-list":
            for shadow_id in operation.shadow_ids:
                told = Discard(session.server, session.client, shadow_id, session.name, event.n, event.t)
                self.discards.append(told)
                self._told[session.server, shadow_id].append(told)
        elif sent is not None and sent.way != "plain" and sent.accepted is event:
            primary, holder = (sent.client, sent.server) if sent.way == "shadow" else (sent.server, sent.client)
            copy = Copy(primary, holder, sent, event)
            self.copies.append(copy)
            if sent.message is not None:
                self._copies[sent.message].append(copy)


def _came_to_nothing(session: Session) -> tuple[int, float] | None:
    """Return the number and time of an attempt that came to no message, or None where a session was none.

    One that is open and has been granted the request waits for a message (ruling 14). One in which EHLO was never
    answered may have been for a shadow.
    """
    if session.asked_for != "request-shadow":
        silent = session.listener == "transport" and session.keywords is None
        return (session.n, session.t) if silent else None
    asked = [
        x for x in session.exchanges if x.command.operation is not None and x.command.operation.name == "request-shadow"
    ]
    granted = any(x.reply is not None and x.reply.code // 100 == 2 for x in asked)
    if granted and session.closed is None:
        return None
    return asked[-1].command.n, asked[-1].command.t
