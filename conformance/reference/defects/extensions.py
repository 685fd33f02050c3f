"""Defects of extensions: the parameters and reports of DSN (RFC 3461), chunks (RFC 3030), 8-bit content (RFC 6152), UTF-8 (RFC 6531).

The envelope that a server receives has the parameters NOTIFY and ORCPT (original recipient) of each recipient, and RET, ENVID and
SMTPUTF8 of MAIL. Content may come in chunks, with the command BDAT in place of DATA. `push` sends a reply.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Sequence
from dataclasses import replace

from conformance.reference.config import Address
from conformance.reference.defects.defect import defect
from conformance.reference.defects.envelopes import AltersEnvelopes
from conformance.reference.dsn import RecipientStatus, ReportAction
from conformance.reference.message import Envelope, Fate, Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.queue.outbound import Outbound
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin
from conformance.reference.receive.session import Receiver
from conformance.reference.replies import Reply
from conformance.reference.reports import Reports
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue


@defect("forgets-ret-and-envid", breaks="RL-DSN-03", slot="outbound")
class ForgetsRetAndEnvid(AltersEnvelopes):
    """Passes NOTIFY and ORCPT of each recipient on, and forgets the parameters of MAIL."""

    def altered_envelope(self, envelope: Envelope) -> Envelope:
        """Return the envelope that is sent to the next hop: the received one without RET and ENVID."""
        return replace(envelope, ret="", envid="")


@defect("folds-the-case-of-orcpt", breaks="RL-DSN-03", slot="acceptance")
class FoldsTheCaseOfOrcpt(Acceptance):
    """Takes the original recipient for an address whose letter case is of no account."""

    def store(self, envelope: Envelope, content: bytes, message_id: str, origin: MessageOrigin) -> Message:
        """Store an accepted message with each ORCPT in lower case, and return it; RFC 3461 4.2 has it passed on unchanged."""
        folded = tuple(replace(one, orcpt=one.orcpt.lower()) for one in envelope.recipients)
        return super().store(envelope.for_recipients(folded), content, message_id, origin)


@defect("reports-failures-in-spite-of-notify", breaks="RL-DSN-04", slot="reports")
class ReportsFailuresInSpiteOfNotify(Reports):
    """Reports each failure, whatever NOTIFY says."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Report the failure of recipients as if none of them had come with NOTIFY; `failures` has the final reply for each."""
        super().report_failed(message, [(replace(one, notify=""), reply) for one, reply in failures], hop)


@defect("reports-no-relay", breaks="RL-DSN-05", slot="reports")
class ReportsNoRelay(Reports):
    """Reports deliveries into mailboxes, and leaves those to the next hop that has no DSN."""

    def report_succeeded(self, message: Message, recipients: Sequence[Recipient], fate: Fate, hop: NextHop) -> None:
        """Report recipients that were delivered into mailboxes as is correct, and none that were relayed, who should be reported too."""
        if fate == "delivered":
            super().report_succeeded(message, recipients, fate, hop)


@defect("reports-what-the-next-hop-reports", breaks="RL-DSN-06", slot="delivery")
class ReportsWhatTheNextHopReports(Delivery):
    """Takes no next hop for one that makes reports."""

    async def record_outcome(
        self, attempt: DeliveryAttempt, replies: dict[Recipient, Reply], *, takes_over_reports: bool
    ) -> None:
        """Record the replies to an attempt as if the next hop did not take over status notifications, so that both report."""
        await super().record_outcome(attempt, replies, takes_over_reports=False)


@defect("reports-without-the-senders-names", breaks="RL-DSN-07", slot="reports")
class ReportsWithoutTheSendersNames(Reports):
    """Leaves the envelope id and the original recipient out of its reports."""

    def send_report(self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus]) -> None:
        """Send a report of this kind about these recipients as if the message had come without ENVID and ORCPT."""
        bare = [replace(one, recipient=replace(one.recipient, orcpt="")) for one in statuses]
        super().send_report(action, replace(message, envelope=replace(message.envelope, envid="")), bare)


@defect("takes-dots-out-of-chunks", breaks="RL-BDA-01", slot="receiver")
class TakesDotsOutOfChunks(Receiver):
    """Removes the first dot of a line from chunks too, as after DATA."""

    async def end_chunks(self) -> None:
        """After the last chunk, remove a dot at the beginning of each line of the content, and then accept or refuse the message."""
        self._chunks = (b"\r\n" + (self._chunks or b"")).replace(b"\r\n.", b"\r\n")[2:]
        await super().end_chunks()


@defect("answers-the-last-chunk-twice", breaks="RL-BDA-02", slot="receiver")
class AnswersTheLastChunkTwice(Receiver):
    """Answers the last chunk once it has come, and once more when the message is decided."""

    async def end_chunks(self) -> None:
        """After the last chunk, send a 250, and then accept or refuse the message, which sends the correct reply too."""
        await self.push("250 2.0.0 the last chunk has come")
        await super().end_chunks()


@defect("refuses-an-empty-last-chunk", breaks="RL-BDA-02", slot="receiver")
class RefusesAnEmptyLastChunk(Receiver):
    """Takes `BDAT 0 LAST` for a mistake."""

    async def smtp_BDAT(self, arg: str | None) -> None:
        """Refuse `BDAT 0 LAST`, an empty last chunk, with 501, though RFC 3030 permits it; handle any other BDAT correctly."""
        if (arg or "").upper() == "0 LAST":
            await self.push("501 5.5.4 an empty chunk")
        else:
            await super().smtp_BDAT(arg)


@defect("runs-what-is-in-a-refused-chunk", breaks="RL-BDA-03", slot="receiver")
class RunsWhatIsInARefusedChunk(Receiver):
    """Leaves the octets of a refused chunk where they are, so that they are taken for commands."""

    async def skip_chunk(self, size: int) -> None:
        """Leave the `size` octets of a refused chunk unread; the session then reads them as command lines."""


@defect("keeps-chunks-over-rset", breaks="RL-BDA-04", slot="receiver")
class KeepsChunksOverRset(Receiver):
    """Puts chunks from before RSET in front of the next message in chunks."""

    async def smtp_RSET(self, arg: str | None) -> None:
        """Handle RSET, and keep the chunks of the transaction before it, if any, for `take_chunk`; correct is to drop them."""
        chunks = self._chunks
        await super().smtp_RSET(arg)
        self._kept = chunks

    async def take_chunk(self, size: int) -> str | None:
        """Read a chunk of `size` octets; the first one after RSET is joined to the chunks that were kept.

        Return None, or the reply that refuses the chunk.
        """
        kept, self._kept = self._kept, None
        self._chunks = kept if self._chunks is None else self._chunks
        return await super().take_chunk(size)

    _kept: bytes | None = None


@defect("takes-data-amid-chunks", breaks="RL-BDA-04", slot="receiver")
class TakesDataAmidChunks(Receiver):
    """Forgets chunks when DATA comes, and takes the content after it."""

    async def smtp_DATA(self, arg: str) -> None:
        """Drop the chunks of the transaction and handle DATA; correct is to refuse DATA after a chunk (RFC 3030 2)."""
        self.forget_chunks()
        await super().smtp_DATA(arg)


@defect("sends-eight-bits-to-any-next-hop", breaks="RL-8BM-01", slot="outbound")
class SendsEightBitsToAnyNextHop(Outbound):
    """Sends content as it is, whether or not the next hop offers 8BITMIME."""

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session with a server of a next hop, not connected yet, in which eight-bit content is sent in any case.

        Correct is to refuse such content where the server does not offer 8BITMIME.
        """
        dialogue = super().new_dialogue(hop, server, dial)
        dialogue.sends_eight_bits_always = True
        return dialogue


@defect("drops-what-follows-a-refusal", breaks="RL-PIP-01", slot="receiver")
class DropsWhatFollowsARefusal(Receiver):
    """Empties its input when it refuses a command, so that the rest of the group is lost."""

    async def push(self, status: str | bytes) -> None:
        """Send a reply; with one that refuses for good (5yz), drop the commands that have been received and not yet handled."""
        text = status.decode("ascii") if isinstance(status, bytes) else status
        if text.startswith("5") and self._line_buffer is not None:
            self._line_buffer.clear()
        await super().push(status)


@defect("drops-what-follows-a-message", breaks="RL-PIP-01", slot="receiver")
class DropsWhatFollowsAMessage(Receiver):
    """Empties its input when it has taken a message, so that a group that came with the final dot is lost."""

    async def handle_message(self, content: bytes) -> str:
        """Drop the commands that were received after the message, and then accept or refuse it; return the reply."""
        if self._line_buffer is not None:
            self._line_buffer.clear()
        return await super().handle_message(content)


@defect("reports-to-the-sender-of-nothing", breaks="RL-PIP-01", slot="receiver")
class ReportsToTheSenderOfNothing(Receiver):
    """Answers DATA with 354 where it has refused every recipient, and sends what comes then to the reverse-path."""

    async def smtp_DATA(self, arg: str) -> None:
        """Handle DATA; if no recipient was accepted, as if the reverse-path were one. Correct is to refuse DATA then."""
        assert self.envelope is not None
        if self.envelope.mail_from and not self.envelope.rcpt_tos:
            self.envelope.rcpt_tos.append(self.envelope.mail_from)
            self._recipients.append(Recipient(self.envelope.mail_from))
        await super().smtp_DATA(arg)


@defect("forwards-without-smtputf8", breaks="RL-UTF-01", slot="outbound")
class ForwardsWithoutSmtpUtf8(AltersEnvelopes):
    """Passes mail on without SMTPUTF8, and its addresses as they are."""

    def altered_envelope(self, envelope: Envelope) -> Envelope:
        """Return the envelope that is sent to the next hop: the received one without SMTPUTF8."""
        return replace(envelope, smtputf8=False)


@defect("sends-utf8-to-any-next-hop", breaks="RL-UTF-02", slot="outbound")
class SendsUtf8ToAnyNextHop(Outbound):
    """Sends addresses in UTF-8 as they are, whether or not the next hop offers SMTPUTF8."""

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session with a server of a next hop, not connected yet, in which addresses in UTF-8 are sent in any case.

        Correct is to refuse such recipients where the server does not offer SMTPUTF8.
        """
        dialogue = super().new_dialogue(hop, server, dial)
        dialogue.sends_utf8_always = True
        return dialogue


@defect("returns-all-that-came-with-smtputf8", breaks="RL-UTF-03", slot="outbound")
class ReturnsAllThatCameWithSmtpUtf8(Outbound):
    """Returns what came with SMTPUTF8 where the next hop does not offer it, whether or not the message needs it."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Return 550 for all recipients of a message that came with SMTPUTF8 if the next hop does not offer that; else transmit it.

        Correct is to transmit it, and to refuse only what cannot be sent without SMTPUTF8. Return the replies by recipient.
        """
        if attempt.message.envelope.smtputf8 and "SMTPUTF8" not in dialogue.keywords:
            return dict.fromkeys(attempt.recipients, Reply(550, "5.6.7", "SMTPUTF8 is not offered by the next hop"))
        return await super().transmit(attempt, server, dialogue)
