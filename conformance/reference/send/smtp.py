"""SMTP as a client, with STARTTLS and AUTH PLAIN for the servers of the organisation."""

import base64
import ssl

from conformance.reference.config import Address
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import SessionLost
from conformance.reference.send.spoken import SpokenDialogue


class SmtpDialogue(SpokenDialogue):
    """A session with an SMTP server."""

    greeting = "EHLO"

    def __init__(self, address: Address, hello: str, idle: float, secret: str | None = None) -> None:
        super().__init__(address, hello, idle)
        self._secret = secret

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
        answer = await self.command("STARTTLS")
        if answer.code != 220:
            raise SessionLost(f"it answered STARTTLS with {answer}")
        try:
            await self._open().start_tls(context, self.idle)
        except OSError as error:
            raise SessionLost(f"no TLS: {error!r}") from error

    async def body(self, content: bytes, recipients: int) -> list[Reply]:
        """Send a message's content, and return the one reply once for each recipient. Raises SessionLost."""
        connection = self._open()
        connection.write(content, replies=1)
        return [await connection.reply(self.idle)] * recipients

    async def quit(self) -> None:
        """Leave with QUIT; a server that resets the connection instead of an answer has let us go. Raises SessionLost."""
        connection = self._open()
        try:
            await super().quit()
        except SessionLost:
            if not connection.reset:
                raise
