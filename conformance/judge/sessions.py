"""Sessions as the judge sees them: exchanges of command and reply, and the mail transactions within."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from conformance.history.events import Closed, Command, Connected, Content, Digest, Listener, Reply

Way = Literal["plain", "shadow", "tracked"]
"""What a transaction is: ordinary mail, a shadow copy for the server to hold (2013 and later), or mail whose client
keeps the copy and asks for its discard status later (2010)."""

_ENDS_TRANSACTION = frozenset({"RSET", "EHLO", "HELO", "LHLO", "QUIT"})


@dataclass(slots=True)
class Exchange:
    """A command and the reply to it, once there was one."""

    command: Command
    reply: Reply | None = None


@dataclass(slots=True)
class Transaction:
    """One mail transaction, from MAIL to its final replies, or to wherever it ended.

    `recipients` are those that were not refused. `dot` is the number of the event with the final dot.
    """

    session: str
    client: str
    server: str
    listener: Listener
    n: int
    t: float
    sender: str
    way: Way = "plain"
    shadow_id: str | None = None
    recipients: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    digest: Digest | None = None
    message: str | None = None
    dot: int | None = None
    dot_t: float | None = None
    replies: list[Reply] = field(default_factory=list)

    @property
    def accepted(self) -> Reply | None:
        """The positive final reply, if there was one."""
        return next((reply for reply in self.replies if reply.code // 100 == 2), None)

    @property
    def taken_for(self) -> list[str]:
        """The recipients for whom the server took the message: LMTP says so one by one (RFC 2033 4.2)."""
        positive = [reply for reply in self.replies if reply.code // 100 == 2]
        if any(reply.recipient is not None for reply in self.replies):
            said = {reply.recipient for reply in positive}
            return [recipient for recipient in self.recipients if recipient in said]
        return list(self.recipients) if positive else []


@dataclass(slots=True)
class Session:
    """One recorded connection. `keywords` is what the last EHLO (LHLO) reply offered; None before there was one."""

    name: str
    client: str
    server: str
    listener: Listener
    n: int
    t: float
    keywords: frozenset[str] | None = None
    asked_for: Literal["request-shadow", "track-shadow"] | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    closed: Closed | None = None
    # Lists, which hold one thing at a time: a deque that is empty takes ten times their memory, and a run of weeks has
    # a hundred thousand sessions.
    _unanswered: list[Exchange] = field(default_factory=list)
    _named: list[tuple[Transaction, str]] = field(default_factory=list)
    _awaiting: list[Transaction] = field(default_factory=list)
    _open: Transaction | None = None
    _ended: Transaction | None = None

    @classmethod
    def begun(cls, event: Connected) -> "Session":
        """Return a session that has just begun."""
        return cls(event.session, event.client, event.server, event.listener, event.n, event.t)

    def command(self, event: Command) -> Exchange:
        """Take a command; a transaction ends where RFC 5321 4.1.4 says so."""
        exchange = Exchange(event)
        self.exchanges.append(exchange)
        self._unanswered.append(exchange)
        name = event.operation.name if event.operation else None
        if name in ("request-shadow", "track-shadow"):
            self.asked_for = name
        elif event.verb == "MAIL":
            self._begin(event)
        elif event.verb == "RCPT" and self._open is not None:
            self._named.append((self._open, address(event.line)))
            self._open.recipients.append(address(event.line))
        elif event.verb in _ENDS_TRANSACTION:
            self._open = None
        return exchange

    def content(self, event: Content, message: str | None) -> Transaction | None:
        """Take the final dot; return the transaction that it ended."""
        ended, self._open = self._open, None
        if ended is not None:
            ended.digest, ended.message, ended.dot, ended.dot_t = event.digest, message, event.n, event.t
            self._awaiting.append(ended)
            self._ended = ended
        return ended

    def reply(self, event: Reply) -> Transaction | None:
        """Take a reply; return the transaction whose content it answers. A recipient that was refused has no part."""
        self.replies.append(event)
        if event.to == "CONTENT":
            return self._final(event)
        exchange = next((one for one in self._unanswered if one.command.verb == event.to), None)
        if exchange is not None:
            self._unanswered.remove(exchange)
            exchange.reply = event
        positive = event.code // 100 == 2
        if event.to in ("EHLO", "LHLO") and positive:
            self.keywords = _offered(event.lines)
        elif event.to == "RCPT" and self._named:
            transaction, recipient = self._named.pop(0)
            if not positive:
                transaction.recipients.remove(recipient)
                transaction.refused.append(recipient)
        elif event.to == "MAIL" and not positive and exchange and self._open and self._open.n == exchange.command.n:
            self._open = None
        return None

    def _final(self, event: Reply) -> Transaction | None:
        """Give a final reply to its transaction. LMTP has one for each recipient; one too many goes to the last."""
        sent = self._awaiting[0] if self._awaiting else self._ended
        if sent is not None:
            sent.replies.append(event)
            if self._awaiting and (event.recipient is None or len(sent.replies) >= len(sent.recipients)):
                self._awaiting.pop(0)
        return sent

    def _begin(self, event: Command) -> None:
        shadow_id = event.operation.shadow_id if event.operation else None
        tracked = self.asked_for == "track-shadow"
        way: Way = "plain" if shadow_id is None else "tracked" if tracked else "shadow"
        self._open = Transaction(
            self.name, self.client, self.server, self.listener, event.n, event.t, address(event.line), way, shadow_id
        )
        self.transactions.append(self._open)


@lru_cache(maxsize=256)  # servers say the same in each session
def _offered(lines: tuple[str, ...]) -> frozenset[str]:
    """Return the keywords of a reply to EHLO or LHLO."""
    return frozenset(line.split(" ")[0].upper() for line in lines[1:])


def address(line: str) -> str:
    """Return the path of a MAIL or RCPT line, without its brackets."""
    return line.partition("<")[2].partition(">")[0]
