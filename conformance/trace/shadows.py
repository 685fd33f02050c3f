"""Shadow redundancy as a history shows it: the stored shadow copies, the attempts at them, discard notifications and queries.

A *primary* delivers a message of which a *holder* keeps a *shadow copy*, to deliver it if the primary fails. In 2013 and later
the primary sends the copy to a server that it asks for a shadow (`request-shadow`); in 2010 a client keeps what it sent. The
primary says by a *discard notification* that the copy is no longer needed, in its reply to a *query*, the command XQDISCARD.

`Trace` (`conformance.trace.trace`) makes these objects while it indexes a history. `n` is an event's number in the history, `t` its
time in documented seconds since the cell began. Rulings are those of docs/rulings.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.history.events import ConnectFailed, Reply
from conformance.trace.sessions import Exchange, Session, Transaction


@dataclass(frozen=True, slots=True)
class ShadowCopy:
    """A shadow copy that `holder` keeps for `primary`, known to be stored since `stored_reply` was given.

    In 2013 and later the holder is the server of the transaction; in 2010 it is the client, which keeps what it sent.
    """

    primary: str
    holder: str
    transaction: Transaction
    stored_reply: Reply

    @property
    def shadow_id(self) -> str:
        """The id by which discard notifications name the copy: that of its MAIL command."""
        assert self.transaction.shadow_id is not None
        return self.transaction.shadow_id


@dataclass(frozen=True, slots=True)
class ShadowAttempt:
    """A primary's attempt to have a shadow copy stored by `server`.

    `client` is the primary. `message` is the scenario's name of the message, None where the attempt ended before the content,
    or the content is of no message. `n` and `t` are those of MAIL; without MAIL those of the last request for a shadow, or of
    the connection. A session may be opened long before it is used (ruling 14).
    """

    client: str
    server: str
    n: int
    t: float
    message: str | None


@dataclass(frozen=True, slots=True)
class Discard:
    """One discard notification: `primary` notified `holder` that it may discard a shadow copy."""

    primary: str
    holder: str
    shadow_id: str
    session: str
    n: int
    t: float


@dataclass(slots=True)
class Query:
    """One XQDISCARD of `client` (the holder) to `server` (the primary), with its reply in `exchange`."""

    client: str
    server: str
    session: str
    n: int
    t: float
    exchange: Exchange

    @property
    def is_answered(self) -> bool:
        """Whether the reply is a discard list, which may be empty."""
        reply = self.exchange.reply
        return reply is not None and reply.operation is not None and reply.operation.name == "discard-list"


def find_shadow_attempts(
    sessions: Iterable[Session], failed_connections: Iterable[ConnectFailed]
) -> list[ShadowAttempt]:
    """Return every attempt to have a shadow copy stored, in the order of its numbers.

    That is each transaction of the kind `shadow`, each failed connection to a `transport` listener, and each session that was, or
    may have been, for a shadow copy and did not come to MAIL. Other sessions and failed connections may be among those given.
    """
    attempts = []
    for session in sessions:
        sent = [t for t in session.transactions if t.kind == "shadow"]
        attempts += [
            ShadowAttempt(client=session.client, server=session.server, n=t.n, t=t.t, message=t.message) for t in sent
        ]
        if not sent and (failed := _failed_before_mail(session)) is not None:
            n, t = failed
            attempts.append(ShadowAttempt(client=session.client, server=session.server, n=n, t=t, message=None))
    attempts += [
        ShadowAttempt(client=event.client, server=event.server, n=event.n, t=event.t, message=None)
        for event in failed_connections
        if event.listener == "transport"
    ]
    return sorted(attempts, key=lambda attempt: attempt.n)


def _failed_before_mail(session: Session) -> tuple[int, float] | None:
    """Return number and time of the attempt at a shadow copy that this session was and that did not come to MAIL, None for none.

    The caller passes only sessions without a shadow transaction. An open session whose request was granted waits for a message
    (ruling 14), so it has not failed; one whose request was not granted counts even while it is open. One with a `transport`
    listener in which EHLO was never answered positively may have been for a shadow copy: then number and time are those of
    the connection, else those of the last request.
    """
    if session.shadow_request != "request-shadow":
        silent = session.listener == "transport" and session.keywords is None
        return (session.n, session.t) if silent else None
    requests = [
        x for x in session.exchanges if x.command.operation is not None and x.command.operation.name == "request-shadow"
    ]
    granted = any(x.reply is not None and x.reply.code // 100 == 2 for x in requests)
    if granted and session.closed is None:
        return None
    return requests[-1].command.n, requests[-1].command.t
