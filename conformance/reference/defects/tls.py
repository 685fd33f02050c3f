"""Defects of STARTTLS (RFC 3207): what is not forgotten, on either side, and where mail goes when TLS fails.

A server forgets at STARTTLS what a client has said before; a client forgets what the server has said and offered. Opportunistic
TLS: where it fails, the client sends the mail in the clear. asyncio calls `connection_made` when a session begins and again when
TLS has begun.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import asyncio

from conformance.reference.defects.defect import defect
from conformance.reference.defects.patience import UsesOtherDialogue
from conformance.reference.message import Envelope, Recipient
from conformance.reference.receive.session import Receiver
from conformance.reference.replies import Reply
from conformance.reference.send.connection import Connection
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.smtp import SmtpDialogue


@defect("runs-what-is-behind-starttls", breaks="RL-TLS-01", slot="receiver")
class RunsWhatIsBehindStarttls(Receiver):
    """Keeps what has come in plaintext behind STARTTLS, and runs it within TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the session; when called again since TLS has begun, keep the octets that came in plaintext behind STARTTLS.

        They are put back into the buffer, and so run as commands.
        """
        kept = bytes(self._line_buffer or b"") if self._original_transport is not None else b""
        super().connection_made(transport)
        if kept:
            self._reader.feed_data(kept)


@defect("keeps-the-transaction-over-tls", breaks="RL-TLS-02", slot="receiver")
class KeepsTheTransactionOverTls(Receiver):
    """Goes on within TLS with the transaction that began before it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the session; when called again since TLS has begun, keep EHLO, the mail transaction and the parameters of MAIL.

        So RCPT and DATA are accepted; but `_recipients` is emptied, so that the message goes only to recipients named within TLS.
        """
        session, envelope, parameters = self.session, self.envelope, self._mail_parameters
        super().connection_made(transport)
        if session is not None and self.session is not None:
            session.ssl = self.session.ssl
            self.session, self.envelope, self._mail_parameters = session, envelope, parameters


@defect("offers-starttls-within-tls", breaks="RL-TLS-02", slot="receiver")
class OffersStarttlsWithinTls(Receiver):
    """Offers STARTTLS whether or not TLS has begun."""

    def ehlo_reply(self, name: str, responses: list[str]) -> list[str]:
        """Return the reply to EHLO from the client `name`, with STARTTLS within TLS too; `responses` are the lines of aiosmtpd."""
        assert self.session is not None
        again = ["250-STARTTLS"] if self.session.ssl is not None else []
        return super().ehlo_reply(name, [*again, *responses])


class _ReturnsMail(SmtpDialogue):
    """A session that returns its mail where the server refuses STARTTLS; `refused` says whether it has."""

    refused = False

    async def may_start_tls(self, answer: Reply) -> bool:
        """Return whether TLS begins after this reply to STARTTLS: only after 220. Otherwise note the refusal in `refused`."""
        self.refused = answer.code != 220
        return not self.refused

    async def transmit(self, envelope: Envelope, content: bytes, extra: str = "") -> dict[Recipient, Reply]:
        """Return 554 for all recipients if the server has refused TLS, else transmit the message."""
        if self.refused:
            return dict.fromkeys(envelope.recipients, Reply(554, "5.7.10", "TLS failed"))
        return await super().transmit(envelope, content, extra)


@defect("returns-mail-where-tls-is-refused", breaks="RL-TLS-03", slot="outbound")
class ReturnsMailWhereTlsIsRefused(UsesOtherDialogue):
    """Takes 454 to STARTTLS for a permanent failure of the message."""

    dialogue = _ReturnsMail


class _InsistsOnTls(SmtpDialogue):
    """A session that is lost where TLS fails; correct is to go on in the clear."""

    async def open(self) -> None:
        """Connect and begin the session. Raises SessionLost, also if TLS fails; correct is to try once more without TLS then."""
        await Dialogue.open(self)

    async def may_start_tls(self, answer: Reply) -> bool:
        """Return True after 220 to STARTTLS. Raises SessionLost for any other reply.

        Correct is to return False, and to go on in the clear.
        """
        if answer.code != 220:
            raise SessionLost("STARTTLS was refused")
        return True


@defect("insists-on-tls", breaks="RL-TLS-04", slot="outbound")
class InsistsOnTls(UsesOtherDialogue):
    """Defers mail where a next hop offers STARTTLS and TLS fails, however often it does."""

    dialogue = _InsistsOnTls


class _KeepsExtensions(SmtpDialogue):
    """A session that uses within TLS what the server offered before; correct is only what it offers within TLS."""

    async def greet_again(self) -> None:
        """Send EHLO within TLS, and go on with the extensions that were offered before. Raises SessionLost."""
        before = self.keywords
        await super().greet_again()
        self.keywords = {**self.keywords, **before}


@defect("keeps-extensions-over-tls", breaks="RL-TLS-05", slot="outbound")
class KeepsExtensionsOverTls(UsesOtherDialogue):
    """Uses within TLS what the next hop has offered before it."""

    dialogue = _KeepsExtensions


class _ReadsAheadConnection(Connection):
    """A connection that takes replies from before TLS for the first ones within it; `_ahead` has those replies."""

    _ahead: tuple[Reply, ...] = ()

    def forget_plaintext(self) -> None:
        """Keep, in `_ahead`, the replies that the server has sent behind the one to STARTTLS; correct is to drop them."""
        self._ahead = tuple(self._replies)
        super().forget_plaintext()

    def write(self, octets: bytes) -> None:
        """Send octets; the replies kept from before TLS are then read first, as if they answered what was sent."""
        super().write(octets)
        kept, self._ahead = self._ahead, ()
        self._replies.extend(kept)


class _TakesPlaintextReplies(SmtpDialogue):
    """A session over a `_ReadsAheadConnection`."""

    connection_class = _ReadsAheadConnection


@defect("takes-plaintext-for-replies-within-tls", breaks="RL-TLS-05", slot="outbound")
class TakesPlaintextForReplies(UsesOtherDialogue):
    """Takes what came in plaintext behind the reply to STARTTLS for the reply to its EHLO within TLS (CVE-2021-38371)."""

    dialogue = _TakesPlaintextReplies
