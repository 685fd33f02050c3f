"""SMTP as a client, over aiosmtplib's protocol: it frames commands, pairs them with replies, and keeps the time.

Its `SMTP` class is not used: it opens connections by name, hides from its caller whether the final dot was sent before
a session was lost, and rewrites line ends; a transport needs the octets as they are.
"""

import asyncio
import base64
import ssl
from collections.abc import Awaitable

from aiosmtplib import SMTPException, SMTPResponse
from aiosmtplib.protocol import SMTPProtocol

from conformance.reference.config import Address
from conformance.reference.replies import Reply, parsed
from conformance.reference.send.dialogue import Dialogue, SessionLost


class SmtpDialogue(Dialogue):
    """A session with an SMTP server."""

    greeting = "EHLO"

    def __init__(self, address: Address, hello: str, idle: float, secret: str | None = None) -> None:
        super().__init__(address, hello, idle)
        self._secret = secret
        self._transport: asyncio.Transport | None = None
        self._protocol: SMTPProtocol | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self._unsent_before = 0
        self._waiting = self._silent = False

    async def connect(self) -> Reply:
        """Connect, and return the greeting. Raises SessionLost."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.idle):
                self._transport, self._protocol = await loop.create_connection(
                    lambda: SMTPProtocol(loop), *self.address
                )
        except (OSError, TimeoutError) as error:
            raise SessionLost(f"no connection: {error}") from error
        return await self._within_patience(self._protocol.read_response(), "the connection")

    async def greet(self) -> None:
        """Say hello; where we have a secret with the server, prove who we are: AUTH PLAIN, and only after STARTTLS.

        Some offers are for servers that it knows only, so we say hello once more after each. Raises SessionLost.
        """
        await super().greet()
        if self._secret is None or "STARTTLS" not in self.keywords:
            return
        await self._start_tls()
        await super().greet()
        if "PLAIN" in self.keywords.get("AUTH", "").split():
            login = base64.b64encode(f"\0{self.hello}\0{self._secret}".encode()).decode()
            await self.command(f"AUTH PLAIN {login}")  # refused, we are a stranger like any other
            await super().greet()

    async def _start_tls(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # no authority is known that could vouch for the server
        protocol = self._alive()
        try:
            await protocol.start_tls(context, timeout=self.idle)
        except (SMTPException, OSError) as error:
            raise SessionLost(f"no TLS: {error!r}") from error
        transport = protocol.transport
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def command(self, line: str) -> Reply:
        """Say a line and return the reply; what cannot be said as one line is refused here. Raises SessionLost."""
        if not line.isprintable():
            return Reply(501, "5.5.2", "a control character cannot be sent")
        said = self._alive().execute_command(line.encode("ascii", "replace"))
        return await self._within_patience(said, line.partition(" ")[0])

    async def body(self, content: bytes, recipients: int) -> list[Reply]:
        """Send a message's content, and return the one reply once for each recipient. Raises SessionLost."""
        try:
            self._alive().write(content)
        except SMTPException as error:
            raise SessionLost(f"the message could not be sent: {error!r}") from error
        return [await self._within_patience(self._alive().read_response(), "the message")] * recipients

    def abort(self) -> None:
        """End the connection at once."""
        transport, self._transport = self._transport, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if transport is not None:
            transport.abort()

    async def _within_patience(self, response: Awaitable[SMTPResponse], to: str) -> Reply:
        """Return a reply, or end the session when nothing comes and nothing of ours flows for as long as it may be idle."""
        loop = asyncio.get_running_loop()
        self._until = loop.time() + self.idle
        self._unsent_before = self._unsent()
        if self._timer is None:  # one for all replies: it finds how long it has to go on when it rings, which is seldom
            self._timer = loop.call_at(self._until, self._rung)
        self._waiting = True
        try:
            return _read(await response)
        except (SMTPException, OSError) as error:
            words = f"no reply to {to} within {self.idle:g} s" if self._silent else f"no reply to {to}: {error!r}"
            raise SessionLost(words) from error
        finally:
            self._waiting = False

    def _rung(self) -> None:
        self._timer = None
        if not self._waiting or self._transport is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._until:
            unsent = self._unsent()
            if unsent >= self._unsent_before:
                self._silent = True
                self._transport.abort()
                return
            self._unsent_before = unsent
            self._until = loop.time() + self.idle
        self._timer = loop.call_at(self._until, self._rung)

    def _unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _alive(self) -> SMTPProtocol:
        if self._protocol is None or self._transport is None or not self._protocol.is_connected:
            raise SessionLost("the session is over")
        return self._protocol


def _read(response: SMTPResponse) -> Reply:
    if not 200 <= response.code <= 599:
        raise SessionLost(f"it said {response.code}")
    return parsed(response.code, response.message)
