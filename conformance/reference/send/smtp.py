"""The SMTP client, on the protocol class of aiosmtplib, which frames commands and pairs them with replies.

Its `SMTP` class is not used: it connects by host name, hides whether the final dot was sent before a session was lost, and rewrites
line ends, while a relay must send the octets as they are.
"""

import asyncio
import base64
import ssl
from collections.abc import Awaitable
from functools import lru_cache

from aiosmtplib import SMTPException, SMTPResponse
from aiosmtplib.protocol import SMTPProtocol

from conformance.reference.config import Address
from conformance.reference.replies import Reply, parse_reply
from conformance.reference.send.dialogue import Dialogue, SessionLost, TlsFailed

_CACHED_REPLY = 1024
"""The most octets of a reply whose parsed form is cached: the same few short replies come in every session."""


class FastProtocol(SMTPProtocol):
    """aiosmtplib's protocol without its lock, time limits and repeated parsing, which cost as much as the rest of a short session.

    The caller sends one command at a time and limits the time itself.
    """

    def data_received(self, data: bytes) -> None:
        """Give octets that are exactly one whole reply to who awaits it; leave anything else to aiosmtplib."""
        waiter = self._response_waiter
        if waiter is None or not self._response_pending or self._buffer or waiter.done():
            super().data_received(data)
        elif (reply := _parse_whole_reply(data) if len(data) <= _CACHED_REPLY else None) is not None:
            waiter.set_result(reply)
        else:
            super().data_received(data)

    def send_command(self, octets: bytes) -> None:
        """Send a command line, or a content with its final dot, and begin to await its `reply`. Raises SMTPServerDisconnected."""
        self._response_waiter = self._loop.create_future()
        self._response_pending = True
        self.write(octets)
        self._quit_sent = octets == b"QUIT\r\n"  # then aiosmtplib expects the connection to end

    @property
    def reply(self) -> Awaitable[SMTPResponse]:
        """The future of the reply to what was sent last, or of the greeting; it may be done."""
        assert self._response_waiter is not None  # set since the connection was made
        return self._response_waiter

    def forget_plaintext(self) -> None:
        """Drop what the server has sent behind its reply to STARTTLS: it is not part of the secured session (RFC 3207 4.2)."""
        del self._buffer[:]

    def continue_in(self, transport: asyncio.Transport) -> None:
        """Go on in TLS."""
        self.transport = transport
        self._over_ssl = True


@lru_cache(maxsize=256)
def _parse_whole_reply(octets: bytes) -> SMTPResponse | None:
    """Return the reply if the octets are exactly one whole reply, parsed as aiosmtplib does; None otherwise."""
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
    """A client session with an SMTP server.

    `_secret` is shared with the server, if it is a peer that has one: AUTH proves the client's name with it. One timer limits the time of
    all replies: `_idle_until` (the event loop's time) moves with each command, and the timer is set again if it fires before.
    `_unsent_before` is how much was in the send buffer when it moved.
    """

    greeting_command = "EHLO"
    protocol_class = FastProtocol
    _loop: asyncio.AbstractEventLoop

    def __init__(self, address: Address, own_name: str, idle_timeout: float, secret: str | None = None) -> None:
        super().__init__(address, own_name, idle_timeout)
        self._secret = secret
        self.requires_tls = True
        """Whether AUTH is sent only after STARTTLS, even if the server offers it before."""
        self.login_refused = False
        """Whether the server has refused AUTH."""
        self.prefers_tls = False
        """Whether STARTTLS is used without a secret too, where it is offered."""
        self._transport: asyncio.Transport | None = None
        self._protocol: FastProtocol | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle_until = 0.0
        self._unsent_before = 0
        self._awaiting_reply = False

    async def connect(self) -> Reply:
        """Connect, and return the server's greeting. Raises SessionLost."""
        self._loop = loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.idle_timeout):
                self._transport, self._protocol = await loop.create_connection(
                    lambda: self.protocol_class(loop), *self.address
                )
        except (OSError, TimeoutError) as error:
            raise SessionLost(f"no connection: {error}") from error
        return await self._reply("the connection")

    async def open(self) -> None:
        """Connect and begin the session; where TLS fails that is not required, do so once more, without TLS. Raises SessionLost."""
        try:
            await super().open()
        except TlsFailed:
            if self._secret is not None:
                raise
            self.prefers_tls = False
            await super().open()

    async def greet(self) -> None:
        """Send EHLO, and EHLO again within TLS; with a secret send AUTH PLAIN and EHLO again, as far as they are offered. Raises SessionLost.

        TLS is required for AUTH (`requires_tls`); without a secret the session goes on in the clear where STARTTLS is refused. The keywords
        after AUTH may include some that the server offers to known peers only. After a refused AUTH (`login_refused`) the session goes on
        unauthenticated.
        """
        await super().greet()
        if self._secret is None:
            if self.prefers_tls and "STARTTLS" in self.keywords:
                await self._secure()
            return
        if "STARTTLS" in self.keywords and (self.requires_tls or not self._offers_auth_plain):
            if not await self._secure():
                raise SessionLost("no TLS: STARTTLS was refused")
        elif self.requires_tls:  # STARTTLS is not offered
            return
        if self._offers_auth_plain:
            login = base64.b64encode(f"\0{self.own_name}\0{self._secret}".encode()).decode()
            answer = await self.command(f"AUTH PLAIN {login}")
            self.login_refused = not answer.positive  # the session goes on unauthenticated
            await super().greet()

    @property
    def _offers_auth_plain(self) -> bool:
        """Whether the server offers AUTH PLAIN in its last EHLO reply."""
        return "PLAIN" in self.keywords.get("AUTH", "").split()

    async def _secure(self) -> bool:
        """Send STARTTLS; after 220 begin TLS and send EHLO again. Return whether the session is secured. Raises SessionLost."""
        answer = await self.command("STARTTLS")
        if not await self.may_start_tls(answer):
            return False
        await self._start_tls()
        await self.greet_again()
        return True

    async def may_start_tls(self, answer: Reply) -> bool:
        """Return whether TLS begins after this reply to STARTTLS; otherwise the session goes on in the clear. Raises SessionLost."""
        return answer.code == 220

    async def greet_again(self) -> None:
        """Send EHLO within TLS; only what is offered there counts (RFC 3207 4.2). Raises SessionLost."""
        await super().greet()

    async def _start_tls(self) -> None:
        """Make the handshake, without verifying the certificate. Raises TlsFailed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # nodes have no common certificate authority
        protocol = self._open_protocol()
        protocol.forget_plaintext()
        assert self._transport is not None
        try:
            secured = await self._loop.start_tls(
                self._transport, protocol, context, ssl_handshake_timeout=self.idle_timeout
            )
        except OSError as error:
            raise TlsFailed(f"no TLS: {error!r}") from error
        if secured is None:
            raise TlsFailed("no TLS: the connection was lost")
        self._transport = secured
        protocol.continue_in(secured)

    async def command(self, line: str) -> Reply:
        """Send a command line and return the reply; return 501 for one with control characters, unsent. Raises SessionLost."""
        if not line.isprintable():
            return Reply(501, "5.5.2", "a control character cannot be sent")
        self._send(line.encode("utf-8", "replace") + b"\r\n")
        return await self._reply(line.partition(" ")[0])

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send the content, and return its single reply once for each accepted recipient. Raises SessionLost."""
        self._send(content)
        return [await self._reply("the message")] * recipients

    def abort(self) -> None:
        """Drop the connection at once; does nothing if it is closed."""
        transport, self._transport = self._transport, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if transport is not None:
            transport.abort()

    @property
    def is_alive(self) -> bool:
        """Whether the session is open, as far as this side knows."""
        return self._protocol is not None and self._transport is not None and self._protocol.is_connected

    def _send(self, octets: bytes) -> None:
        """Send a command line, or content with its final dot. Raises SessionLost if the session is closed."""
        try:
            self._open_protocol().send_command(octets)
        except SMTPException as error:
            raise SessionLost(f"sending failed: {error!r}") from error

    async def _reply(self, to: str) -> Reply:
        """Wait for the reply to what was sent last and return it; `to` says what that was, for the error text. Raises SessionLost.

        The session is dropped (`_on_timer`) if no reply arrives within the idle timeout and the send buffer did not shrink in that time.
        """
        self._idle_until = self._loop.time() + self.idle_timeout
        self._unsent_before = self._unsent()
        if self._timer is None:  # one timer for all replies: it rarely fires
            self._timer = self._loop.call_at(self._idle_until, self._on_timer)
        self._awaiting_reply = True
        try:
            assert self._protocol is not None
            return _to_reply(await self._protocol.reply)
        except (SMTPException, OSError) as error:
            raise SessionLost(f"no reply to {to}: {error!r}") from error
        finally:
            self._awaiting_reply = False

    def _on_timer(self) -> None:
        """Drop the session if it has been idle for too long, else set the timer again; the event loop calls this.

        A session in which no reply is awaited is not idle; nor is one whose server still reads what was sent (the send buffer shrinks).
        """
        self._timer = None
        if not self._awaiting_reply or self._transport is None:
            return
        if self._loop.time() >= self._idle_until:
            unsent = self._unsent()
            if unsent >= self._unsent_before:  # else the server still reads what was sent
                self._transport.abort()
                return
            self._unsent_before = unsent
            self._idle_until = self._loop.time() + self.idle_timeout
        self._timer = self._loop.call_at(self._idle_until, self._on_timer)

    def _unsent(self) -> int:
        """Return the number of octets in the send buffer."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _open_protocol(self) -> FastProtocol:
        """Return the protocol object of the connection. Raises SessionLost if the session is closed."""
        if self._protocol is None or not self.is_alive:
            raise SessionLost("the session is closed")
        return self._protocol


def _to_reply(response: SMTPResponse) -> Reply:
    """Return aiosmtplib's response as a `Reply`. Raises SessionLost for a code outside of 200 to 599."""
    if not 200 <= response.code <= 599:
        raise SessionLost(f"not a valid reply code: {response.code}")
    return parse_reply(response.code, response.message)
