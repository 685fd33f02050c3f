"""How a server of the organisation proves who it is: AUTH with the secret of the pair, after STARTTLS (SR-E10-18)."""

import hmac
import ssl

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword, Session
from aiosmtpd.smtp import Envelope as Transaction

from conformance.reference.config import Listener, Peer
from conformance.reference.host import Host
from conformance.reference.receive.certificate import server_context
from conformance.reference.receive.lean import LeanSMTP
from conformance.reference.receive.verbs import NOT_OFFERED, Conversation


class PeerAuthentication(LeanSMTP):
    """The part of a session that finds out who the client is; on the transport listener, where a peer has a secret."""

    host: Host
    conversation: Conversation
    limits: Listener

    @property
    def may_authenticate(self) -> bool:
        """Whether peers can prove here who they are."""
        return self.conversation.door == "transport" and self.host.config.has_secrets

    def tls(self) -> ssl.SSLContext | None:
        """Return what STARTTLS is offered with, or None where it is not."""
        return server_context() if self.may_authenticate else None

    def mechanisms(self) -> list[str]:
        """Return the line of EHLO about AUTH: nothing is asked for a secret that others could read (RFC 4954 4)."""
        return ["AUTH PLAIN"] if self.may_authenticate and self.session.ssl is not None else []

    def peer(self) -> Peer | None:
        """Return the server of the organisation that the client is known to be, or None."""
        if self.conversation.door != "transport":
            return None
        authenticated = self.session.auth_data.login if self.session.authenticated else None
        name = authenticated.decode("ascii", "replace") if authenticated else None
        return self.host.rights.peer(self.limits, self.session.host_name or "", name)

    async def smtp_AUTH(self, arg: str) -> None:
        """AUTH PLAIN, for servers of the organisation (RFC 4954)."""
        if not self.may_authenticate:
            await self.push(NOT_OFFERED)
            return
        await super().smtp_AUTH(arg)
        self.conversation.peer = self.peer()

    def check_secret(
        self, server: SMTP, session: Session, envelope: Transaction, mechanism: str, login: LoginPassword
    ) -> AuthResult:
        """Compare what a client says with the secret of the peer that it says to be."""
        secret = self.host.rights.password(login.login.decode("ascii", "replace"))
        right = secret is not None and hmac.compare_digest(login.password, secret.encode())
        return AuthResult(success=right, handled=False, auth_data=login)
