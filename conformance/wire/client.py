"""A client of SMTP: one connection, opened, greeted, secured and authenticated; lines out, replies in, all bounded. A
lost session is an answer of its own.
"""

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from conformance.shortage import shortage_of
from conformance.wire.link import Address, RecordedSession
from conformance.wire.sockets import describe_error, has_unread_octets, port_of

REPLY_LINES = 1000
"""Lines of one reply that are read; a server that says more is taken as lost."""

_ENHANCED = re.compile(r"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?: |$)")


class SessionLost(Exception):
    """The session is no more: ended, reset, silent for too long, or not understood. The words say which.

    `ended` tells whether the server (or the way to it) closed the connection.
    """

    def __init__(self, words: str, *, ended: bool = False) -> None:
        super().__init__(words)
        self.ended = ended


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A whole reply; `lines` are the texts after the codes."""

    code: int
    lines: tuple[str, ...]

    @property
    def enhanced(self) -> str | None:
        """The enhanced status code at its beginning (RFC 2034), if any."""
        match = _ENHANCED.match(self.lines[0])
        return match[1] if match else None

    @property
    def text(self) -> str:
        """All of it in one line."""
        return " ".join(self.lines)

    @property
    def positive(self) -> bool:
        """Whether it is a 2yz."""
        return self.code // 100 == 2


async def read_reply(reader: asyncio.StreamReader, limit: float) -> ServerReply:
    """Read one reply within `limit` (loop) seconds. Raises SessionLost."""
    lines: list[str] = []
    try:
        async with asyncio.timeout(limit):
            while len(lines) < REPLY_LINES:
                raw = await reader.readuntil(b"\n")
                text = raw.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
                if not re.match(r"\d{3}(?:[ -]|$)", text, re.ASCII):
                    raise SessionLost(f"no reply: {text[:200]!r}")
                lines.append(text[4:])
                if text[3:4] != "-":
                    return ServerReply(int(text[:3]), tuple(lines))
    except TimeoutError:
        raise SessionLost("silent for too long") from None
    except asyncio.IncompleteReadError as error:
        raise SessionLost(
            "the server ended the session" + (" amid a line" if error.partial else ""), ended=True
        ) from None
    except (asyncio.LimitOverrunError, ValueError):
        raise SessionLost("a line of a reply has no end") from None
    except OSError as error:
        raise SessionLost(f"the session broke: {describe_error(error)}", ended=True) from None
    raise SessionLost(f"a reply of more than {REPLY_LINES} lines")


_LONGER = 5.0
GREETING = EHLO = MAIL = RCPT = 300 + _LONGER
DATA = 120 + _LONGER
BLOCK = 180 + _LONGER
DOT = 600 + _LONGER
"""Seconds to wait for each reply, and for a block of the content to be taken: RFC 5321 4.5.3.2 asks for at least so
many, and a little longer, so that a server whose own limit is the same has the first word."""

QUIT = 60.0
"""Seconds to wait for the reply to QUIT; it changes nothing any more."""

CLOSING = 10.0
"""Seconds in which a server that has said 421 has to close the session itself; what ends a session is in the history."""

_BLOCK_OCTETS = 64 * 1024


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


class SessionRefused(Exception):
    """The server refused the session itself: its greeting, a step before any mail, or 421 at any time."""

    def __init__(self, reply: ServerReply) -> None:
        super().__init__(f"{reply.code} {reply.text}")
        self.reply = reply


class SmtpClient:
    """One session with a server at a time; closed until `open`. Limits are in documented seconds."""

    def __init__(
        self,
        address: Address,
        identity: Identity,
        duration: Callable[[float], float],
        session_behind: Callable[[int, int], RecordedSession | None],
    ) -> None:
        self.identity = identity
        self.keywords: dict[str, str] = {}
        self.shadowing = False
        self._address = address
        self._duration = duration
        self._session_behind = session_behind
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._port = 0

    @property
    def session(self) -> str | None:
        """The session's name in the history, once the link knows it."""
        origin = self._session_behind(self._port, self._address[1]) if self._port else None
        return origin.session if origin is not None else None

    @property
    def usable(self) -> bool:
        """Whether the session is open as far as is known: connected, and the server has not ended it."""
        if self._writer is None or self._reader is None:
            return False
        return not self._writer.is_closing() and not self._reader.at_eof()

    async def open(self) -> None:
        """Connect and greet. Raises SessionLost, SessionRefused, and OSError when the machine has run out of something."""
        self._port = 0
        try:
            async with asyncio.timeout(self._duration(GREETING)):
                self._reader, self._writer = await asyncio.open_connection(*self._address)
        except TimeoutError:
            raise SessionLost("no connection in time") from None
        except OSError as error:
            if shortage_of(error):
                raise
            raise SessionLost(f"no connection: {describe_error(error)}") from None
        self._port = port_of(self._writer.get_extra_info("sockname"))
        _need(await self.reply(GREETING))
        await self._greet()
        if self.identity.tls is not None:
            _need(await self.command("STARTTLS", MAIL))
            await self._secure(self.identity.tls)
            await self._greet()
        if self.identity.user is not None:
            await self._authenticate(self.identity.user)
        if self.identity.offers_xshadow and "XSHADOW" in self.keywords:
            line = f"XSHADOW {self.identity.ehlo} {self.identity.database}"
            _need(await self.command(line, MAIL))
            self.shadowing = True

    async def drop(self) -> None:
        """Close the connection without a word."""
        writer = self._writer
        if writer is not None:
            self.abort()
            with contextlib.suppress(OSError):  # it was lost before
                await writer.wait_closed()

    async def let_close(self) -> None:
        """Let the server close the connection, as it has said with 421 that it will; then drop it in any case."""
        if self._reader is not None:
            with contextlib.suppress(TimeoutError, OSError):  # it stays, or was reset: either way it is dropped now
                async with asyncio.timeout(self._duration(CLOSING)):
                    while await self._reader.read(_BLOCK_OCTETS):
                        pass
        await self.drop()

    def abort(self) -> None:
        """Close the connection without waiting for it."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None
        self.shadowing = False

    async def command(self, line: str, limit: float) -> ServerReply:
        """Say a line and read its reply within `limit` documented seconds. Raises SessionLost."""
        await self.write(line.encode("utf-8", "surrogateescape") + b"\r\n", limit)
        return await self.reply(limit)

    async def write(self, octets: bytes, limit: float) -> None:
        """Send octets, block by block, each within `limit` documented seconds. Raises SessionLost."""
        if self._writer is None:
            raise SessionLost("the session is closed")
        try:
            for start in range(0, len(octets), _BLOCK_OCTETS):
                async with asyncio.timeout(self._duration(limit)):
                    self._writer.write(octets[start : start + _BLOCK_OCTETS])
                    await self._writer.drain()
        except TimeoutError:
            raise SessionLost("the server takes no more octets") from None
        except OSError as error:
            raise SessionLost(f"the session broke: {describe_error(error)}") from None

    async def reply(self, limit: float) -> ServerReply:
        """Read a reply within `limit` documented seconds. Raises SessionLost."""
        if self._reader is None:
            raise SessionLost("the session is closed")
        return await read_reply(self._reader, self._duration(limit))

    async def _greet(self) -> None:
        reply = await self.command(f"EHLO {self.identity.ehlo}", EHLO)
        if reply.code // 100 == 5:
            reply = await self.command(f"HELO {self.identity.ehlo}", EHLO)
            _need(reply)
            self.keywords = {}
            return
        _need(reply)
        offers = (line.partition(" ") for line in reply.lines[1:])
        self.keywords = {keyword.upper(): parameters for keyword, _, parameters in offers}

    async def _secure(self, context: ssl.SSLContext) -> None:
        assert self._reader is not None
        assert self._writer is not None
        if await has_unread_octets(self._reader):
            raise SessionLost("no TLS: the server sent octets behind its 220")
        try:
            async with asyncio.timeout(self._duration(MAIL)):
                await self._writer.start_tls(context, server_hostname="localhost")
        except (OSError, TimeoutError) as error:
            raise SessionLost(f"no TLS: {error}") from None

    async def _authenticate(self, user: str) -> None:
        """AUTH PLAIN (RFC 4616) or LOGIN."""
        if self.identity.mechanism == "PLAIN":
            both = base64.b64encode(f"\0{user}\0{self.identity.secret}".encode()).decode()
            _need(await self.command(f"AUTH PLAIN {both}", MAIL))
            return
        for line in ("AUTH LOGIN", *(base64.b64encode(t.encode()).decode() for t in (user, self.identity.secret))):
            reply = await self.command(line, MAIL)
            if reply.code != 334:
                _need(reply)


def _need(reply: ServerReply) -> None:
    if not reply.positive:
        raise SessionRefused(reply)
