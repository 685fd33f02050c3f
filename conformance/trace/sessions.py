"""SMTP sessions as the judge sees them: exchanges of command and reply, and the mail transactions within.

`Trace` gives a `Session` the events of one recorded connection in order; the session pairs each reply with its command and
cuts the commands into mail transactions (RFC 5321 4.1.4). `n` is an event's number in the history, `t` its time in
documented seconds since the cell began. `operation` is what an event means for shadow redundancy. A transaction is *open* from
MAIL to its final dot (`_open`); another MAIL before that interrupts it, and ends it if it is accepted. `_unanswered...` are
lists of what waits for its reply, in order: commands, recipients of RCPT, and contents, each with the last BDAT command if it
had one.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from conformance.history.events import NO_VERB, Closed, Command, Connected, Content, Reply
from conformance.history.values import Digest, Listener

TransactionKind = Literal["plain", "shadow", "tracked"]
"""`plain`: ordinary mail; `shadow`: a shadow copy that the server is to hold (2013 and later); `tracked`: mail of which the
client keeps a shadow, whose discard status it queries later (2010)."""

LAST_CHUNK = re.compile(r"BDAT [0-9]{1,12} LAST\s*", re.IGNORECASE)
"""The command of the chunk that ends a content (RFC 3030 2); the reply to it is the final reply."""

_XTEXT = re.compile(r"\+([0-9A-Fa-f]{2})")
_ENDS_TRANSACTION = frozenset({"RSET", "EHLO", "HELO", "LHLO", "QUIT"})


@dataclass(slots=True)
class Exchange:
    """A command and its reply; None until the reply was seen. That to the last BDAT chunk is the final reply."""

    command: Command
    reply: Reply | None = None


@dataclass(slots=True)
class Transaction:
    """One mail transaction, from MAIL to its final replies, or to where it was broken off.

    `n` and `t` are those of MAIL; `dot_n` and `dot_t` those of the final dot, None before it, as is `digest` (hashes of
    the content). `sender` is '' for the null reverse-path; `shadow_id` is the one in MAIL, None for `plain`.
    `recipients` are those that were not refused, `refused` the others. `message` is the scenario's name of the message
    (`m#1`), None when the content is of no message of the scenario, or was not sent. `replies` are the final replies:
    LMTP gives one for each recipient.
    """

    session: str
    client: str
    server: str
    listener: Listener
    n: int
    t: float
    sender: str
    kind: TransactionKind = "plain"
    shadow_id: str | None = None
    recipients: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    digest: Digest | None = None
    message: str | None = None
    dot_n: int | None = None
    dot_t: float | None = None
    replies: list[Reply] = field(default_factory=list)

    @property
    def acceptance(self) -> Reply | None:
        """The first positive final reply, None without one."""
        return next((reply for reply in self.replies if reply.code // 100 == 2), None)

    @property
    def accepted_recipients(self) -> list[str]:
        """The recipients for whom a final reply accepted the message; [] without a positive one.

        LMTP replies for each of them (RFC 2033 4.2), SMTP for all that were not refused.
        """
        positive = [reply for reply in self.replies if reply.code // 100 == 2]
        if any(reply.recipient is not None for reply in self.replies):
            accepted = {reply.recipient for reply in positive}
            return [recipient for recipient in self.recipients if recipient in accepted]
        return list(self.recipients) if positive else []


@dataclass(slots=True)
class Session:
    """One recorded connection; `n` and `t` are those of its opening.

    `keywords` are those of the last positive reply to EHLO or LHLO, None before the first such reply. `shadow_request` is
    the last request for shadow redundancy that the client made in the session. `replies` has all replies, `closed` is None
    while the session is open. `_open` is the transaction before its final dot, `_last_sent` the last one after its final
    dot. `_interrupted` are those that were open when another MAIL came, which may yet be refused. The lists `_unanswered...`
    have what waits for its reply, in order: commands, recipients of RCPT with their transaction, and contents.
    """

    name: str
    client: str
    server: str
    listener: Listener
    n: int
    t: float
    keywords: frozenset[str] | None = None
    shadow_request: Literal["request-shadow", "track-shadow"] | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    closed: Closed | None = None
    # Lists with one element at a time: an empty deque takes ten times their memory, and a run of weeks has a hundred
    # thousand sessions.
    _unanswered: list[Exchange] = field(default_factory=list)
    _unanswered_recipients: list[tuple[Transaction | None, str]] = field(default_factory=list)
    _unanswered_contents: list[tuple[Transaction | None, Exchange | None]] = field(default_factory=list)
    """Each content without its reply: its transaction, None for one outside of any; and the last chunk, None after DATA."""
    _open: Transaction | None = None
    _interrupted: tuple[Transaction, ...] = ()
    _last_sent: Transaction | None = None

    @classmethod
    def from_event(cls, event: Connected) -> "Session":
        """Return the session that a connection opened, without commands so far."""
        return cls(
            name=event.session,
            client=event.client,
            server=event.server,
            listener=event.listener,
            n=event.n,
            t=event.t,
        )

    def add_command(self, event: Command) -> Exchange:
        """Add the next command and return its exchange, without a reply so far.

        MAIL begins a transaction, RCPT adds a recipient to the open one, and RSET, EHLO, HELO, LHLO or QUIT end it
        (RFC 5321 4.1.4), before any reply.
        """
        exchange = Exchange(event)
        self.exchanges.append(exchange)
        if event.verb != "BDAT" or not LAST_CHUNK.fullmatch(event.line):
            self._unanswered.append(exchange)
        name = event.operation.name if event.operation else None
        if name in ("request-shadow", "track-shadow"):
            self.shadow_request = name
        if event.verb == "MAIL":  # of a damaged history, whatever the operation is
            self._begin_transaction(event)
        elif event.verb == "RCPT":
            recipient = parse_path(event.line)
            self._unanswered_recipients.append((self._open, recipient))
            if self._open is not None:
                self._open.recipients.append(recipient)
        elif event.verb in _ENDS_TRANSACTION:
            self._open, self._interrupted = None, ()
        return exchange

    def add_content(self, event: Content, message: str | None) -> Transaction | None:
        """End the open transaction at its final dot, or the end of its last chunk; return it, or None without an open one.

        `message` is the scenario's name of the message, None for a content that is of none. The content then waits for its final
        replies.
        """
        sent, self._open, self._interrupted = self._open, None, ()
        if sent is not None:
            sent.digest, sent.message, sent.dot_n, sent.dot_t = event.digest, message, event.n, event.t
            self._last_sent = sent
        last = self.exchanges[-1] if self.exchanges and self.exchanges[-1].command.verb == "BDAT" else None
        if sent is not None or last is not None:
            self._unanswered_contents.append((sent, last))
        return sent

    def add_reply(self, event: Reply) -> Transaction | None:
        """Give the next reply to the content, or to the oldest command of that verb without a reply, that it answers.

        Return the transaction of which it is a final reply (see `_add_final_reply`), None for any other reply. A refused RCPT
        moves its recipient from `recipients` to `refused`; a refused MAIL ends its transaction (see `_answer_mail`).
        """
        self.replies.append(event)
        if event.to == "CONTENT":
            return self._add_final_reply(event)
        verb = "" if event.to == NO_VERB else event.to
        exchange = next((exchange for exchange in self._unanswered if exchange.command.verb == verb), None)
        if exchange is not None:
            self._unanswered.remove(exchange)
            exchange.reply = event
        positive = event.code // 100 == 2
        if event.to in ("EHLO", "LHLO") and positive:
            self.keywords = _parse_keywords(event.lines)
        elif event.to == "RCPT" and self._unanswered_recipients:
            transaction, recipient = self._unanswered_recipients.pop(0)
            if transaction is not None and not positive:
                transaction.recipients.remove(recipient)
                transaction.refused.append(recipient)
        elif event.to == "MAIL" and exchange is not None:
            self._answer_mail(exchange.command.n, accepted=positive)
        return None

    def _answer_mail(self, n: int, *, accepted: bool) -> None:
        """End what the reply to the MAIL of event `n` ends: interrupted transactions if it was accepted, else its own.

        Only a MAIL that succeeds begins a transaction (RFC 5321 4.1.4): the server goes on with the one that a refused MAIL has
        interrupted, and what RCPT has named since then belongs to that.
        """
        refused = self._open
        if accepted:
            self._interrupted = tuple(other for other in self._interrupted if other.n >= n)
        elif refused is None or refused.n != n:
            self._interrupted = tuple(other for other in self._interrupted if other.n != n)
        elif not self._interrupted:
            self._open = None
        else:
            *before, resumed = self._interrupted
            self._open, self._interrupted = resumed, tuple(before)
            self._unanswered_recipients = [
                (resumed if of is refused else of, recipient) for of, recipient in self._unanswered_recipients
            ]
            resumed.recipients += refused.recipients
            refused.recipients = []

    def _add_final_reply(self, event: Reply) -> Transaction | None:
        """Add a final reply to the transaction that waits longest, a surplus one to the last; return that transaction.

        An LMTP transaction waits for one reply for each recipient; only LMTP replies have a `recipient`. Return None for a
        reply that belongs to no transaction: one before the content has ended, such as the 421 of a timeout, and one to a
        content outside of any transaction.
        """
        if not self._unanswered_contents and self._is_content_awaited():
            return None
        sent, last = self._unanswered_contents[0] if self._unanswered_contents else (self._last_sent, None)
        if last is not None:
            last.reply = event
        if sent is not None:
            sent.replies.append(event)
        if self._unanswered_contents and (
            sent is None or event.recipient is None or len(sent.replies) >= len(sent.recipients)
        ):
            self._unanswered_contents.pop(0)
        return sent

    def _is_content_awaited(self) -> bool:
        """Return whether the server has asked for a content, by 354 to the latest command, that has not ended."""
        last = self.exchanges[-1] if self.exchanges else None
        return self._open is not None and last is not None and last.reply is not None and last.reply.code == 354

    def _begin_transaction(self, event: Command) -> None:
        """Add a transaction that begins with this MAIL, and make it the open one in place of one that it interrupts.

        Its kind is `plain` without a shadow id in MAIL; with one `tracked` if the client's last request in the session was
        track-shadow (XSHADOW), else `shadow`.
        """
        if self._open is not None:
            self._interrupted = (*self._interrupted, self._open)
        shadow_id = event.operation.shadow_id if event.operation else None
        tracked = self.shadow_request == "track-shadow"
        kind: TransactionKind = "plain" if shadow_id is None else "tracked" if tracked else "shadow"
        self._open = Transaction(
            session=self.name,
            client=self.client,
            server=self.server,
            listener=self.listener,
            n=event.n,
            t=event.t,
            sender=parse_path(event.line),
            kind=kind,
            shadow_id=shadow_id,
        )
        self.transactions.append(self._open)


@lru_cache(maxsize=256)  # servers send the same lines in each session
def _parse_keywords(lines: tuple[str, ...]) -> frozenset[str]:
    """Return the keywords of a reply to EHLO or LHLO, given by the texts of its lines, in capitals, without their parameters."""
    # the first line has the server's name
    return frozenset(line.split(" ")[0].upper() for line in lines[1:])


def decode_xtext(value: str) -> str:
    """Return xtext (RFC 3461 4), the value of ORCPT and ENVID, as the text that it stands for."""
    return _XTEXT.sub(lambda match: chr(int(match[1], 16)), value)


def parse_path(line: str) -> str:
    """Return the address between the angle brackets of a MAIL or RCPT line, '' for the null path and without brackets."""
    return line.partition("<")[2].partition(">")[0]
