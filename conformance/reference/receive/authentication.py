"""Who a client is, and what it may do (SR-WIR-01, SR-WIR-02)."""

import hmac
import ssl
import tempfile
from datetime import UTC, datetime
from functools import cache

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword, Session
from aiosmtpd.smtp import Envelope as Transaction
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from conformance.reference.boundary import in_boundary, shadows_by_receiver
from conformance.reference.config import Listener, Peer
from conformance.reference.host import Component, Host
from conformance.reference.receive.fast_smtp import FastSMTP
from conformance.reference.receive.verbs import NOT_OFFERED, SessionState


class Rights(Component):
    """The permissions of receive connectors."""

    def identify(self, listener: Listener, hello: str, authenticated: str | None) -> Peer | None:
        """Return the server of the organisation that a client of the transport listener is, or None.

        It is the one it says to be where the connector is externally secured, and the one it authenticated as.
        """
        name = authenticated or (hello if listener.externally_secured else "")
        return self.host.config.peers_by_name.get(name.casefold())

    def secret_of(self, name: str) -> str | None:
        """Return the secret of a peer, or None where it has none."""
        peer = self.host.config.peers_by_name.get(name.casefold())
        return peer.secret if peer is not None else None

    def may_shadow(self, peer: Peer | None) -> bool:
        """Whether a peer is offered XSHADOWREQUEST: a 2013 or later mailbox server of our boundary, with the right."""
        return (
            peer is not None
            and self.host.transport.ShadowRedundancyEnabled
            and peer.role == "mailbox"
            and shadows_by_receiver(peer.generation)
            and in_boundary(self.host.config, peer)
            and peer.accept_xshadow
        )

    def lacks_xshadow_right(self, peer: Peer | None) -> bool:
        """Whether it is only for want of the right that a peer may not shadow here."""
        return peer is not None and not peer.accept_xshadow

    def is_submission(self, peer: Peer | None) -> bool:
        """Whether a client brings mail that no server of the organisation has taken in hand before."""
        return peer is None or peer.role == "submission"


class PeerAuthentication(FastSMTP):
    """The part of a session that finds out who the client is; on the transport listener, where a peer has a secret."""

    host: Host
    session_state: SessionState
    limits: Listener

    @property
    def may_authenticate(self) -> bool:
        """Whether peers can prove here who they are."""
        return self.session_state.listener == "transport" and self.host.config.has_secrets

    def starttls_context(self) -> ssl.SSLContext | None:
        """Return what STARTTLS is offered with, or None where it is not."""
        return server_context() if self.may_authenticate else None

    def auth_keywords(self) -> list[str]:
        """Return the line of EHLO about AUTH: nothing is asked for a secret that others could read (RFC 4954 4)."""
        return ["AUTH PLAIN"] if self.may_authenticate and self.session.ssl is not None else []

    def identify_peer(self) -> Peer | None:
        """Return the server of the organisation that the client is known to be, or None."""
        if self.session_state.listener != "transport":
            return None
        authenticated = self.session.auth_data.login if self.session.authenticated else None
        name = authenticated.decode("ascii", "replace") if authenticated else None
        return self.host.rights.identify(self.limits, self.session.host_name or "", name)

    async def smtp_AUTH(self, arg: str) -> None:
        """AUTH PLAIN, for servers of the organisation (RFC 4954)."""
        if not self.may_authenticate:
            await self.push(NOT_OFFERED)
            return
        await super().smtp_AUTH(arg)
        self.session_state.peer = self.identify_peer()

    def check_secret(
        self, server: SMTP, session: Session, envelope: Transaction, mechanism: str, login: LoginPassword
    ) -> AuthResult:
        """Compare what a client says with the secret of the peer that it says to be."""
        secret = self.host.rights.secret_of(login.login.decode("ascii", "replace"))
        right = secret is not None and hmac.compare_digest(login.password, secret.encode())
        return AuthResult(success=right, handled=False, auth_data=login)


_NAME = "transport"
_FROM, _UNTIL = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


@cache
def server_context() -> ssl.SSLContext:
    """Return the server's side of TLS, with a certificate that nobody has signed but itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with (
        tempfile.NamedTemporaryFile() as file
    ):  # the library reads files only; this one is ours alone, and gone at once
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(file.name)
    return context
