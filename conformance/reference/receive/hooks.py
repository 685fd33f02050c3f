"""The hooks that aiosmtpd calls in a session once it has parsed a command; most pass it on to the session (session.py)."""

from typing import TYPE_CHECKING

from aiosmtpd.smtp import Envelope as Transaction
from aiosmtpd.smtp import Session

from conformance.reference.receive.prefixed_methods import PrefixedDir

if TYPE_CHECKING:
    from conformance.reference.receive.session import Receiver

INTERNAL_ERROR = "451 4.3.0 the server failed"
UNDECLARED_ADDRESS = "553 5.6.7 the address is not ASCII, and MAIL had no SMTPUTF8 (RFC 6531 3.4)"
UNSENDABLE_ADDRESS = "553 5.1.3 the address has characters that cannot be sent on"


class Hooks(PrefixedDir):
    """The hooks of aiosmtpd, which prescribes their names and signatures; each returns a reply.

    `server` is the session as this package has it; `session` and `envelope` are aiosmtpd's objects for it and for its mail
    transaction.
    """

    async def handle_EHLO(
        self, server: "Receiver", session: Session, envelope: Transaction, name: str, responses: list[str]
    ) -> list[str]:
        """Identify the client (`Receiver.ehlo_reply`); return the lines to send instead of `responses`, aiosmtpd's EHLO reply."""
        return server.ehlo_reply(name, responses)

    async def handle_RSET(self, server: "Receiver", session: Session, envelope: Transaction) -> str:
        """Return the reply to RSET, always 250; aiosmtpd has discarded the mail transaction."""
        return "250 2.0.0 forgotten"

    async def handle_MAIL(
        self, server: "Receiver", session: Session, envelope: Transaction, address: str, options: list[str]
    ) -> str:
        """Accept the reverse-path, unless it has characters that cannot be sent on; return the reply to MAIL, 250 or 553.

        An accepted one is set in aiosmtpd's transaction, which begins so: the null one as `<>`.
        """
        if address and not address.isprintable():
            return UNSENDABLE_ADDRESS
        envelope.mail_from = address or "<>"  # aiosmtpd takes an empty one for none
        return "250 2.1.0 sender ok"

    async def handle_RCPT(
        self, server: "Receiver", session: Session, envelope: Transaction, address: str, options: list[str]
    ) -> str:
        """Accept or refuse a recipient as `Receiver.recipient_reply` decides; an accepted one joins aiosmtpd's transaction."""
        reply = server.recipient_reply(address)
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: "Receiver", session: Session, envelope: Transaction) -> str:
        """Accept or refuse a message, and wait for that; return the reply, which may have several lines.

        aiosmtpd calls this at the final dot, and `Chunking.end_chunks` after the last chunk.
        """
        return await server.handle_message(bytes(envelope.original_content or b""))

    async def handle_exception(self, error: Exception) -> str:
        """Return the reply 451 to an unexpected error in a command; one in the acceptance of a message also makes the node fail."""
        return INTERNAL_ERROR
