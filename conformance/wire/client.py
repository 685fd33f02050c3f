"""An SMTP client: connects, greets, secures and authenticates a session, sends commands and reads replies.

Each wait and each reply is bounded. A session that cannot go on is an exception: `SessionLost` if it broke, `SessionRefused`
if the server ended it with a reply. Limits are in documented seconds (those of the scenario), except that of the function
`read_reply`, which is in seconds of the event loop. `Sender` sends messages over this client.
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
"""Lines of one reply that are read; after more of them the session counts as lost."""

_ENHANCED = re.compile(r"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?: |$)")


class SessionLost(Exception):
    """No connection or no TLS came about, the session was ended or reset, or no reply came in time; the text says which.

    A line that is no reply counts as none. `ended`: a wait for a reply (in `talk` also sending) has shown that the server or the
    network closed the connection.
    """

    def __init__(self, text: str, *, ended: bool = False) -> None:
        super().__init__(text)
        self.ended = ended


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A complete reply; `code` is that of its last line, `lines` are the texts after the codes."""

    code: int
    lines: tuple[str, ...]

    @property
    def enhanced(self) -> str | None:
        """The enhanced status code at the reply's beginning (RFC 2034), None if there is none."""
        match = _ENHANCED.match(self.lines[0])
        return match[1] if match else None

    @property
    def text(self) -> str:
        """The texts of all lines, joined by spaces."""
        return " ".join(self.lines)

    @property
    def positive(self) -> bool:
        """Whether the code is 2yz."""
        return self.code // 100 == 2


async def read_reply(reader: asyncio.StreamReader, limit: float) -> ServerReply:
    """Wait for one reply of one or more lines and return it; `limit` is in seconds of the loop.

    Raises SessionLost if the session ends, the limit passes, a line is not one of a reply, or there are more than `REPLY_LINES`;
    OSError if this machine has run out of something.
    """
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
        if shortage_of(error):
            raise
        raise SessionLost(f"the session broke: {describe_error(error)}", ended=True) from None
    raise SessionLost(f"a reply of more than {REPLY_LINES} lines")


_MARGIN = 5.0
COMMAND_TIMEOUT = 300 + _MARGIN
DATA_TIMEOUT = 120 + _MARGIN
BLOCK_TIMEOUT = 180 + _MARGIN
DOT_TIMEOUT = 600 + _MARGIN
"""Documented seconds to wait for a reply (greeting, EHLO, MAIL, RCPT; DATA; the final dot), and for a block of content to be
sent: the minimum of RFC 5321 4.5.3.2, and a margin, so that a server with the same limit ends the session first."""

QUIT_TIMEOUT = 60.0
"""Documented seconds to wait for the reply to QUIT, on which nothing depends."""

CLOSE_TIMEOUT = 10.0
"""Documented seconds in which a server that has replied 421 may close the session itself: the history shows who did."""

_BLOCK_OCTETS = 64 * 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """How a client presents itself.

    `ehlo` is its name in EHLO. `offers_xshadow`: it sends XSHADOW with its name and `database`, the id of its queue
    database, if the server offers that. `user`: it authenticates, with `secret`. `tls`: it sends STARTTLS.
    """

    ehlo: str = "outside.test"
    offers_xshadow: bool = False
    database: str = "outside-0"
    user: str | None = None
    secret: str = field(default="", repr=False)
    mechanism: Literal["PLAIN", "LOGIN"] = "PLAIN"
    tls: ssl.SSLContext | None = None


class SessionRefused(Exception):
    """The server refused the session: in its greeting, in a step before any mail, or later a command with 421."""

    def __init__(self, reply: ServerReply) -> None:
        super().__init__(f"{reply.code} {reply.text}")
        self.reply = reply


class SmtpClient:
    """One session with a server at a time; closed until `open`.

    `duration` converts documented seconds, in which limits are given, to seconds of the loop. `session_behind` finds the
    session's name in the history (`Links.session_behind`). `keywords` has those of the last EHLO reply, in upper case, with
    their parameters; `shadowing`: the server has accepted XSHADOW. `_port` is the connection's own port, 0 before it is
    connected. `_reader` and `_writer` are None while there is no connection.
    """

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
        """The name, in the history, of the open session or else the last one; None before its link has reached the server."""
        recorded = self._session_behind(self._port, self._address[1]) if self._port else None
        return recorded.session if recorded is not None else None

    @property
    def usable(self) -> bool:
        """Whether the session is connected, and no end of it has been received."""
        if self._writer is None or self._reader is None:
            return False
        return not self._writer.is_closing() and not self._reader.at_eof()

    def has_unread_octets(self) -> bool:
        """Whether the server has sent what was not asked for, such as 421 before it ended the session, or the connection broke.

        May consume an octet of it, so the session cannot go on: its next reply would not be that to the next command.
        """
        if self._reader is None or self._writer is None:
            return False
        try:
            return has_unread_octets(self._reader, self._writer)
        except OSError:
            return True

    async def open(self) -> None:
        """Connect, wait for the greeting, and do what the identity asks for before mail: EHLO, STARTTLS, AUTH, XSHADOW.

        XSHADOW is sent only if the server offers it. Raises SessionLost, SessionRefused for a reply that is not
        positive, and OSError if this machine has run out of something. The caller closes the connection after an
        exception.
        """
        self._port = 0
        try:
            async with asyncio.timeout(self._duration(COMMAND_TIMEOUT)):
                self._reader, self._writer = await asyncio.open_connection(*self._address)
        except TimeoutError:
            raise SessionLost("no connection in time") from None
        except OSError as error:
            if shortage_of(error):
                raise
            raise SessionLost(f"no connection: {describe_error(error)}") from None
        self._port = port_of(self._writer.get_extra_info("sockname"))
        _require_positive(await self.read_reply(COMMAND_TIMEOUT))
        await self._greet()
        if self.identity.tls is not None:
            _require_positive(await self.send_command("STARTTLS", COMMAND_TIMEOUT))
            await self._start_tls(self.identity.tls)
            await self._greet()
        if self.identity.user is not None:
            await self._authenticate(self.identity.user)
        if self.identity.offers_xshadow and "XSHADOW" in self.keywords:
            line = f"XSHADOW {self.identity.ehlo} {self.identity.database}"
            _require_positive(await self.send_command(line, COMMAND_TIMEOUT))
            self.shadowing = True

    async def close(self) -> None:
        """Close the connection without QUIT, and wait until it is closed; do nothing without one."""
        writer = self._writer
        if writer is not None:
            self.abort()
            with contextlib.suppress(OSError):  # it was lost before
                await writer.wait_closed()

    async def close_after_421(self) -> None:
        """Wait up to `CLOSE_TIMEOUT` for the server to close the connection, as 421 announces; then close it in any case.

        Octets that the server still sends are dropped. Without a connection nothing happens.
        """
        if self._reader is not None:
            with contextlib.suppress(TimeoutError, OSError):  # still open, or reset: either way it is closed now
                async with asyncio.timeout(self._duration(CLOSE_TIMEOUT)):
                    while await self._reader.read(_BLOCK_OCTETS):
                        pass
        await self.close()

    def abort(self) -> None:
        """Close the connection, if any, at once, without QUIT and without waiting; the client can `open` again."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None
        self.shadowing = False

    async def send_command(self, line: str, limit: float) -> ServerReply:
        """Send a command line, wait for its reply and return it; sending and reply may take `limit` documented seconds each.

        Raises SessionLost, as `write` and `read_reply` do.
        """
        await self.write(line.encode("utf-8", "surrogateescape") + b"\r\n", limit)
        return await self.read_reply(limit)

    async def write(self, octets: bytes, limit: float) -> None:
        """Send octets in blocks of 64 KiB, each within `limit` documented seconds.

        Raises SessionLost if the connection is closed or breaks, or the server does not take a block in time; OSError if this
        machine has run out of something.
        """
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
            if shortage_of(error):
                raise
            raise SessionLost(f"the session broke: {describe_error(error)}") from None

    async def read_reply(self, limit: float) -> ServerReply:
        """Wait for a reply of the open session and return it; `limit` is in documented seconds.

        Raises SessionLost as the function `read_reply` does, also if the connection is closed.
        """
        if self._reader is None:
            raise SessionLost("the session is closed")
        return await read_reply(self._reader, self._duration(limit))

    async def _greet(self) -> None:
        """Send EHLO, and HELO if that is refused with 5yz; set `keywords` ({} after HELO).

        Raises SessionLost, and SessionRefused for any other reply that is not positive.
        """
        reply = await self.send_command(f"EHLO {self.identity.ehlo}", COMMAND_TIMEOUT)
        if reply.code // 100 == 5:
            reply = await self.send_command(f"HELO {self.identity.ehlo}", COMMAND_TIMEOUT)
            _require_positive(reply)
            self.keywords = {}
            return
        _require_positive(reply)
        offers = (line.partition(" ") for line in reply.lines[1:])
        self.keywords = {keyword.upper(): parameters for keyword, _, parameters in offers}

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        """Begin TLS after 220 to STARTTLS. Raises SessionLost if the handshake fails, or octets came behind the 220."""
        assert self._reader is not None
        assert self._writer is not None
        try:
            if has_unread_octets(self._reader, self._writer):
                raise SessionLost("no TLS: the server sent octets behind its 220")
            async with asyncio.timeout(self._duration(COMMAND_TIMEOUT)):
                await self._writer.start_tls(context, server_hostname="localhost")
        except OSError as error:
            if shortage_of(error):
                raise
            raise SessionLost(f"no TLS: {describe_error(error)}") from None

    async def _authenticate(self, user: str) -> None:
        """Authenticate by AUTH PLAIN (RFC 4616) or LOGIN, whose three lines are each sent after the reply to the one before.

        Raises SessionLost, and SessionRefused for a reply that is not positive (LOGIN: nor 334).
        """
        if self.identity.mechanism == "PLAIN":
            response = base64.b64encode(f"\0{user}\0{self.identity.secret}".encode()).decode()
            _require_positive(await self.send_command(f"AUTH PLAIN {response}", COMMAND_TIMEOUT))
            return
        for line in ("AUTH LOGIN", *(base64.b64encode(t.encode()).decode() for t in (user, self.identity.secret))):
            reply = await self.send_command(line, COMMAND_TIMEOUT)
            if reply.code != 334:
                _require_positive(reply)


def _require_positive(reply: ServerReply) -> None:
    """Raise SessionRefused if a reply's code is not 2yz."""
    if not reply.positive:
        raise SessionRefused(reply)
