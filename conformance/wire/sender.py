"""The sender: hands messages of the harness to a server, with control of every point of the session.

What goes wrong on the way is an outcome, not an exception: a refusal, a lost session, silence.
"""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from conformance.wire.content import stuffed
from conformance.wire.link import Address, Origin
from conformance.wire.replies import Lost, Reply, read_reply
from conformance.wire.sockets import port_of, why

GREETING = EHLO = MAIL = RCPT = 300.0
DATA = 120.0
BLOCK = 180.0
DOT = 600.0
"""Seconds to wait for each reply, and for a block of the content to be taken (RFC 5321 4.5.3.2)."""

QUIT = 60.0
"""Seconds to wait for the reply to QUIT; it changes nothing any more."""

_BLOCK_OCTETS = 64 * 1024

Abandon = Literal["before-dot", "at-dot", "after-reply"]


@dataclass(frozen=True, slots=True)
class Recipient:
    """A recipient with its parameters (`NOTIFY=...` of RFC 3461), as they stand in the line."""

    address: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transmission:
    """One message to be sent: envelope, content (CRLF lines, not dot-stuffed), and where to give up on purpose."""

    sender: str
    recipients: tuple[Recipient, ...]
    content: bytes
    parameters: tuple[str, ...] = ()
    pipelining: bool = False
    abandon: Abandon | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """How a sender presents itself. `database` is named in XSHADOW, where that is offered and wanted."""

    ehlo: str = "outside.test"
    offers_xshadow: bool = False
    database: str = "outside-0"
    user: str | None = None
    secret: str = field(default="", repr=False)
    mechanism: Literal["PLAIN", "LOGIN"] = "PLAIN"
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a transmission; the fields are those of `conformance.history.events.Attempt`.

    `text` is that of the reply, or says how the session was lost.
    """

    outcome: Literal["answered", "lost", "abandoned"]
    session: str | None = None
    code: int | None = None
    enhanced: str | None = None
    text: str = ""
    accepted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    dot_sent: bool = False


class Refused(Exception):
    """The server refused the session itself: its greeting, a step before any mail, or 421 at any time."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"{reply.code} {reply.text}")
        self.reply = reply


@dataclass(slots=True)
class _Progress:
    """How far a transmission has come."""

    accepted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    dot_sent: bool = False
    last: Reply | None = None


class Sender:
    """One session with a server, for one message or many. Not opened yet until `open`, or the first `send`."""

    def __init__(
        self,
        address: Address,
        identity: Identity | None = None,
        *,
        duration: Callable[[float], float] = lambda seconds: seconds,
        origin: Callable[[int], Origin | None] = lambda port: None,
    ) -> None:
        self._address = address
        self._identity = identity or Identity()
        self._duration = duration
        self._origin = origin
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._port = 0
        self._keywords: dict[str, str] = {}
        self._shadowing = False
        self._sent = 0

    @property
    def session(self) -> str | None:
        """The session's name in the history, once the link knows it."""
        origin = self._origin(self._port) if self._port else None
        return origin.session if origin is not None else None

    @property
    def keywords(self) -> dict[str, str]:
        """What the server offered in its last EHLO reply: keyword to its parameters."""
        return self._keywords

    @property
    def usable(self) -> bool:
        """Whether the session is open as far as is known."""
        return self._writer is not None and not self._writer.is_closing()

    async def send(self, transmission: Transmission) -> Outcome:
        """Send a message, over the open session or a new one."""
        progress = _Progress()
        try:
            if not self.usable:
                await self._open()
            return await self._transmit(transmission, progress)
        except Refused as refused:
            outcome = self._outcome("answered", progress, refused.reply)
            await self.drop()
            return outcome
        except Lost as lost:
            outcome = self._outcome("lost", progress, None, str(lost))
            await self.drop()
            return outcome

    async def quit(self) -> None:
        """End the session in an orderly way (and ask for discards first, as a server of EX2010 does); then drop it."""
        if self.usable:
            with contextlib.suppress(Lost):  # the session is at its end, and every outcome known
                if self._shadowing:
                    await self.command(f"XQDISCARD {self._identity.ehlo} 100", MAIL)
                await self.command("QUIT", QUIT)
        await self.drop()

    async def drop(self) -> None:
        """Close the connection without a word."""
        if self._writer is not None:
            writer, self._writer, self._reader = self._writer, None, None
            writer.transport.abort()
            with contextlib.suppress(OSError):  # it was lost before
                await writer.wait_closed()
        self._shadowing = False

    async def command(self, line: str, limit: float) -> Reply:
        """Say a line and read its reply within `limit` documented seconds. Raises Lost."""
        await self._write(line.encode("utf-8", "surrogateescape") + b"\r\n", limit)
        return await self._reply(limit)

    async def _open(self) -> None:
        """Connect and greet. Raises Lost, Refused."""
        try:
            async with asyncio.timeout(self._duration(GREETING)):
                self._reader, self._writer = await asyncio.open_connection(*self._address)
        except TimeoutError:
            raise Lost("no connection in time") from None
        except OSError as error:
            raise Lost(f"no connection: {why(error)}") from None
        self._port = port_of(self._writer.get_extra_info("sockname"))
        self._need(await self._reply(GREETING))
        await self._greet()
        if self._identity.tls is not None:
            self._need(await self.command("STARTTLS", MAIL))
            await self._secure(self._identity.tls)
            await self._greet()
        if self._identity.user is not None:
            await self._authenticate(self._identity.user)
        if self._identity.offers_xshadow and "XSHADOW" in self._keywords:
            line = f"XSHADOW {self._identity.ehlo} {self._identity.database}"
            self._need(await self.command(line, MAIL))
            self._shadowing = True

    async def _greet(self) -> None:
        reply = await self.command(f"EHLO {self._identity.ehlo}", EHLO)
        if reply.code // 100 == 5:
            reply = await self.command(f"HELO {self._identity.ehlo}", EHLO)
            self._need(reply)
            self._keywords = {}
            return
        self._need(reply)
        offers = (line.partition(" ") for line in reply.lines[1:])
        self._keywords = {keyword.upper(): parameters for keyword, _, parameters in offers}

    async def _secure(self, context: ssl.SSLContext) -> None:
        assert self._writer is not None
        try:
            async with asyncio.timeout(self._duration(MAIL)):
                await self._writer.start_tls(context, server_hostname="localhost")
        except (OSError, TimeoutError) as error:
            raise Lost(f"no TLS: {error}") from None

    async def _authenticate(self, user: str) -> None:
        """AUTH PLAIN (RFC 4616) or LOGIN."""
        if self._identity.mechanism == "PLAIN":
            both = base64.b64encode(f"\0{user}\0{self._identity.secret}".encode()).decode()
            self._need(await self.command(f"AUTH PLAIN {both}", MAIL))
            return
        for line in ("AUTH LOGIN", *(base64.b64encode(t.encode()).decode() for t in (user, self._identity.secret))):
            reply = await self.command(line, MAIL)
            if reply.code != 334:
                self._need(reply)

    async def _transmit(self, transmission: Transmission, progress: _Progress) -> Outcome:
        self._sent += 1
        ready = await (self._pipelined if transmission.pipelining else self._one_by_one)(transmission, progress)
        if ready is not None:
            return self._outcome("answered", progress, ready)
        await self._write(stuffed(transmission.content), BLOCK)
        if transmission.abandon == "before-dot":
            return await self._abandon(progress)
        await self._write(b".\r\n", BLOCK)
        progress.dot_sent = True
        if transmission.abandon == "at-dot":
            return await self._abandon(progress)
        reply = await self._reply(DOT)
        outcome = self._outcome("answered", progress, reply)
        if transmission.abandon == "after-reply" or reply.code == 421:
            await self.drop()
        return outcome

    async def _one_by_one(self, transmission: Transmission, progress: _Progress) -> Reply | None:
        """Give the envelope; return the refusing reply, or None when the server waits for the content."""
        reply = await self.command(self._mail(transmission), MAIL)
        if not reply.positive:
            return await self._end_transaction(reply)
        for line, address in _recipients(transmission):
            self._take(await self.command(line, RCPT), address, progress)
        if not progress.accepted:
            return await self._end_transaction(progress.last or reply)
        reply = await self.command("DATA", DATA)
        return None if reply.code == 354 else await self._end_transaction(reply)

    async def _pipelined(self, transmission: Transmission, progress: _Progress) -> Reply | None:
        """The same in one group of commands (RFC 2920)."""
        recipients = _recipients(transmission)
        lines = [self._mail(transmission), *(line for line, _ in recipients), "DATA"]
        await self._write("".join(line + "\r\n" for line in lines).encode("utf-8", "surrogateescape"), MAIL)
        mail = await self._reply(MAIL)
        for _, address in recipients:
            self._take(await self._reply(RCPT), address, progress)
        reply = await self._reply(DATA)
        if reply.code != 354:
            first = next((r for r in (mail, progress.last, reply) if r is not None and not r.positive), reply)
            return await self._end_transaction(first)
        if not progress.accepted:  # the server waits for a content all the same (RFC 2920 3.1)
            await self._write(b".\r\n", BLOCK)
            await self._reply(DOT)
            return progress.last
        return None

    def _mail(self, transmission: Transmission) -> str:
        parameters = list(transmission.parameters)
        if "SIZE" in self._keywords:
            parameters.insert(0, f"SIZE={len(transmission.content)}")
        if "8BITMIME" in self._keywords and not transmission.content.isascii():
            parameters.append("BODY=8BITMIME")
        if self._shadowing:
            parameters.append(f"XSHADOW={self._identity.database}-{self._sent}")
        return " ".join([f"MAIL FROM:<{transmission.sender}>", *parameters])

    def _take(self, reply: Reply, address: str, progress: _Progress) -> None:
        if reply.code == 421:
            raise Refused(reply)
        progress.last = reply
        (progress.accepted if reply.positive else progress.refused).append(address)

    async def _end_transaction(self, refusal: Reply) -> Reply:
        """Leave the transaction that was refused, so that the session can carry another message."""
        if refusal.code == 421:
            raise Refused(refusal)
        try:
            await self.command("RSET", MAIL)
        except Lost:
            await self.drop()  # the outcome is the refusal, whatever became of the session
        return refusal

    async def _abandon(self, progress: _Progress) -> Outcome:
        outcome = self._outcome("abandoned", progress, None)
        await self.drop()
        return outcome

    def _outcome(
        self, kind: Literal["answered", "lost", "abandoned"], progress: _Progress, reply: Reply | None, text: str = ""
    ) -> Outcome:
        return Outcome(
            outcome=kind,
            session=self.session,
            code=reply.code if reply else None,
            enhanced=reply.enhanced if reply else None,
            text=(reply.text if reply else text)[:500],
            accepted=tuple(progress.accepted),
            refused=tuple(progress.refused),
            dot_sent=progress.dot_sent,
        )

    def _need(self, reply: Reply) -> None:
        if not reply.positive:
            raise Refused(reply)

    async def _write(self, octets: bytes, limit: float) -> None:
        """Send octets, block by block, each within `limit` documented seconds. Raises Lost."""
        if self._writer is None:
            raise Lost("the session is closed")
        try:
            for start in range(0, len(octets), _BLOCK_OCTETS):
                async with asyncio.timeout(self._duration(limit)):
                    self._writer.write(octets[start : start + _BLOCK_OCTETS])
                    await self._writer.drain()
        except TimeoutError:
            raise Lost("the server takes no more octets") from None
        except OSError as error:
            raise Lost(f"the session broke: {why(error)}") from None

    async def _reply(self, limit: float) -> Reply:
        if self._reader is None:
            raise Lost("the session is closed")
        return await read_reply(self._reader, self._duration(limit))


def _recipients(transmission: Transmission) -> Sequence[tuple[str, str]]:
    return [(" ".join([f"RCPT TO:<{to.address}>", *to.parameters]), to.address) for to in transmission.recipients]
