"""Defects of sessions: a transaction that has something of the one before it, and replies and chunks in odd places.

A method named `smtp_VERB` handles a command; `push` sends a reply. `_recipients` and `_mail_parameters` (those of MAIL) belong to
the mail transaction. Content may come in chunks, with the command BDAT. A server asks for discard notifications with XQDISCARD.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.receive.session import Receiver
from conformance.reference.receive.verbs import SHADOW_ID, ShadowVerbs
from conformance.reference.replies import add_enhanced_code


@defect("keeps-recipients-over-helo", breaks="RL-CNT-01", slot="receiver")
class KeepsRecipientsOverHelo(Receiver):
    """Passes a message on to recipients of a transaction that HELO has ended, too."""

    async def smtp_HELO(self, arg: str) -> None:
        """Handle HELO, and keep the recipients of the transaction for the next one.

        Correct is to discard them (RFC 5321 4.1.4).
        """
        kept = self._recipients
        await super().smtp_HELO(arg)
        self._recipients = kept


@defect("keeps-recipients-of-refused-content", breaks="RL-CNT-01", slot="receiver")
class KeepsRecipientsOfRefusedContent(Receiver):
    """Passes a message on to the recipients of another one, which was refused for its size, too."""

    handled = False

    async def smtp_DATA(self, arg: str) -> None:
        """Handle DATA and the content; keep the recipients if the content was not handled, since it was refused for its size.

        Correct is to discard them (RFC 5321 4.1.1.4).
        """
        kept, self.handled = self._recipients, False
        await super().smtp_DATA(arg)
        if not self.handled:
            self._recipients = kept

    async def handle_message(self, content: bytes) -> str:
        """Note that the content is handled, and accept or refuse the message; return the reply."""
        self.handled = True
        return await super().handle_message(content)


@defect("begins-a-transaction-with-a-refused-mail", breaks="RL-CNT-01", slot="receiver")
class BeginsWithARefusedMail(Receiver):
    """Takes a refused MAIL for the begin of a transaction, and gives its parameters to the message of the next MAIL."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Handle MAIL; give a transaction the parameters of the last refused MAIL of the session, if any, in place of its own.

        Correct is to forget the parameters of a refused MAIL.
        """
        kept, refused = self.__dict__.get("_refused_parameters"), not self.session_state.in_transaction
        await super().smtp_MAIL(arg)
        if refused and not self.session_state.in_transaction:
            words = (word.partition("=") for word in (arg or "").partition(">")[2].split())
            self.__dict__["_refused_parameters"] = {key.upper(): value for key, _, value in words}
        elif kept:
            self._mail_parameters = kept


@defect("greets-with-an-enhanced-status-code", breaks="SR-WIR-03", slot="receiver")
class GreetsWithAnEnhancedStatusCode(Receiver):
    """Begins its greeting, and its reply to HELO, with an enhanced status code."""

    async def smtp_HELO(self, arg: str) -> None:
        """Handle HELO, and send its reply with an enhanced status code; correct is a reply without one (RFC 2034 4)."""
        await super(Receiver, self).smtp_HELO(arg)

    async def push(self, status: str | bytes) -> None:
        """Send a reply with an enhanced status code, the greeting too; correct is a greeting without one."""
        if not self._banner_sent:
            status = add_enhanced_code(str(status))
        await super().push(status)


@defect("counts-each-chunk-alone", breaks="RL-CNT-02", slot="receiver")
class CountsEachChunkAlone(Receiver):
    """Refuses a chunk that is larger than the announced SIZE, and takes any number of smaller ones."""

    async def take_chunk(self, size: int) -> str | None:
        """Read a chunk of `size` octets, and compare that alone with the limit; correct is to add the chunks before it.

        Return None, or the reply that refuses the chunk.
        """
        before, self._chunks = self._chunks or b"", None
        refusal = await super().take_chunk(size)
        if refusal is None:
            self._chunks = before + (self._chunks or b"")
        return refusal


@defect("tells-again-what-was-read", breaks="SR-WIR-04", slot="verbs")
class TellsAgainWhatWasRead(ShadowVerbs):
    """Takes the notifications in an answer for read only when the asking server asks again in the same session."""

    def confirm_discards_read(self) -> None:
        """Do nothing: the notifications in the last reply to XQDISCARD stay queued.

        Correct is to delete them at any further command of the asking server (wire-profile.md).
        """

    async def handle_xqdiscard(self, words: list[str]) -> list[str]:
        """Delete the notifications in the last reply to XQDISCARD in this session, then answer XQDISCARD.

        Return the lines of the reply.
        """
        super().confirm_discards_read()
        return await super().handle_xqdiscard(words)


@defect(
    "takes-a-refused-request",
    breaks="SR-WIR-03",
    slot="verbs",
    needs_expectation="where the harness speaks for a server, the rules do not know the queue database of that server",
)
class TakesARefusedRequest(ShadowVerbs):
    """Refuses a second XSHADOWREQUEST of a session, and goes by the queue database that it names all the same."""

    async def handle_xshadowrequest(self, words: list[str]) -> list[str]:
        """Return the correct reply to XSHADOWREQUEST; a well-formed one that is out of order counts for what follows."""
        before = self.client_identity
        answer = await super().handle_xshadowrequest(words)
        if before is not None and self.refusal(words, SHADOW_ID) is None:
            self.client_identity = (words[0], words[1])
        return answer
