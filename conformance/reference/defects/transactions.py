"""Defects of sessions: a transaction that has something of the one before it, and replies and chunks in odd places.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node that runs as `reference+NAME` has it in
place of the component in its `slot`, and then violates the requirement `breaks`. "Correct" is what the class that it inherits from does;
`self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.receive.session import Receiver
from conformance.reference.receive.verbs import ShadowVerbs
from conformance.reference.replies import add_enhanced_code


@defect("keeps-recipients-over-helo", breaks="RL-CNT-01", slot="receiver")
class KeepsRecipientsOverHelo(Receiver):
    """Passes a message on to recipients of a transaction that HELO has ended, too."""

    async def smtp_HELO(self, arg: str) -> None:
        """Handle HELO, and keep the recipients; correct is to discard them (RFC 5321 4.1.4)."""
        kept = self._recipients
        await super().smtp_HELO(arg)
        self._recipients = kept


@defect("keeps-recipients-of-refused-content", breaks="RL-CNT-01", slot="receiver")
class KeepsRecipientsOfRefusedContent(Receiver):
    """Passes a message on to the recipients of another one, which was refused for its size, too."""

    handled = False

    async def smtp_DATA(self, arg: str) -> None:
        """Handle DATA and the content; keep the recipients if the content was refused before it was handled (RFC 5321 4.1.1.4)."""
        kept, self.handled = self._recipients, False
        await super().smtp_DATA(arg)
        if not self.handled:
            self._recipients = kept

    async def handle_message(self, content: bytes) -> str:
        """Accept or refuse a whole message; return the reply."""
        self.handled = True
        return await super().handle_message(content)


@defect("begins-a-transaction-with-a-refused-mail", breaks="RL-CNT-01", slot="receiver")
class BeginsWithARefusedMail(Receiver):
    """Takes a refused MAIL for the begin of a transaction, and gives its parameters to the message of the next MAIL."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Handle MAIL; after a refusal keep the parameters of DSN for the transaction that follows. Correct is to forget them."""
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
        """Answer HELO as any other command; correct is to begin with the server's name (RFC 5321 4.2, RFC 2034 4)."""
        await super(Receiver, self).smtp_HELO(arg)

    async def push(self, status: str | bytes) -> None:
        """Send a reply, the greeting too, with an enhanced status code."""
        if not self._banner_sent:
            status = add_enhanced_code(str(status))
        await super().push(status)


@defect("counts-each-chunk-alone", breaks="RL-CNT-02", slot="receiver")
class CountsEachChunkAlone(Receiver):
    """Refuses a chunk that is larger than the announced SIZE, and takes any number of smaller ones."""

    async def take_chunk(self, size: int) -> str | None:
        """Read a chunk, and compare its size with the limit without those before it."""
        before, self._chunks = self._chunks or b"", None
        refusal = await super().take_chunk(size)
        if refusal is None:
            self._chunks = before + (self._chunks or b"")
        return refusal


@defect("tells-again-what-was-read", breaks="SR-WIR-04", slot="verbs")
class TellsAgainWhatWasRead(ShadowVerbs):
    """Takes the notifications in an answer for read only when the asking server asks again in the same session."""

    def confirm_discards_read(self) -> None:
        """Do nothing; correct is to forget them at any further command (wire-profile.md)."""

    async def handle_xqdiscard(self, words: list[str]) -> list[str]:
        """Answer XQDISCARD, after forgetting what the last answer in this session had."""
        super().confirm_discards_read()
        return await super().handle_xqdiscard(words)
