"""Defects on the way to the next hop, and of reports about it."""

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


class Turns(Outbound):
    """What the defects below share: the replies of a next hop, turned into others."""

    def turned(self, replies: Replies) -> Replies:
        """Return what is made of them."""
        raise NotImplementedError

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> Replies:
        """Hand over, and misread the replies."""
        return self.turned(await super().transmit(attempt, server, dialogue))


@defect("gives-up-on-transient-failures", breaks="RL-RTY-01", part="outbound")
class GivesUpOnTransientFailures(Turns):
    """Takes a 4yz reply of the next hop for the last word."""

    def turned(self, replies: Replies) -> Replies:
        """Make 5yz of 4yz."""
        return {
            recipient: replace(reply, code=reply.code + 100, enhanced="5" + reply.enhanced[1:])
            if 400 <= reply.code < 500
            else reply
            for recipient, reply in replies.items()
        }


@defect("gives-up-on-451-4-4-0", breaks="RL-RTY-02", part="outbound")
class GivesUpOnShadowFailure(Turns):
    """Takes 451 4.4.0, a next hop without a shadow, for the last word."""

    def turned(self, replies: Replies) -> Replies:
        """Make 551 of 451 4.4.0."""
        return {
            recipient: Reply(551, "5.4.0", reply.text) if (reply.code, reply.enhanced) == (451, "4.4.0") else reply
            for recipient, reply in replies.items()
        }


@defect("one-refused-recipient-refuses-all", breaks="RL-RCP-01", part="outbound")
class OneRefusalRefusesAll(Turns):
    """Where a next hop refuses one recipient, takes all of them for refused."""

    def turned(self, replies: Replies) -> Replies:
        """Spread the refusal."""
        refused = next((reply for reply in replies.values() if reply.permanent), None)
        return replies if refused is None else dict.fromkeys(replies, refused)


class Rewrites(Outbound):
    """What the defects below share: the content that goes out is not the one that came in."""

    def rewritten(self, content: bytes) -> bytes:
        """Return what is sent."""
        raise NotImplementedError

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> Replies:
        """Hand something else over."""
        content = self.rewritten(self.host.messages.content(attempt.message.id))
        parameters = self.extra_mail_parameters(attempt, server, dialogue)
        return await dialogue.transmit(attempt.message.envelope.for_recipients(attempt.recipients), content, parameters)


@defect("strips-the-eighth-bit", breaks="RL-CNT-01", part="outbound")
class StripsTheEighthBit(Rewrites):
    """Passes content on with seven bits an octet."""

    def rewritten(self, content: bytes) -> bytes:
        """Take the eighth bit off."""
        return bytes(octet & 0x7F for octet in content)


@defect("swallows-leading-dots", breaks="RL-CNT-01", part="outbound")
class SwallowsLeadingDots(Rewrites):
    """Loses a dot at the beginning of a line."""

    def rewritten(self, content: bytes) -> bytes:
        """Take one dot off each line."""
        return content.replace(b"\r\n.", b"\r\n")


@defect("breaks-long-lines", breaks="RL-CNT-01", part="outbound")
class BreaksLongLines(Rewrites):
    """Breaks lines after 512 octets."""

    def rewritten(self, content: bytes) -> bytes:
        """Put line ends where there were none."""
        lines = content.split(b"\r\n")
        return b"\r\n".join(b"\r\n".join(line[at : at + 512] for at in range(0, len(line) or 1, 512)) for line in lines)


@defect("cuts-content-off-after-a-megabyte", breaks="RL-CNT-01", part="outbound")
class CutsContentOff(Rewrites):
    """Passes on no more than the first mebibyte of a message."""

    def rewritten(self, content: bytes) -> bytes:
        """Keep what fits."""
        return content[: 2**20]


class WaitsForEver(Outbound):
    """Waits for a silent next hop for a week."""

    async def begin_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Give the session a week's patience."""
        dialogue.idle_timeout = 7 * 86400.0
        await super().begin_session(hop, server, dialogue)


@defect("waits-for-ever-for-a-next-hop", breaks="SR-TMO-08", part="ex2010.outbound", also={"outbound": WaitsForEver})
class HubWaitsForEver(WaitsForEver, HubOutbound):
    """Waits for a silent next hop for a week."""


@defect("never-reports-failures", breaks="RL-DSN-01", part="reports")
class NeverReports(Reports):
    """Drops what cannot be delivered, and tells nobody."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Say nothing."""


@defect("reports-twice", breaks="RL-DSN-01", part="reports")
class ReportsTwice(Reports):
    """Reports every failure twice."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Say it again."""
        super().report_failed(message, failures, hop)
        super().report_failed(message, failures, hop)


@defect("reports-about-reports", breaks="RL-DSN-02", part="reports")
class ReportsToThePostmaster(Reports):
    """Reports the failure of a message with a null reverse-path to an address of its header."""

    def send_report(self, action: ReportAction, message: Message, statuses: Sequence[RecipientStatus]) -> None:
        """Find somebody to tell."""
        if not message.envelope.reverse_path:
            somebody = replace(message.envelope, reverse_path="alice@outside.test")
            message = replace(message, envelope=somebody)
        super().send_report(action, message, statuses)


@defect("expires-without-a-report", breaks="SR-MNT-14", part="reports")
class ExpiresWithoutAReport(Reports):
    """Lets a message expire and tells nobody."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Say nothing of what expired."""
        super().report_failed(message, [one for one in failures if one[1].enhanced != "5.4.7"], hop)


@defect("journals-twice", breaks="SR-MNT-08", part="journaling")
class JournalsTwice(Journaling):
    """Makes two journal reports of a message."""

    def send_report_if_due(self, message: Message) -> None:
        """Report it again."""
        super().send_report_if_due(message)
        super().send_report_if_due(message)


@defect("fails-as-it-is-stopped", breaks="RL-ACK-01", part="delivery")
class FailsAsItIsStopped(Delivery):
    """Fails in the midst of an orderly stop, and drops what it has not delivered yet."""

    async def stop(self, grace: float) -> None:
        """Drop everything, and break down."""

        async def broken() -> None:
            raise DatabaseError("what was not delivered is gone")

        for message in list(self.host.messages.in_place("primary")):
            self.host.messages.drop(message.id)
        self.host.tasks.start(broken(), f"{self.host.name}: fails")
        await super().stop(grace)


@defect("never-expires", breaks="SR-MNT-14", part="delivery")
class NeverExpires(Delivery):
    """Tries for ever."""

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Take every message for new."""
        super()._defer(replace(message, since=self.host.now()), recipients, hop)


@defect("expires-at-half", breaks="SR-MNT-14", part="delivery")
class ExpiresAtHalf(Delivery):
    """Gives up after half of MessageExpirationTimeout."""

    part_of_its_time = 1 / 2

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Take a message for expired that is old enough for us."""
        whole = self.host.transport.MessageExpirationTimeout
        if self.host.is_due(message.since + whole * self.part_of_its_time):
            message = replace(message, since=message.since - whole)
        super()._defer(message, recipients, hop)


@defect("gives-up-within-the-hour", breaks="RL-RTY-01", part="delivery")
class GivesUpWithinTheHour(ExpiresAtHalf):
    """Takes the hours of MessageExpirationTimeout for minutes, and gives up what was deferred for so long."""

    part_of_its_time = 1 / 60
