"""Defects that show with mail that is unlike most: null senders, many recipients, letter case, sizes, folded fields, refusals.

A shadow is the copy of a message that another server keeps until a discard notification says that the message has been processed.
Reports, such as about failures, are messages with a null reverse-path.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from weakref import WeakSet

from conformance.reference.config import Peer
from conformance.reference.defects.defect import defect
from conformance.reference.defects.session import DropsWhatLostItsSender, ForgetsWhatItDidNotAcknowledge
from conformance.reference.duplicates import DuplicateDetection, DuplicateKey
from conformance.reference.host import Host
from conformance.reference.hub2010.completion import HubCompletion
from conformance.reference.hub2010.outbound import HubOutbound
from conformance.reference.message import Envelope, Message, Place, Recipient
from conformance.reference.queue.delivery import Completion
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin
from conformance.reference.replies import Reply
from conformance.reference.routing.bifurcation import Routing
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.safety_net import SafetyNet
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.creation import Redundancy, ShadowCreation
from conformance.reference.shadow.shadow_queues import Promotion


@defect("shadow-merges-recipients-that-differ-in-case", breaks="SR-CRE-06", slot="creation")
class ShadowMergesRecipients(ShadowCreation):
    """Sends a shadow copy for one of two recipients outside whose addresses differ in letter case only."""

    async def transmit_shadow(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
        """Send the copy to a server, only for the first of several recipients whose addresses differ in letter case only.

        Raises SessionLost if the copy is not stored.
        """
        recipients = {recipient.address.lower(): recipient for recipient in reversed(message.envelope.recipients)}
        envelope = message.envelope.for_recipients(tuple(reversed(recipients.values())))
        await super().transmit_shadow(peer, replace(message, envelope=envelope), content, dialogue)


@defect("large-messages-stay-in-the-site", breaks="SR-PRF-01", slot="creation")
class LargeMessagesStayInTheSite(ShadowCreation):
    """Prefers servers of its own site for messages above eight kilobytes: the line to the other site is slow."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Have a shadow stored; return whether one was. For content above 8192 octets servers of the own site are tried first.

        While that lasts, the same holds for other messages; if two such messages overlap and the earlier ends first, it does for good.
        """
        choice, site = self.host.choice, self.host.config.site
        if len(content) <= 8192:
            return await super().make_shadow(message, content, deadline)
        correct = choice.servers_to_try
        choice.servers_to_try = lambda: sorted(correct(), key=lambda peer: peer.site != site)  # type: ignore[method-assign]
        try:
            return await super().make_shadow(message, content, deadline)
        finally:
            choice.servers_to_try = correct  # type: ignore[method-assign]


class DropsLostReports(DropsWhatLostItsSender):
    """Drops a message with a null reverse-path whose sender's session was lost before it is acknowledged."""

    async def acknowledge(self, message: Message) -> Reply:
        """Return the correct reply to a message; if its reverse-path is null and its session was lost, delete it and return 451."""
        acknowledge = Acceptance.acknowledge if message.envelope.reverse_path else DropsWhatLostItsSender.acknowledge
        return await acknowledge(self, message)


@defect(
    "forgets-a-report-whose-sender-is-lost",
    breaks="SR-TMO-03",
    slot="receiver",
    also={"acceptance": DropsLostReports},
)
class ForgetsAReportWhoseSenderIsLost(ForgetsWhatItDidNotAcknowledge):
    """Drops a message with a null reverse-path whose sender's session is lost: no report can go to a null sender."""

    def eof_received(self) -> bool | None:
        """When the sender has ended its side of the connection, have `DropsLostReports` drop the message in hand, if there is one.

        That drops it only if its reverse-path is null. Then end the session, and return what the correct class returns to asyncio.
        """
        self.abandon()
        return super().eof_received()


@defect("refuses-a-second-null-sender", breaks="SR-TMO-04", slot="acceptance")
class RefusesASecondNullSender(Acceptance):
    """Refuses a message with a null reverse-path that it had before, to end loops of reports."""

    def start(self) -> None:
        """Begin with no message known; `known` has the contents of all messages since the start of the node, accepted or refused."""
        self.known: set[bytes] = set()

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Refuse (554) a message with a null reverse-path and a known content; handle others correctly. Return the reply."""
        if not envelope.reverse_path and content in self.known:
            return Reply(554, "5.4.6", "this report was here before")
        self.known.add(content)
        return await super().accept(envelope, content, origin)


@defect("holds-no-mail-of-null-senders", breaks="SR-SFN-01", slot="safety_net")
class HoldsNoMailOfNullSenders(SafetyNet):
    """Holds no message with a null reverse-path in Safety Net."""

    def hold(self, row_id: int, place: Place) -> None:
        """Hold a processed message in `place`; delete one of this server itself (`safety-net`) with a null reverse-path instead."""
        message = self.host.messages.get(row_id)
        if place == "safety-net" and message is not None and not message.envelope.reverse_path:
            self.host.messages.drop(row_id)
        else:
            super().hold(row_id, place)


@defect("resubmits-what-is-in-capitals", breaks="SR-SFN-04", slot="safety_net")
class ResubmitsWhatIsInCapitals(SafetyNet):
    """Leaves recipients of other databases out by their addresses in lower case, and sends again to those in capitals."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the recipients to whom a held message is sent again: the correct ones, and any whose address has a capital letter.

        Return none if there is no correct one.
        """
        correct = super().recipients_to_resubmit(message, addresses)
        capitals = (one for one in message.envelope.recipients if one.address != one.address.lower())
        return tuple(dict.fromkeys((*correct, *capitals))) if correct else ()


@defect("hub-reports-no-null-sender", breaks="SR-E10-04", slot="ex2010.completion")
class HubReportsNoNullSender(HubCompletion):
    """Queues no discard notification for a message with a null reverse-path."""

    def release(self, message: Message) -> None:
        """Release a processed message correctly, but delete one with a null reverse-path without queueing discard notifications."""
        if message.envelope.reverse_path:
            super().release(message)
        else:
            self.host.messages.drop(message.id)


@defect("hub-asks-after-the-first-message", breaks="SR-E10-05", slot="ex2010.outbound")
class HubAsksAfterTheFirstMessage(HubOutbound):
    """Asks for discard status after the first message of a session, and not at its end."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.asked: WeakSet[Dialogue] = WeakSet()  # sessions in which discard status was queried

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Transmit a message, and query discard status after the first of a session in which XSHADOW may be used.

        Return the replies by recipient. Raises SessionLost.
        """
        replies = await super().transmit(attempt, server, dialogue)
        if dialogue not in self.asked and self.may_use_xshadow(dialogue, server):
            self.asked.add(dialogue)
            await self.host.manager.query_in_session(server, dialogue)
        return replies

    async def end_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Do nothing at the end of a session; correct is to query discard status there."""


@defect("fans-out-more-than-ten-recipients", breaks="SR-BIF-03", slot="routing")
class FansOutMoreThanTenRecipients(Routing):
    """Gives each of more than ten recipients a transmission of its own from the first server on."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop, each routed alone where there are more than ten, so that routes share no transmission."""
        members = list(recipients)
        if len(members) <= 10:
            return super().group_by_next_hop(members)
        groups: dict[NextHop, list[Recipient]] = {}
        for member in members:
            for hop, one in super().group_by_next_hop([member]).items():
                groups.setdefault(hop, []).extend(one)
        return groups


@defect("no-shadow-of-reports-for-a-hub", breaks="SR-CRE-01", slot="redundancy")
class NoShadowOfReportsForAHub(Redundancy):
    """Makes no shadow of a message with a null reverse-path that goes to a hub of 2010."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return None (acknowledge), without a shadow, for a message with a null reverse-path to a hub; handle others correctly.

        Correct is to try to make a shadow, and to return None, or the reply that refuses the message.
        """
        hubs = {peer.name for peer in self.host.config.peers if peer.role == "hub"}
        hops = self.host.routing.group_by_next_hop(message.envelope.recipients)
        if not message.envelope.reverse_path and any(hubs & set(hop.servers) for hop in hops):
            return None
        return await super().make_redundant_or_refuse(message, content, deadline)


@defect("reads-one-line-of-a-message-id", breaks="SR-DUP-01", slot="duplicates")
class ReadsOneLineOfAMessageId(DuplicateDetection):
    """Reads the first line of the Message-ID field, which is empty where the field is folded after its name."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the duplicate key of a message; None also if its Message-ID is on another line than the name of the field.

        A message without a key is never dropped as a duplicate.
        """
        header = content.partition(b"\r\n\r\n")[0].lower()
        line = next((line for line in header.split(b"\r\n") if line.startswith(b"message-id:")), b"")
        return super().key_of(mailbox, content) if line.partition(b":")[2].strip() else None


@defect("a-refused-recipient-releases-the-shadow", breaks="SR-MNT-07", slot="completion")
class ARefusedRecipientReleasesTheShadow(Completion):
    """Offers the discard notification once any recipient was refused for good, while others are pending."""

    def release_if_processed(self, row_id: int) -> None:
        """Queue the discard notifications of a message with a failed recipient, also while others are pending; then as is correct.

        Called after each attempt, with the row id of the message. Correct is to queue them when the message is processed.
        """
        message = self.host.messages.get(row_id)
        failed = self.host.messages.recipients_with_fate(row_id, ("failed",))
        if message is not None and message.place == "primary" and failed:
            self.host.discard_status.queue_notifications(message)
        super().release_if_processed(row_id)


@defect("promotes-for-twenty-recipients", breaks="SR-CRE-06", slot="promotion")
class PromotesForTwentyRecipients(Promotion):
    """Delivers a promoted message to the first twenty of its recipients."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Promote the shadows with these row ids, each without its recipients after the twentieth, who are deleted."""
        for row in rows:
            self.host.db.write("DELETE FROM recipient WHERE message = ? AND position >= 20", (row,))
        super().take_over(rows)
