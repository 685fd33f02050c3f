"""Identifying clients, and what they may do (SR-WIR-01, SR-WIR-02).

A *peer* is another server of the organisation, as the configuration lists it. It proves its identity on the listener `transport`
with AUTH and the secret that it shares with this server, after STARTTLS (SR-E10-18). At the *front door*, the listener
`frontend`, STARTTLS is offered to every client, and AUTH within TLS for the one account that this server has; it gives no rights.
The certificate for STARTTLS is self-signed and made once by the process: it protects the secret against eavesdroppers and proves
no identity, since nodes have no common certificate authority. aiosmtpd handles the rest of STARTTLS and AUTH, and calls
`check_secret`. `peer.accept_xshadow` is the right of a peer to use the shadow verbs (XSHADOWREQUEST, XQDISCARD) here.
"""

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

from conformance.reference.boundary import in_boundary, makes_shadows_on_receipt
from conformance.reference.config import Listener, Peer
from conformance.reference.host import Component, Host
from conformance.reference.receive.fast_smtp import FastSMTP
from conformance.reference.receive.verbs import NOT_OFFERED, OUT_OF_ORDER, SessionState

ACCOUNTS = {"tester": "for-the-test"}
"""The passwords of clients at the front door, by user. The only account exists so that AUTH can be judged there."""


class Rights(Component):
    """The permissions of receive connectors: who a client is, and whether it may use the shadow verbs (XSHADOWREQUEST, XQDISCARD)."""

    def identify(self, listener: Listener, hello: str, authenticated: str | None) -> Peer | None:
        """Return the peer that a client of the transport listener is, or None if it is no known server.

        That is the peer whose name the client has `authenticated` with (None: it has not). If it has not, and `listener` is
        configured as externally secured (its network is protected by other means), it is the peer that the client names in EHLO
        (`hello`).
        """
        name = authenticated or (hello if listener.externally_secured else "")
        return self.host.config.peers_by_name.get(name.casefold())

    def secret_of(self, name: str) -> str | None:
        """Return the secret shared with a peer, or None for an unknown peer or one without a secret."""
        peer = self.host.config.peers_by_name.get(name.casefold())
        return peer.secret if peer is not None else None

    def password_of(self, user: str) -> str | None:
        """Return the password of a client at the front door, or None for an unknown user."""
        return ACCOUNTS.get(user)

    def may_use_shadow_verbs(self, peer: Peer | None) -> bool:
        """Return whether a client is offered XSHADOWREQUEST and XQDISCARD; `peer` is the identified server, None for other clients.

        The server must be a mailbox server of 2013 or later in the boundary of this one, and have the right (`accept_xshadow`);
        and shadow redundancy must be enabled here.
        """
        return (
            peer is not None
            and self.host.transport.ShadowRedundancyEnabled
            and peer.role == "mailbox"
            and makes_shadows_on_receipt(peer.generation)
            and in_boundary(self.host.config, peer)
            and peer.accept_xshadow
        )

    def lacks_xshadow_right(self, peer: Peer | None) -> bool:
        """Return whether a client is a known peer to which the configuration denies the shadow verbs; False for None."""
        return peer is not None and not peer.accept_xshadow

    def is_submission(self, peer: Peer | None) -> bool:
        """Return whether a client submits new mail: it is no server of the organisation (None), or its Mailbox Transport Submission."""
        return peer is None or peer.role == "submission"


class PeerAuthentication(FastSMTP):
    """The part of a session that authenticates the client: at the front door, and on the transport listener if any peer has a secret.

    `session_state` is what the shadow verbs know of the session: its listener, the identified peer, and whether a mail
    transaction is open. `limits` is the configuration of the listener. `session` is aiosmtpd's object for the session.
    """

    host: Host
    session_state: SessionState
    limits: Listener

    @property
    def may_authenticate(self) -> bool:
        """Whether this session offers STARTTLS, and AUTH within TLS: at the front door, and on `transport` if any peer has a secret."""
        listener = self.session_state.listener
        return listener == "frontend" or (listener == "transport" and self.host.config.has_secrets)

    def starttls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for STARTTLS, or None if this session does not offer it."""
        return server_context() if self.may_authenticate else None

    def identify_peer(self) -> Peer | None:
        """Return the peer that the client has shown to be (`Rights.identify`), or None; always None on other listeners than `transport`."""
        if self.session_state.listener != "transport":
            return None
        authenticated = self.session.auth_data.login if self.session.authenticated else None
        name = authenticated.decode("ascii", "replace") if authenticated else None
        return self.host.rights.identify(self.limits, self.session.host_name or "", name)

    async def smtp_AUTH(self, arg: str) -> None:
        """Handle AUTH PLAIN (RFC 4954); then the peer of the session (`session_state.peer`) is what `identify_peer` returns.

        That is the peer as which the client has authenticated. If it never has, it is None, or the peer that the client names in
        EHLO if the listener is externally secured. Replies 502 where authentication is not offered, and 503 amid a mail
        transaction; otherwise aiosmtpd sends the reply, before TLS a refusal (RFC 4954 4). May wait for a second line of the
        client, with the secret.
        """
        if not self.may_authenticate:
            await self.push(NOT_OFFERED)
            return
        if self.refuses_auth_now():
            await self.push(OUT_OF_ORDER)
            return
        await super().smtp_AUTH(arg)
        self.session_state.peer = self.identify_peer()

    def refuses_auth_now(self) -> bool:
        """Return whether AUTH is out of order: a mail transaction is open (RFC 4954 4)."""
        return self.session_state.in_transaction

    def check_secret(
        self, server: SMTP, session: Session, envelope: Transaction, mechanism: str, login: LoginPassword
    ) -> AuthResult:
        """Return, as the `success` of the result, whether a login has the right secret.

        aiosmtpd calls this for AUTH, and sends the reply. The right secret is the secret of the peer that the login names, or at
        the front door the password of the user that it names. Only `login` is used of the arguments.
        """
        rights, user = self.host.rights, login.login.decode("ascii", "replace")
        secret = rights.password_of(user) if self.session_state.listener == "frontend" else rights.secret_of(user)
        success = secret is not None and hmac.compare_digest(login.password, secret.encode())
        return AuthResult(success=success, handled=False, auth_data=login)  # not handled: aiosmtpd sends the reply


_CERTIFICATE_NAME = "transport"
_VALID_FROM, _VALID_UNTIL = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


@cache
def server_context() -> ssl.SSLContext:
    """Return the server-side TLS context of this process, with a self-signed certificate; made once, since that is slow."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _CERTIFICATE_NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_VALID_FROM)
        .not_valid_after(_VALID_UNTIL)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:  # load_cert_chain reads files only
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(file.name)
    return context
