"""Defects on the way to the next hop: misread replies, altered content, expiry, and reports of failures.

A 4yz reply defers a recipient, who is tried again until MessageExpirationTimeout; after a 5yz reply the sender gets a report of
the failure.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Sequence
from dataclasses import replace

from conformance.reference.defects.defect import defect
from conformance.reference.dsn import RecipientStatus, ReportAction
from conformance.reference.hub2010.outbound import HubOutbound
from conformance.reference.journal import Journaling
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.queue.outbound import Outbound
from conformance.reference.replies import Reply
from conformance.reference.reports import Reports
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.storage.database import DatabaseError

Replies = dict[Recipient, Reply]


class AltersReplies(Outbound):
    """Base class of defects that misread the replies of a next hop."""

    def altered_replies(self, replies: Replies) -> Replies:
        """Return, by recipient, the replies that take the place of the next hop's `replies`.

        Subclasses implement it; here it raises NotImplementedError.
        """
        raise NotImplementedError

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> Replies:
        """Send a message to a next hop, and return its replies by recipient as this server misreads them (`altered_replies`)."""
        return self.altered_replies(await super().transmit(attempt, server, dialogue))


@defect("gives-up-on-transient-failures", breaks="RL-RTY-01", slot="outbound")
class GivesUpOnTransientFailures(AltersReplies):
    """Takes a 4yz reply of the next hop for the last word."""

    def altered_replies(self, replies: Replies) -> Replies:
        """Return the next hop's replies by recipient, with a permanent one (5yz) in place of each temporary one (4yz)."""
        return {
            recipient: replace(reply, code=reply.code + 100, enhanced="5" + reply.enhanced[1:])
            if 400 <= reply.code < 500
            else reply
            for recipient, reply in replies.items()
        }


@defect("gives-up-on-451-4-4-0", breaks="RL-RTY-02", slot="outbound")
class GivesUpOnShadowFailure(AltersReplies):
    """Takes 451 4.4.0, a next hop without a shadow, for the last word."""

    def altered_replies(self, replies: Replies) -> Replies:
        """Return the next hop's replies by recipient, with 551 5.4.0 (permanent) in place of each 451 4.4.0.

        451 4.4.0 says that the next hop could make no shadow; the message is to be tried again.
        """
        return {
            recipient: Reply(551, "5.4.0", reply.text) if (reply.code, reply.enhanced) == (451, "4.4.0") else reply
            for recipient, reply in replies.items()
        }


@defect("one-refused-recipient-refuses-all", breaks="RL-RCP-01", slot="outbound")
class OneRefusalRefusesAll(AltersReplies):
    """Where a next hop refuses one recipient, takes all of them for refused."""

    def altered_replies(self, replies: Replies) -> Replies:
        """Return the first permanent refusal (5yz) for all recipients; the replies unchanged if there is none."""
        refused = next((reply for reply in replies.values() if reply.permanent), None)
        return replies if refused is None else dict.fromkeys(replies, refused)


class AltersContent(Outbound):
    """Base class of defects that send another content than they received."""

    def altered_content(self, content: bytes) -> bytes:
        """Return the content that is sent in place of a message's `content`; subclasses implement it (here NotImplementedError)."""
        raise NotImplementedError

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> Replies:
        """Send a message with altered content to a next hop, and return its replies by recipient."""
        content = self.altered_content(self.host.messages.content(attempt.message.id))
        parameters = self.extra_mail_parameters(attempt, server, dialogue)
        return await dialogue.transmit(attempt.message.envelope.for_recipients(attempt.remaining), content, parameters)


@defect("strips-the-eighth-bit", breaks="RL-CNT-01", slot="outbound")
class StripsTheEighthBit(AltersContent):
    """Passes content on with seven bits an octet."""

    def altered_content(self, content: bytes) -> bytes:
        """Return the content with the highest bit of each octet cleared."""
        return bytes(octet & 0x7F for octet in content)


@defect("swallows-leading-dots", breaks="RL-CNT-01", slot="outbound")
class SwallowsLeadingDots(AltersContent):
    """Loses a dot at the beginning of a line."""

    def altered_content(self, content: bytes) -> bytes:
        """Return the content without the first dot of each line that begins with one, except the first line."""
        return content.replace(b"\r\n.", b"\r\n")


@defect("breaks-long-lines", breaks="RL-CNT-01", slot="outbound")
class BreaksLongLines(AltersContent):
    """Breaks lines after 512 octets."""

    def altered_content(self, content: bytes) -> bytes:
        """Return the content with each line broken by CR LF after every 512 octets."""
        lines = content.split(b"\r\n")
        return b"\r\n".join(b"\r\n".join(line[at : at + 512] for at in range(0, len(line) or 1, 512)) for line in lines)


@defect("cuts-content-off-after-a-megabyte", breaks="RL-CNT-01", slot="outbound")
class CutsContentOff(AltersContent):
    """Passes on no more than the first mebibyte of a message."""

    def altered_content(self, content: bytes) -> bytes:
        """Return the first 2**20 octets of the content."""
        return content[: 2**20]


class WaitsForeverForNextHop(Outbound):
    """Waits for a silent next hop for a week."""

    async def begin_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Set the time for which the server may be silent in an open session to a week; then send what precedes the first message."""
        dialogue.idle_timeout = 7 * 86400.0
        await super().begin_session(hop, server, dialogue)


@defect(
    "waits-for-ever-for-a-next-hop",
    breaks="SR-TMO-08",
    slot="ex2010.outbound",
    also={"outbound": WaitsForeverForNextHop},
)
class HubWaitsForeverForNextHop(WaitsForeverForNextHop, HubOutbound):
    """Waits for a silent next hop for a week."""


@defect("never-reports-failures", breaks="RL-DSN-01", slot="reports")
class NeverReports(Reports):
    """Drops what cannot be delivered, and sends no report."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Do nothing when recipients have failed; correct is to send a report to the sender."""


@defect("reports-twice", breaks="RL-DSN-01", slot="reports")
class ReportsTwice(Reports):
    """Reports every failure twice."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Send the report about recipients that have failed, and a second one about the same."""
        super().report_failed(message, failures, hop)
        super().report_failed(message, failures, hop)


@defect("reports-about-reports", breaks="RL-DSN-02", slot="reports")
class ReportsToThePostmaster(Reports):
    """Reports the failure of a message with a null reverse-path to an address of its header."""

    def send_report(self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus]) -> None:
        """Send a report; one about a message with a null reverse-path goes to alice@outside.test, the usual author in scenarios.

        Correct is to send no report about such a message.
        """
        if not message.envelope.reverse_path:
            envelope = replace(message.envelope, reverse_path="alice@outside.test")
            message = replace(message, envelope=envelope)
        super().send_report(action, message, statuses)


@defect("expires-without-a-report", breaks="SR-MNT-14", slot="reports")
class ExpiresWithoutAReport(Reports):
    """Lets a message expire and sends no report."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Report recipients that have failed, except those whose message expired (status 5.4.7); `failures` has the reply for each."""
        super().report_failed(message, [one for one in failures if one[1].enhanced != "5.4.7"], hop)


@defect(
    "journals-twice",
    breaks="SR-MNT-08",
    slot="journaling",
    needs_expectation="no document says how many journal reports a message has",
)
class JournalsTwice(Journaling):
    """Makes two journal reports of a message."""

    def send_report_if_due(self, message: Message) -> None:
        """Send the journal report about a message twice, if one is due; `message` itself still says so at the second call."""
        super().send_report_if_due(message)
        super().send_report_if_due(message)


@defect("fails-as-it-is-stopped", breaks="RL-ACK-01", slot="delivery")
class FailsAsItIsStopped(Delivery):
    """Fails in the midst of an orderly stop, and drops what it has not delivered yet."""

    async def stop(self, grace: float) -> None:
        """Delete all undelivered messages, start a task that fails, and then stop as is correct.

        The failure of a task ends the node with an error.
        """

        async def broken() -> None:
            """Raise DatabaseError, at once."""
            raise DatabaseError("what was not delivered is gone")

        for message in list(self.host.messages.held_as("primary")):
            self.host.messages.drop(message.id)
        self.host.tasks.start(broken(), f"{self.host.name}: fails")
        await super().stop(grace)


@defect("never-expires", breaks="SR-MNT-14", slot="delivery")
class NeverExpires(Delivery):
    """Tries for ever."""

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Schedule the retry for recipients as if their message had just arrived, so that it never expires."""
        super()._defer(replace(message, since=self.host.now()), recipients, hop)


@defect("expires-at-half", breaks="SR-MNT-14", slot="delivery")
class ExpiresMessagesAtHalf(Delivery):
    """Gives up after half of MessageExpirationTimeout."""

    expiration_fraction = 1 / 2

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Schedule the retry for recipients, or report them as expired if the message is older than a fraction of MessageExpirationTimeout.

        The fraction is `expiration_fraction`.
        """
        expiration = self.host.transport.MessageExpirationTimeout
        if self.host.is_due(message.since + expiration * self.expiration_fraction):
            message = replace(message, since=message.since - expiration)  # so old that the correct class lets it expire
        super()._defer(message, recipients, hop)


@defect("gives-up-within-the-hour", breaks="RL-RTY-01", slot="delivery")
class GivesUpWithinTheHour(ExpiresMessagesAtHalf):
    """Takes the hours of MessageExpirationTimeout for minutes, and gives up what was deferred for so long."""

    expiration_fraction = 1 / 60


@defect("stuffs-dots-piece-by-piece", breaks="RL-CNT-01", slot="outbound")
class StuffsDotsPieceByPiece(AltersContent):
    """Loses a dot at the beginning of a line where CR LF and the dot are in two pieces of 64 KiB."""

    def altered_content(self, content: bytes) -> bytes:
        """Return the content without the leading dots that a multiple of 65,536 octets divides from their CR LF, or its CR."""
        altered = bytearray(content)
        for end in reversed(range(65536, len(content), 65536)):
            for begin in (end - 1, end - 2):
                if content[begin : begin + 3] == b"\r\n.":
                    del altered[begin + 2]
        return bytes(altered)
