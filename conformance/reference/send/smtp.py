"""The SMTP client: EHLO, and between servers of the organisation STARTTLS and AUTH.

Two servers of the organisation may share a secret: the client proves its name with it in AUTH PLAIN. It sends that within TLS
only. With a server outside of the organisation (`prefers_tls`) TLS is used where it works, without AUTH.
"""

import base64
import ssl

from conformance.reference.config import Address
from conformance.reference.replies import Reply
from conformance.reference.send.connection import TlsFailed
from conformance.reference.send.dialogue import Dialogue, SessionLost


class SmtpDialogue(Dialogue):
    """A client session with an SMTP server.

    `_secret` is shared with the server, if it is a peer that has one: AUTH proves the client's name with it.
    """

    greeting_command = "EHLO"

    def __init__(self, address: Address, own_name: str, idle_timeout: float, secret: str | None = None) -> None:
        super().__init__(address, own_name, idle_timeout)
        self._secret = secret
        self.requires_tls = True
        """Whether AUTH is sent only after STARTTLS, even if the server offers it before."""
        self.login_refused = False
        """Whether the server has refused AUTH."""
        self.prefers_tls = False
        """Whether STARTTLS is used without a secret too, where it is offered."""

    async def open(self) -> None:
        """Connect and begin the session; if TLS fails and is not required, connect once more and go on without TLS. Raises SessionLost.

        With a secret TLS is required: then TlsFailed, which is a SessionLost, is raised.
        """
        try:
            await super().open()
        except TlsFailed:
            if self._secret is not None:
                raise
            self.prefers_tls = False
            await super().open()

    async def greet(self) -> None:
        """Send EHLO, then STARTTLS and AUTH PLAIN if they are offered and wanted, each followed by EHLO again. Raises SessionLost.

        Without a secret only STARTTLS is wanted, and that only if TLS is preferred (`prefers_tls`). If it is refused, the session
        goes on in the clear.

        With a secret both are wanted, and AUTH is sent within TLS only (`requires_tls`, True but in a reading). A refused STARTTLS
        raises SessionLost; without an offer of STARTTLS the session goes on in the clear and unauthenticated. After a refused AUTH
        (`login_refused`) it goes on unauthenticated. The keywords after AUTH may include some for known peers only.
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
        """Send STARTTLS; after 220 begin TLS and send EHLO again. Return whether the session is secured. Raises SessionLost.

        If the server refuses, return False: the session is still in the clear. If the handshake fails, raise TlsFailed.
        """
        answer = await self.command("STARTTLS")
        if not await self.may_start_tls(answer):
            return False
        await self._start_tls()
        await self.greet_again()
        return True

    async def may_start_tls(self, answer: Reply) -> bool:
        """Return whether TLS begins after this reply to STARTTLS: it is 220."""
        return answer.code == 220

    async def greet_again(self) -> None:
        """Send EHLO within TLS; only what is offered there counts (RFC 3207 4.2). Raises SessionLost."""
        await super().greet()

    async def _start_tls(self) -> None:
        """Make the TLS handshake, in `idle_timeout` seconds at most, without verifying the certificate. Raises TlsFailed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # nodes have no common certificate authority
        assert self._connection is not None
        await self._connection.start_tls(context, self.idle_timeout)

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send the content, and return its single reply once for each accepted recipient. Raises SessionLost."""
        self._write(content)
        return [await self._reply()] * recipients
