"""The server under probe, as checks see it: opens sessions, begins transactions, and says what it offers.

Each check gets the same `Server`. A session is held by `async with server.session() as session`, and ends with the
block.
"""

import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from conformance.probe.session import EHLO_NAME, ProbeSession, Reply, SessionLog
from conformance.probe.sink import ProbeSink


class NotApplicable(Exception):
    """The check has no occasion on this server; the text says why."""


def unverified_context() -> ssl.SSLContext:
    """Return a context for TLS with a server whose certificate is not judged."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(slots=True)
class Server:
    """The server at `address`, and what the first session has shown of it.

    `limit`: seconds to wait for a reply. `tls`: TLS begins with the connection. `recipient`: an address to which mail may be
    sent, None if the user named none. `keywords` are those of EHLO.
    `sink` takes that mail where the server passes it on to it. `accepted` has the names of the messages that were acknowledged,
    and `token` makes them those of this run.
    """

    address: tuple[str, int]
    limit: float
    tls: bool = False
    recipient: str | None = None
    keywords: dict[str, str] = field(default_factory=dict)
    log: SessionLog = field(default_factory=SessionLog)
    sink: ProbeSink | None = None
    accepted: set[str] = field(default_factory=set)
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[ProbeSession]:
        """Open a connection whose greeting has not been read; the end of the block closes it. Raises OSError if there is none."""
        context = unverified_context() if self.tls else None
        session = await ProbeSession.open(self.address, self.log, self.limit, context)
        try:
            yield session
        finally:
            await session.close()

    @asynccontextmanager
    async def session(self, hello: str | None = "EHLO") -> AsyncIterator[ProbeSession]:
        """Open a session that has had its greeting, and EHLO or HELO as `hello` says (None: neither); it ends with the block.

        Raises NotApplicable if the greeting is not 220 or EHLO is refused; ServerClosed, ServerSilent, Unanswered; OSError.
        """
        async with self.connection() as session:
            greeting = await session.greeting()
            if greeting.code != 220:
                raise NotApplicable(f"the server greets with {greeting}")
            if hello is not None:
                reply = await session.ehlo(hello)
                if not reply.positive:
                    raise NotApplicable(f"{hello} {EHLO_NAME} is refused: {reply}")
            yield session

    def require_extension(self, keyword: str) -> str:
        """Return the parameters of an EHLO keyword ('' for none). Raises NotApplicable if the server does not offer it."""
        if keyword not in self.keywords:
            raise NotApplicable(f"{keyword} is not offered")
        return self.keywords[keyword]

    def mark(self, name: str) -> str:
        """Return the left part of the Message-ID of the message of this name, `NAME.TOKEN`, which no other run has."""
        return f"{name}.{self.token}"

    def require_recipient(self) -> str:
        """Return the address to which mail may be sent. Raises NotApplicable if the user named none."""
        if self.recipient is None:
            raise NotApplicable("it would send mail, and no recipient is permitted with --rcpt")
        return self.recipient


async def begin_transaction(session: ProbeSession, sender: str = "") -> Reply:
    """Send MAIL with a reverse-path, the null one by default, and return the reply.

    Raises NotApplicable if it is refused, and what `ProbeSession.command` raises.
    """
    reply = await session.command(f"MAIL FROM:<{sender}>")
    if not reply.positive:
        raise NotApplicable(f"MAIL FROM:<{sender}> is refused: {reply}")
    return reply


async def add_recipient(session: ProbeSession, server: Server) -> Reply:
    """Send RCPT with the permitted recipient, else with <postmaster>, and return the reply.

    The recipient gets no mail unless content follows. Raises NotApplicable if RCPT is refused, and what
    `ProbeSession.command` raises.
    """
    recipient = server.recipient or "postmaster"
    reply = await session.command(f"RCPT TO:<{recipient}>")
    if not reply.positive:
        raise NotApplicable(f"RCPT TO:<{recipient}> is refused: {reply}")
    return reply
