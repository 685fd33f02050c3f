"""Defects of Exchange 2010's shadow redundancy: the sender's shadow queue, its heartbeat, delayed acknowledgement."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from conformance.reference.defects.defect import defect
from conformance.reference.hub2010.completion import HubCompletion
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.hub2010.outbound import HubOutbound, HubRouting
from conformance.reference.hub2010.shadow_queues import HubPromotion
from conformance.reference.hub2010.verbs import HubVerbs
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.receive.acceptance import MessageOrigin
from conformance.reference.replies import Reply
from conformance.reference.routing.bifurcation import Routing
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue


@defect("hub-forgets-after-the-first-next-hop", breaks="SR-E10-01", part="ex2010.completion")
class ForgetsAfterTheFirst(HubCompletion):
    """Deletes a message when the first of several next hops has it."""

    def is_processed(self, message: Message) -> bool:
        """Look for anybody who was reached."""
        reached = self.host.messages.with_fate(message.id, ("delivered", "relayed", "passed-on"))
        return bool(reached) or super().is_processed(message)


@defect("hub-never-offers-xshadow", breaks="SR-E10-02", part="ex2010.verbs")
class NeverOffers(HubVerbs):
    """Does not advertise XSHADOW."""

    def ehlo_keywords(self) -> list[str]:
        """Offer nothing."""
        return []


@defect("hub-keeps-no-shadow", breaks="SR-E10-03", part="ex2010.outbound")
class KeepsNoShadow(HubOutbound):
    """Sends with XSHADOW, and keeps no shadow of what was taken."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Hand over, and forget."""
        if not self.may_use_xshadow(dialogue, server):
            return await super().transmit(attempt, server, dialogue)
        content = self.host.messages.content(attempt.message.id)
        envelope = attempt.message.envelope.for_recipients(attempt.recipients)
        return await dialogue.transmit(envelope, content, f" XSHADOW={self.host.identity.new_id()}")


@defect("hub-withholds-from-a-shadow-keeper", breaks="SR-E10-03", part="ex2010.acceptance")
class WithholdsFromAKeeper(DelayedAcknowledgement):
    """Withholds the acknowledgement also from a sender that keeps a shadow."""

    async def accept_with_shadow(
        self, envelope: Envelope, content: bytes, origin: MessageOrigin, sender: str, shadow_id: str
    ) -> Reply:
        """Wait for delivery."""
        reply = await super().accept_with_shadow(envelope, content, origin, sender, shadow_id)
        found = self.host.shadows.find("", "", shadow_id)
        if found is not None and (message := self.host.messages.get(found[0])) is not None:
            await self.wait_until_delivered(message, origin.deadline)
        return reply


@defect("hub-never-marks-delivery-complete", breaks="SR-E10-04", part="ex2010.completion")
class NeverMarksComplete(HubCompletion):
    """Tells nobody that a message was passed on."""

    def release(self, message: Message) -> None:
        """Forget the message, and its sender."""
        self.host.messages.drop(message.id)


@defect("hub-asks-by-heartbeat-only", breaks="SR-E10-05", part="ex2010.outbound")
class AsksByHeartbeatOnly(HubOutbound):
    """Does not ask for discard status at the end of a session."""

    async def end_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Ask nothing."""


@defect("hub-heartbeat-too-slow", breaks="SR-E10-06", part="ex2010.manager")
class HeartbeatTooSlow(HubManager):
    """Lets twice ShadowHeartbeatTimeoutInterval pass before it asks."""

    def next_session_at(self, primary: str) -> float:
        """Return a later moment."""
        return super().next_session_at(primary) + self.host.transport.ShadowHeartbeatTimeoutInterval


@defect("hub-keeps-what-is-discarded", breaks="SR-E10-07", part="ex2010.manager")
class KeepsWhatIsDiscarded(HubManager):
    """Leaves a message in its shadow queue when the primary has passed it on."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Do nothing."""


@defect("hub-gives-up-after-one-interval", breaks="SR-E10-08", part="ex2010.manager")
class GivesUpAfterOne(HubManager):
    """Declares a primary failed after one interval without a session."""

    def heartbeat_failed(self, primary: str) -> None:
        """Count to one."""
        self.missed_intervals[primary] = self.host.transport.ShadowHeartbeatRetryCount
        super().heartbeat_failed(primary)


@defect("hub-never-gives-up", breaks="SR-E10-20", part="ex2010.manager")
class NeverGivesUp(HubManager):
    """Never declares a primary failed."""

    def declare_failed(self, primary: str) -> None:
        """Declare nothing, and go on asking."""


@defect("hub-count-never-starts-again", breaks="SR-E10-09", part="ex2010.manager")
class CountNeverStartsAgain(HubManager):
    """Does not forget failed intervals when a session succeeds."""

    def record_contact(self, primary: str) -> None:
        """Keep the count."""
        failures = self.missed_intervals.get(primary)
        super().record_contact(primary)
        if failures is not None:
            self.missed_intervals[primary] = failures


@defect("hub-resubmits-to-the-failed", breaks="SR-E10-10", part="ex2010.routing")
class ResubmitsToTheFailed(HubRouting):
    """Sends what it took over to the primary that failed."""

    def group_by_next_hop(self, recipients: Any) -> dict[NextHop, list[Recipient]]:
        """Route as if nobody had failed, and to one server only."""
        return Routing.group_by_next_hop(self, recipients)


@defect("hub-takes-over-without-a-route", breaks="SR-E10-11", part="ex2010.manager")
class TakesOverWithoutARoute(HubManager):
    """Takes shadows over though there is no other way for them."""

    def has_alternative(self, message: Message) -> bool:
        """There always is."""
        return True


@defect("hub-waits-for-the-end-of-the-chain", breaks="SR-E10-13", part="ex2010.completion")
class WaitsForTheEnd(HubCompletion):
    """Tells its sender only when the next hop has passed the message on in turn."""

    def release(self, message: Message) -> None:
        """Wait until nothing of it is in a shadow queue."""
        held = [one for one in self.host.messages.in_place("shadow") if one.internet_id == message.internet_id]
        if held:
            asyncio.get_running_loop().call_later(60, self.release, message)
        else:
            super().release(message)


@defect("hub-keeps-shadows-for-anybody", breaks="SR-E10-14", part="ex2010.outbound")
class KeepsShadowsForAnybody(HubOutbound):
    """Keeps a message for a next hop that does not offer XSHADOW, and sends it again when nothing is heard of it."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Hand over, and send it again an hour later."""
        replies = await super().transmit(attempt, server, dialogue)
        if not self.may_use_xshadow(dialogue, server) and not attempt.message.resubmitted:
            host = self.host
            content = host.messages.content(attempt.message.id)
            name = host.identity.new_id()
            twin = replace(attempt.message, id=0, message_id=name, shadow_id=name, resubmitted=True)
            alarm = host.alarms.new(lambda: host.delivery.start_processing(host.messages.add(twin, content)))
            alarm.set(host.now() + 3600)
        return replies


@defect("hub-acknowledges-at-once", breaks="SR-E10-15", part="ex2010.acceptance")
class AcknowledgesAtOnce(DelayedAcknowledgement):
    """Withholds nothing from a sender without XSHADOW."""

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Return at once."""


@defect("hub-withholds-too-long", breaks="SR-E10-16", part="ex2010.acceptance")
class WithholdsTooLong(DelayedAcknowledgement):
    """Withholds the acknowledgement until delivery, however long that takes."""

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Wait for twenty times as long."""
        for _ in range(20):
            await super().wait_until_delivered(message, deadline)
            if not self.host.messages.pending(message.id):
                return


@defect("hub-withholds-half-the-time", breaks="SR-E10-16", part="ex2010.acceptance")
class WithholdsHalfTheTime(DelayedAcknowledgement):
    """Withholds the acknowledgement for half of MaxAcknowledgementDelay."""

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Leave early."""
        half = asyncio.get_running_loop().time() + self.host.transport.MaxAcknowledgementDelay / 2
        await super().wait_until_delivered(message, min(half, deadline))


@defect("hub-promises-what-it-has-not", breaks="SR-E10-17", part="ex2010.acceptance")
class PromisesWhatItHasNot(DelayedAcknowledgement):
    """Acknowledges at once what it has in memory only: dying, it has acknowledged and lost it."""

    def start(self) -> None:
        """Have nothing of what was promised before."""
        for message in list(self.host.messages.in_place("primary")):
            self.host.messages.drop(message.id)

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Return at once."""


@defect("hub-offers-xshadow-to-strangers", breaks="SR-E10-18", part="ex2010.verbs")
class OffersToStrangers(HubVerbs):
    """Advertises XSHADOW whatever the session was granted."""

    @property
    def may_shadow(self) -> bool:
        """Whether it is the transport listener."""
        return self.session_state.listener == "transport"


@defect("hub-issues-xshadow-without-the-right", breaks="SR-E10-19", part="ex2010.outbound")
class IssuesWithoutTheRight(HubOutbound):
    """Issues XSHADOW wherever it is advertised."""

    def may_use_xshadow(self, dialogue: Dialogue, server: str) -> bool:
        """Whether the server offers it."""
        return "XSHADOW" in dialogue.keywords


@defect("hub-ignores-a-new-database", breaks="SR-E10-21", part="ex2010.manager")
class IgnoresANewDatabase(HubManager):
    """Does not notice that a next hop came back with a new queue database."""

    def compare_database(self, primary: str, database: str) -> None:
        """Note nothing."""


@defect("hub-takes-over-nothing", breaks="SR-E10-22", part="ex2010.promotion")
class TakesOverNothing(HubPromotion):
    """Leaves the messages of a failed primary where they are."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Do nothing."""


@defect("hub-resubmits-when-it-is-back", breaks="SR-E10-23", part="ex2010.manager")
class ResubmitsWhenItIsBack(HubManager):
    """Takes over for a primary that comes back with the database that it had."""

    def compare_database(self, primary: str, database: str) -> None:
        """Take every return after a failed interval for a new database."""
        if self.missed_intervals.get(primary):
            self.host.promotion.take_over(self.host.shadows.rows_held_for(primary))
        super().compare_database(primary, database)

    def record_session(self, primary: str, database: str) -> None:
        """Look before the count starts again."""
        self.compare_database(primary, database)
        self.record_contact(primary)
