"""A history as the judge sees it: sessions folded into mail transactions, shadow copies, discard notifications, deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from conformance.history.events import (
    AnyEvent,
    Command,
    Connected,
    ConnectFailed,
    Content,
    Delivered,
    Digest,
    MessageMade,
    Reply,
)

E = TypeVar("E")


@dataclass(slots=True)
class Transaction:
    """One mail transaction: from MAIL to its final replies, or to wherever it ended."""

    session: str
    client: str
    server: str
    listener: str
    n: int
    t: float
    shadow_id: str | None = None
    recipients: list[str] = field(default_factory=list)
    digest: Digest | None = None
    dot: int | None = None
    dot_t: float | None = None
    replies: list[Reply] = field(default_factory=list)

    @property
    def accepted(self) -> Reply | None:
        """The positive final reply, if there was one."""
        return next((reply for reply in self.replies if reply.code // 100 == 2), None)


@dataclass(frozen=True, slots=True)
class ShadowAttempt:
    """A primary's attempt at a shadow server: a session that asked for it or carried it, or a connection in vain."""

    client: str
    server: str
    n: int
    t: float
    message: str | None


@dataclass(frozen=True, slots=True)
class Discard:
    """One discard notification: the primary told a shadow server that a shadow may go."""

    primary: str
    shadow_server: str
    shadow_id: str
    n: int
    t: float


@dataclass(frozen=True, slots=True)
class Query:
    """One XQDISCARD, and whether it was answered."""

    by: str
    at: str
    session: str
    n: int
    t: float
    answered: bool


class Trace:
    """Everything that checks ask of a sequence of events."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self.events = events

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of a kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @cached_property
    def sessions(self) -> dict[str, Connected]:
        """Each session's beginning."""
        return {event.session: event for event in self.of(Connected)}

    @cached_property
    def messages(self) -> dict[str, MessageMade]:
        """The harness's messages by their name in the scenario."""
        return {event.message: event for event in self.of(MessageMade)}

    def named(self, name: str) -> list[MessageMade]:
        """Return the messages that `m` or `m#3` stands for."""
        return [m for key, m in self.messages.items() if key == name or key.partition("#")[0] == name]

    @cached_property
    def _by_identity(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, made in self.messages.items():
            found[made.digest.body_sha256] = name
            if made.message_id:
                found[made.message_id] = name
        return found

    def message_of(self, digest: Digest | None) -> str | None:
        """Return the name of the message whose content this is: by Message-ID, else by its body."""
        if digest is None or digest.report is not None:
            return None
        return self._by_identity.get(digest.message_id or "") or self._by_identity.get(digest.body_sha256)

    @cached_property
    def transactions(self) -> list[Transaction]:
        """Every mail transaction, in the order of MAIL."""
        found: list[Transaction] = []
        current: dict[str, Transaction] = {}
        for event in self.events:
            match event:
                case Command(verb="MAIL"):
                    where = self.sessions[event.session]
                    shadow_id = event.operation.shadow_id if event.operation else None
                    made = Transaction(
                        event.session, where.client, where.server, where.listener, event.n, event.t, shadow_id
                    )
                    current[event.session] = made
                    found.append(made)
                case Command(verb="RCPT") if event.session in current:
                    start, end = event.line.find("<"), event.line.find(">")
                    current[event.session].recipients.append(event.line[start + 1 : end])
                case Content() if event.session in current:
                    now = current[event.session]
                    now.digest, now.dot, now.dot_t = event.digest, event.n, event.t
                case Reply(to="CONTENT") if event.session in current:
                    current[event.session].replies.append(event)
                case _:
                    continue
        return found

    @cached_property
    def copies(self) -> list[Transaction]:
        """Shadow copies that a shadow server has acknowledged."""
        return [t for t in self.transactions if t.shadow_id is not None and t.accepted is not None]

    @cached_property
    def attempts(self) -> list[ShadowAttempt]:
        """Every attempt at a shadow server: one for each session that meant to make a shadow, or connection in vain."""
        asked = {
            event.session
            for event in self.of(Command)
            if event.operation is not None and event.operation.name == "request-shadow"
        }
        silent = self._silent_sessions
        found = [
            ShadowAttempt(event.client, event.server, event.n, event.t, self._carried(event.session))
            for event in self.of(Connected)
            if event.session in asked or event.session in silent
        ]
        found += [
            ShadowAttempt(event.client, event.server, event.n, event.t, None)
            for event in self.of(ConnectFailed)
            if event.listener == "transport"
        ]
        return sorted(found, key=lambda attempt: attempt.n)

    @cached_property
    def _silent_sessions(self) -> set[str]:
        """Sessions between servers in which the server never answered EHLO: what they were for cannot be seen."""
        answered = {event.session for event in self.of(Reply) if event.to in ("EHLO", "LHLO")}
        return {s for s, where in self.sessions.items() if where.listener == "transport" and s not in answered}

    def _carried(self, session: str) -> str | None:
        return next((self.message_of(t.digest) for t in self.transactions if t.session == session and t.digest), None)

    @cached_property
    def discards(self) -> list[Discard]:
        """Every discard notification, in the order in which they were told."""
        return [
            Discard(self.sessions[e.session].server, self.sessions[e.session].client, shadow_id, e.n, e.t)
            for e in self.of(Reply)
            if e.operation is not None and e.operation.name == "discard-list"
            for shadow_id in e.operation.shadow_ids
        ]

    @cached_property
    def queries(self) -> list[Query]:
        """Every query for discard status."""
        answered = {e.session for e in self.of(Reply) if e.operation is not None and e.operation.name == "discard-list"}
        return [
            Query(
                self.sessions[e.session].client, self.sessions[e.session].server, e.session, e.n, e.t,
                e.session in answered,
            )
            for e in self.of(Command)
            if e.operation is not None and e.operation.name == "query-discard"
        ]  # fmt: skip

    def copies_of(self, message: str) -> list[Transaction]:
        """Return the acknowledged shadow copies of a message."""
        return [copy for copy in self.copies if self.message_of(copy.digest) == message]

    def deliveries_of(self, message: str, recipient: str | None = None) -> list[Delivered]:
        """Return what sinks took of a message, for one recipient or all."""
        return [
            event
            for event in self.of(Delivered)
            if self.message_of(event.digest) == message
            and (recipient is None or event.recipient.casefold() == recipient.casefold())
        ]

    def discards_of(self, message: str) -> list[Discard]:
        """Return the discard notifications for a message's shadows."""
        ids = {(copy.client, copy.shadow_id) for copy in self.copies_of(message)}
        return [discard for discard in self.discards if (discard.primary, discard.shadow_id) in ids]

    def taken_over(self, message: str) -> list[Transaction]:
        """Return what holders of a message's shadow transmitted of it as their own, after they had stored the shadow."""
        held: dict[str, int] = {}
        for copy in self.copies_of(message):
            assert copy.accepted is not None
            held.setdefault(copy.server, copy.accepted.n)
        given = {
            t.server: t.dot
            for t in reversed(self.transactions)
            if t.shadow_id is None and t.dot is not None and self.message_of(t.digest) == message
        }
        return [
            t
            for t in self.transactions
            if t.client in held
            and t.dot is not None
            and t.n > held[t.client]
            and self.message_of(t.digest) == message
            and not (t.client in given and given[t.client] < t.n)
        ]
