"""The hooks that aiosmtpd calls in a session once it has parsed a command; most pass it on to the session (session.py).

aiosmtpd sends what they return. `server` is the session; `session` and `envelope` are aiosmtpd's objects for it and for its mail
transaction. `options` are the parameters of the command, of which none is left to handle here.
"""

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
    """The hooks of aiosmtpd, which prescribes their names and signatures; each returns a reply, `handle_EHLO` its lines."""

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
        """Accept the reverse-path `address`, unless it has characters that cannot be sent on; return the reply to MAIL, 250 or 553.

        An accepted reverse-path becomes `envelope.mail_from`, by which the mail transaction begins. The null one becomes `<>`.
        """
        if address and not address.isprintable():
            return UNSENDABLE_ADDRESS
        envelope.mail_from = address or "<>"  # aiosmtpd takes an empty one for none
        return "250 2.1.0 sender ok"

    async def handle_RCPT(
        self, server: "Receiver", session: Session, envelope: Transaction, address: str, options: list[str]
    ) -> str:
        """Return the reply to RCPT that `Receiver.recipient_reply` gives; if it is 250, add the recipient to aiosmtpd's transaction."""
        reply = server.recipient_reply(address)
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: "Receiver", session: Session, envelope: Transaction) -> str:
        """Accept or refuse a message, and wait for that; return the reply: with LMTP the reply lines for all recipients.

        aiosmtpd calls this at the final dot, and `Chunking.end_chunks` after the last chunk.
        """
        return await server.handle_message(bytes(envelope.original_content or b""))

    async def handle_exception(self, error: Exception) -> str:
        """Return the reply 451 to an unexpected error in a command.

        An error in the acceptance of a message is recorded as a failure of the node too, since it is raised in a task of the node.
        """
        return INTERNAL_ERROR
