"""Defects of Exchange 2010 servers in their sessions: to whom XSHADOW is offered, which replies are withheld, when delivery is reported.

In Exchange 2010 a sender that says XSHADOW keeps the shadow of what it sends, until the receiver, now the primary, reports by a discard
notification that it has passed the message on. The reply to a message of any other sender is withheld until the message is delivered,
for MaxAcknowledgementDelay at most.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import asyncio
from dataclasses import replace
from typing import Any

from conformance.reference.config import Listener, Peer
from conformance.reference.defects.defect import defect
from conformance.reference.hub2010.completion import HubCompletion, NoSafetyNet
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.outbound import HubOutbound, HubRouting
from conformance.reference.hub2010.verbs import HubVerbs
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.receive.acceptance import MessageOrigin
from conformance.reference.receive.authentication import Rights
from conformance.reference.replies import Reply
from conformance.reference.routing.bifurcation import Routing
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue


@defect("hub-forgets-after-the-first-next-hop", breaks="SR-E10-01", slot="ex2010.completion")
class HubForgetsAfterTheFirst(HubCompletion):
    """Deletes a message when the first of several next hops has it."""

    def is_processed(self, message: Message) -> bool:
        """Return whether any recipient has the message (delivered or handed on), or it is processed; True has it deleted."""
        reached = self.host.messages.recipients_with_fate(message.id, ("delivered", "relayed", "passed-on"))
        return bool(reached) or super().is_processed(message)


@defect("hub-never-offers-xshadow", breaks="SR-E10-02", slot="ex2010.verbs")
class HubNeverOffers(HubVerbs):
    """Does not advertise XSHADOW."""

    def ehlo_keywords(self) -> list[str]:
        """Return no keyword for the EHLO reply, where XSHADOW should be."""
        return []


@defect("hub-keeps-no-shadow", breaks="SR-E10-03", slot="ex2010.outbound")
class HubKeepsNoShadow(HubOutbound):
    """Sends with XSHADOW, and keeps no shadow of what was taken."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Send a message to a next hop with XSHADOW= where that may be used, and store no shadow of it; return the replies by recipient."""
        if not self.may_use_xshadow(dialogue, server):
            return await super().transmit(attempt, server, dialogue)
        content = self.host.messages.content(attempt.message.id)
        envelope = attempt.message.envelope.for_recipients(attempt.remaining)
        return await dialogue.transmit(envelope, content, f" XSHADOW={self.host.identity.new_id()}")


@defect("hub-withholds-from-a-shadow-keeper", breaks="SR-E10-03", slot="ex2010.acceptance")
class HubWithholdsFromAKeeper(DelayedAcknowledgement):
    """Withholds the acknowledgement also from a sender that keeps a shadow."""

    async def accept_with_shadow(
        self, envelope: Envelope, content: bytes, origin: MessageOrigin, sender: str, shadow_id: str
    ) -> Reply:
        """Accept a message whose sender keeps a shadow, and return the reply only when it is delivered, at most after the usual limits.

        `sender` is the name of that server. The correct class replies at once.
        """
        reply = await super().accept_with_shadow(envelope, content, origin, sender, shadow_id)
        # empty primary and database: among the messages of this server itself
        stored = self.host.shadows.find_by_shadow_id(primary="", database="", shadow_id=shadow_id)
        if stored is not None and (message := self.host.messages.get(stored.row_id)) is not None:
            await self.wait_until_delivered(message, origin.deadline)
        return reply


@defect("hub-never-marks-delivery-complete", breaks="SR-E10-04", slot="ex2010.completion")
class HubNeverMarksComplete(HubCompletion):
    """Queues no notification for a message that was passed on."""

    def release(self, message: Message) -> None:
        """Delete a processed message without queueing a discard notification."""
        self.host.messages.drop(message.id)


@defect("hub-asks-by-heartbeat-only", breaks="SR-E10-05", slot="ex2010.outbound")
class HubAsksByHeartbeatOnly(HubOutbound):
    """Does not ask for discard status at the end of a session."""

    async def end_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Send no query for discard status (XQDISCARD) at the end of a session with a next hop, before QUIT."""


@defect("hub-resubmits-to-the-failed", breaks="SR-E10-10", slot="ex2010.routing")
class HubResubmitsToTheFailed(HubRouting):
    """Sends what it took over to the primary that failed."""

    def group_by_next_hop(self, recipients: Any) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop without regard to servers that have failed, as a later Exchange server would."""
        return Routing.group_by_next_hop(self, recipients)


@defect("hub-waits-for-the-end-of-the-chain", breaks="SR-E10-13", slot="ex2010.completion")
class HubWaitsForTheEnd(HubCompletion):
    """Tells its sender only when the next hop has passed the message on in turn."""

    def release(self, message: Message) -> None:
        """Release a processed message (notify its sender, delete it) only when no shadow of it is left here; look again each minute.

        The shadow is kept for the next hop until that has passed the message on.
        """
        held = [one for one in self.host.messages.held_as("shadow") if one.internet_id == message.internet_id]
        if held:
            self.host.alarms.new(lambda: self.release(message)).set(self.host.now() + 60)
        else:
            super().release(message)


@defect("hub-keeps-shadows-for-anybody", breaks="SR-E10-14", slot="ex2010.outbound")
class HubKeepsShadowsForAnybody(HubOutbound):
    """Keeps a message for a next hop that does not offer XSHADOW, and sends it again when nothing is heard of it."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Send a message; where XSHADOW may not be used, send it to all its recipients once again an hour later.

        Return the replies by recipient.
        """
        replies = await super().transmit(attempt, server, dialogue)
        # `resubmitted` marks the copy, which is not copied again
        if not self.may_use_xshadow(dialogue, server) and not attempt.message.resubmitted:
            host = self.host
            content = host.messages.content(attempt.message.id)
            name = host.identity.new_id()
            copy = replace(attempt.message, id=0, message_id=name, shadow_id=name, resubmitted=True)
            alarm = host.alarms.new(lambda: host.delivery.start_processing(host.messages.add(copy, content)))
            alarm.set(host.now() + 3600)
        return replies


@defect("hub-acknowledges-at-once", breaks="SR-E10-15", slot="ex2010.acceptance")
class HubAcknowledgesAtOnce(DelayedAcknowledgement):
    """Withholds nothing from a sender without XSHADOW."""

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Return at once, so that the reply to the message is not withheld until its delivery."""


@defect("hub-withholds-too-long", breaks="SR-E10-16", slot="ex2010.acceptance")
class HubWithholdsTooLong(DelayedAcknowledgement):
    """Withholds the acknowledgement until delivery, for up to twenty times MaxAcknowledgementDelay."""

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Wait until no recipient of a message is pending, at most twenty times MaxAcknowledgementDelay and until `deadline`.

        `deadline` is the event loop's time by which the sender must have its reply. Correct is at most MaxAcknowledgementDelay.
        """
        for _ in range(20):
            await super().wait_until_delivered(message, deadline)
            if not self.host.messages.pending_recipients(message.id):
                return


@defect("hub-withholds-half-the-time", breaks="SR-E10-16", slot="ex2010.acceptance")
class HubWithholdsHalfTheTime(DelayedAcknowledgement):
    """Withholds the acknowledgement for half of MaxAcknowledgementDelay."""

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Wait until no recipient of a message is pending, at most half of MaxAcknowledgementDelay.

        `deadline` is the event loop's time by which the sender must have its reply.
        """
        early_deadline = asyncio.get_running_loop().time() + self.host.transport.MaxAcknowledgementDelay / 2
        await super().wait_until_delivered(message, min(early_deadline, deadline))


@defect("hub-promises-what-it-has-not", breaks="SR-E10-17", slot="ex2010.acceptance")
class HubPromisesWhatItHasNot(DelayedAcknowledgement):
    """Acknowledges at once what it has in memory only: dying, it has acknowledged and lost it."""

    def start(self) -> None:
        """Delete, at the start of the node, every message that it has still to deliver, as if it had been in memory only."""
        for message in list(self.host.messages.held_as("primary")):
            self.host.messages.drop(message.id)

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Return at once, so that the reply to the message is not withheld until its delivery."""


@defect("hub-offers-xshadow-to-strangers", breaks="SR-E10-18", slot="ex2010.verbs")
class HubOffersToStrangers(HubVerbs):
    """Advertises XSHADOW whatever the session was granted."""

    @property
    def may_use_shadow_verbs(self) -> bool:
        """Whether the client may use XSHADOW: in each session of the transport listener, whatever rights the client has."""
        return self.session_state.listener == "transport"


@defect("hub-issues-xshadow-without-the-right", breaks="SR-E10-19", slot="ex2010.outbound")
class HubIssuesWithoutTheRight(HubOutbound):
    """Issues XSHADOW wherever it is advertised."""

    def may_use_xshadow(self, dialogue: Dialogue, server: str) -> bool:
        """Return whether `server` offers XSHADOW in this session, whatever rights this server has there."""
        return "XSHADOW" in dialogue.keywords


@defect("hub-accepts-without-the-right", breaks="SR-E10-18", slot="ex2010.verbs")
class HubAcceptsWithoutTheRight(HubVerbs):
    """Advertises XSHADOW to every server of the organisation, with the right or without."""

    @property
    def may_use_shadow_verbs(self) -> bool:
        """Whether the client may use XSHADOW: if it is a known server on the transport listener, and redundancy is enabled.

        Correct is to ask for its right (`accept_xshadow`) too.
        """
        session_state = self.session_state
        return (
            session_state.listener == "transport"
            and session_state.peer is not None
            and self.host.transport.ShadowRedundancyEnabled
        )


@defect("hub-keeps-or-lets-keep", breaks="SR-BND-06", slot="ex2010.verbs")
class HubKeepsOrLetsKeep(HubVerbs):
    """Offers XSHADOW to no server while it keeps shadows itself."""

    @property
    def may_use_shadow_verbs(self) -> bool:
        """Whether the client may use XSHADOW: if the correct rule permits it, and this server holds no shadow for any primary."""
        return super().may_use_shadow_verbs and next(iter(self.host.messages.held_as("shadow")), None) is None


@defect("hub-answers-queries-at-the-front-door", breaks="SR-WIR-02", slot="ex2010.verbs")
class HubAnswersQueriesAtTheFrontDoor(HubVerbs):
    """Answers queries for discard status at the frontend, from any client that gives the name of a server."""

    async def handle_xqdiscard(self, words: list[str]) -> list[str]:
        """Return the lines of the reply to XQDISCARD; answer it on the frontend listener too, to any client. Correct is to refuse it there.

        `words` are the name of the asking server and the most notifications that it wants.
        """
        if self.session_state.listener != "frontend" or len(words) != 2:
            return await super().handle_xqdiscard(words)
        lines, self.unconfirmed_discards = await self.host.discard_status.answer_query(words[0], int(words[1]))
        return lines


@defect("hub-accepts-though-switched-off", breaks="SR-ENA-02", slot="ex2010.verbs")
class HubAcceptsThoughSwitchedOff(HubVerbs):
    """Advertises XSHADOW by the rights alone, whatever ShadowRedundancyEnabled says."""

    @property
    def may_use_shadow_verbs(self) -> bool:
        """Whether the client may use XSHADOW: if it has the right, on the transport listener, even if shadow redundancy is disabled."""
        peer = self.session_state.peer
        return self.session_state.listener == "transport" and peer is not None and peer.accept_xshadow


@defect("believes-the-greeting", breaks="SR-E10-18", slot="rights")
class BelievesTheGreeting(Rights):
    """Takes a client for the server that it says to be, though the connector is not externally secured."""

    def identify(self, listener: Listener, hello: str, authenticated: str | None) -> Peer | None:
        """Return the known server that the client authenticated as or, without proof, names in EHLO (`hello`); None if there is none."""
        return self.host.config.peers_by_name.get((authenticated or hello).casefold())


@defect("hub-reports-at-receipt", breaks="SR-E10-04", slot="ex2010.acceptance")
class HubReportsAtReceipt(DelayedAcknowledgement):
    """Offers the discard notification as soon as it has the message itself."""

    async def accept_with_shadow(
        self, envelope: Envelope, content: bytes, origin: MessageOrigin, sender: str, shadow_id: str
    ) -> Reply:
        """Accept or refuse a message, and queue the discard notification for the `sender`, which keeps the shadow, at once in any case.

        The correct class queues it when all next hops have the message. Return the reply to the message.
        """
        reply = await super().accept_with_shadow(envelope, content, origin, sender, shadow_id)
        self.host.discards.queue_notification(sender, shadow_id, self.host.now())
        return reply


@defect("hub-reports-the-first-fork", breaks="SR-MNT-07", slot="ex2010.completion")
class HubReportsTheFirstFork(HubCompletion):
    """Offers the discard notification when the first of a message's forks is delivered."""

    def release_if_processed(self, row_id: int) -> None:
        """Queue the discard notifications as soon as one recipient has the message, not only when none is pending.

        Called after each attempt at one next hop; `row_id` is `Message.id`.
        """
        message = self.host.messages.get(row_id)
        if message is not None and self.host.messages.recipients_with_fate(
            row_id, ("delivered", "relayed", "passed-on")
        ):
            self.host.discard_status.queue_notifications(message)
        super().release_if_processed(row_id)


@defect("hub-drops-shadows-at-start", breaks="SR-E10-01", slot="ex2010.safety_net")
class HubDropsShadowsAtStart(NoSafetyNet):
    """Forgets at a restart what it keeps for its next hops."""

    def start(self) -> None:
        """Delete all shadows that this server keeps for what it sent, at the start of the node; correct is to delete none."""
        for message in list(self.host.messages.held_as("shadow")):
            self.host.messages.drop(message.id)
