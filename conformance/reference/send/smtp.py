"""SMTP as a client, over aiosmtplib's protocol: it frames commands, pairs them with replies, and keeps the time.

Its `SMTP` class is not used: it opens connections by name, hides from its caller whether the final dot was sent before
a session was lost, and rewrites line ends; a transport needs the octets as they are.
"""

import asyncio
import base64
import ssl
from collections.abc import Awaitable
from functools import lru_cache
from typing import Any

from aiosmtplib import SMTPException, SMTPResponse
from aiosmtplib.protocol import SMTPProtocol

from conformance.reference.config import Address
from conformance.reference.replies import Reply, parse_reply
from conformance.reference.send.dialogue import Dialogue, SessionLost

_SHORT = 1024
"""Octets of what is looked up as one whole reply: the same few are said in session after session."""


class _FastProtocol(SMTPProtocol):
    """aiosmtplib's, for one who asks for one thing at a time, and keeps the time himself: a session is a handful of
    commands, and their lock, their limits of time and the reading of their replies cost as much as all the rest."""

    def data_received(self, data: bytes) -> None:
        """Take a whole reply that is waited for at once; whatever else comes is for aiosmtplib to see."""
        waiter = self._response_waiter
        if waiter is None or not self._response_pending or self._buffer or waiter.done():
            super().data_received(data)
        elif (reply := _whole(data) if len(data) <= _SHORT else None) is not None:
            waiter.set_result(reply)
        else:
            super().data_received(data)

    def send_command(self, octets: bytes) -> None:
        """Send a command, or a content, that will have a reply. Raises SMTPServerDisconnected."""
        self._response_waiter = self._loop.create_future()
        self._response_pending = True
        self.write(octets)
        self._quit_sent = octets == b"QUIT\r\n"

    @property
    def reply(self) -> Awaitable[SMTPResponse]:
        """The reply to what was said last, or the greeting: it may have come."""
        assert self._response_waiter is not None  # there is one since the connection was made
        return self._response_waiter

    async def start_tls(self, *args: Any, **named: Any) -> SMTPResponse:
        """See SMTPProtocol, which has a reply awaited before it says a command."""
        self._response_waiter = self._loop.create_future()
        return await super().start_tls(*args, **named)


@lru_cache(maxsize=256)
def _whole(octets: bytes) -> SMTPResponse | None:
    """Return the reply that octets are, whole and nothing more, as aiosmtplib reads it; else None."""
    *lines, rest = octets.split(b"\r\n")
    codes = {line[:3] for line in lines}
    if rest or len(codes) != 1 or not (code := codes.pop()).isdigit() or len(code) != 3:
        return None
    if any(line[3:4] != b"-" for line in lines[:-1]) or lines[-1][3:4] == b"-" or b"\n" in b"".join(lines):
        return None
    text = b""
    for line in lines:
        text += (b"\n" if text else b"") + line[4:].strip(b" \t\r\n")
    return SMTPResponse(int(code), text.decode("utf-8", "surrogateescape"))


class SmtpDialogue(Dialogue):
    """A session with an SMTP server."""

    greeting_command = "EHLO"
    _loop: asyncio.AbstractEventLoop

    def __init__(self, address: Address, hello: str, idle: float, secret: str | None = None) -> None:
        super().__init__(address, hello, idle)
        self._secret = secret
        self.requires_tls = True
        """Whether AUTH waits for STARTTLS, also where it is offered without."""
        self.login_refused = False
        """Whether the server refused AUTH."""
        self._transport: asyncio.Transport | None = None
        self._protocol: _FastProtocol | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle_until = 0.0
        self._unsent_before = 0
        self._waiting = self._silent = False

    async def connect(self) -> Reply:
        """Connect, and return the greeting. Raises SessionLost."""
        self._loop = loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.idle_timeout):
                self._transport, self._protocol = await loop.create_connection(
                    lambda: _FastProtocol(loop), *self.address
                )
        except (OSError, TimeoutError) as error:
            raise SessionLost(f"no connection: {error}") from error
        return await self._reply("the connection")

    async def greet(self) -> None:
        """Say hello; where we have a secret with the server, prove who we are: AUTH PLAIN, after STARTTLS.

        Some offers are for servers that it knows only, so we say hello once more after each. Raises SessionLost.
        """
        await super().greet()
        if self._secret is None:
            return
        if "STARTTLS" in self.keywords and (self.requires_tls or not self._takes_plain):
            await self._start_tls()
            await super().greet()
        elif self.requires_tls:
            return
        if self._takes_plain:
            login = base64.b64encode(f"\0{self.own_name}\0{self._secret}".encode()).decode()
            answer = await self.command(f"AUTH PLAIN {login}")
            self.login_refused = not answer.positive  # we are a stranger like any other then
            await super().greet()

    @property
    def _takes_plain(self) -> bool:
        return "PLAIN" in self.keywords.get("AUTH", "").split()

    async def _start_tls(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # no authority is known that could vouch for the server
        protocol = self._alive()
        try:
            await protocol.start_tls(context, timeout=self.idle_timeout)
        except (SMTPException, OSError) as error:
            raise SessionLost(f"no TLS: {error!r}") from error
        transport = protocol.transport
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def command(self, line: str) -> Reply:
        """Say a line and return the reply; what cannot be said as one line is refused here. Raises SessionLost."""
        if not line.isprintable():
            return Reply(501, "5.5.2", "a control character cannot be sent")
        self._send(line.encode("ascii", "replace") + b"\r\n")
        return await self._reply(line.partition(" ")[0])

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send a message's content, and return the one reply once for each recipient. Raises SessionLost."""
        self._send(content)
        return [await self._reply("the message")] * recipients

    def abort(self) -> None:
        """End the connection at once."""
        transport, self._transport = self._transport, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if transport is not None:
            transport.abort()

    @property
    def is_alive(self) -> bool:
        """Whether the session is open, as far as we have heard."""
        return self._protocol is not None and self._transport is not None and self._protocol.is_connected

    def _send(self, octets: bytes) -> None:
        try:
            self._alive().send_command(octets)
        except SMTPException as error:
            raise SessionLost(f"it could not be sent: {error!r}") from error

    async def _reply(self, to: str) -> Reply:
        """Return the next reply, or end the session when nothing comes and nothing of ours flows for as long as it may be idle."""
        self._idle_until = self._loop.time() + self.idle_timeout
        self._unsent_before = self._unsent()
        if self._timer is None:  # one for all replies: it finds how long it has to go on when it rings, which is seldom
            self._timer = self._loop.call_at(self._idle_until, self._on_timer)
        self._waiting = True
        try:
            assert self._protocol is not None
            return _read(await self._protocol.reply)
        except (SMTPException, OSError) as error:
            words = (
                f"no reply to {to} within {self.idle_timeout:g} s" if self._silent else f"no reply to {to}: {error!r}"
            )
            raise SessionLost(words) from error
        finally:
            self._waiting = False

    def _on_timer(self) -> None:
        self._timer = None
        if not self._waiting or self._transport is None:
            return
        if self._loop.time() >= self._idle_until:
            unsent = self._unsent()
            if unsent >= self._unsent_before:
                self._silent = True
                self._transport.abort()
                return
            self._unsent_before = unsent
            self._idle_until = self._loop.time() + self.idle_timeout
        self._timer = self._loop.call_at(self._idle_until, self._on_timer)

    def _unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _alive(self) -> _FastProtocol:
        if self._protocol is None or not self.is_alive:
            raise SessionLost("the session is over")
        return self._protocol


def _read(response: SMTPResponse) -> Reply:
    if not 200 <= response.code <= 599:
        raise SessionLost(f"it said {response.code}")
    return parse_reply(response.code, response.message)
