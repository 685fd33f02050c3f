"""Defects of Exchange 2010 servers at the ends of a session: to whom XSHADOW is offered, and when it is said what was
delivered."""

from conformance.reference.config import Listener, Peer
from conformance.reference.defects.defect import defect
from conformance.reference.hub2010.completion import HubCompletion, NoSafetyNet
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.verbs import HubVerbs
from conformance.reference.message import Envelope
from conformance.reference.receive.acceptance import MessageOrigin
from conformance.reference.receive.authentication import Rights
from conformance.reference.replies import Reply


@defect("hub-accepts-without-the-right", breaks="SR-E10-18", part="ex2010.verbs")
class AcceptsWithoutTheRight(HubVerbs):
    """Advertises XSHADOW to every server of the organisation, with the right or without."""

    @property
    def may_shadow(self) -> bool:
        """Look at nothing but who it is."""
        session_state = self.session_state
        return (
            session_state.listener == "transport"
            and session_state.peer is not None
            and self.host.transport.ShadowRedundancyEnabled
        )


@defect("hub-keeps-or-lets-keep", breaks="SR-BND-06", part="ex2010.verbs")
class KeepsOrLetsKeep(HubVerbs):
    """Offers XSHADOW to nobody while it keeps shadows itself."""

    @property
    def may_shadow(self) -> bool:
        """Whether there is no shadow here."""
        return super().may_shadow and next(iter(self.host.messages.in_place("shadow")), None) is None


@defect("hub-answers-queries-at-the-front-door", breaks="SR-WIR-02", part="ex2010.verbs")
class AnswersQueriesAtTheFrontDoor(HubVerbs):
    """Tells discard status at the frontend, to whoever says that he is the server."""

    async def handle_xqdiscard(self, words: list[str]) -> list[str]:
        """Ask for no right."""
        if self.session_state.listener != "frontend" or len(words) != 2:
            return await super().handle_xqdiscard(words)
        lines, self.unconfirmed_discards = await self.host.discard_status.answer_query(words[0], int(words[1]))
        return lines


@defect("hub-accepts-though-switched-off", breaks="SR-ENA-02", part="ex2010.verbs")
class AcceptsThoughSwitchedOff(HubVerbs):
    """Advertises XSHADOW by the rights alone, whatever ShadowRedundancyEnabled says."""

    @property
    def may_shadow(self) -> bool:
        """Look at the rights."""
        peer = self.session_state.peer
        return self.session_state.listener == "transport" and peer is not None and peer.accept_xshadow


@defect("believes-the-greeting", breaks="SR-E10-18", part="rights")
class BelievesTheGreeting(Rights):
    """Takes a client for the server that it says to be, though the connector is not externally secured."""

    def identify(self, listener: Listener, hello: str, authenticated: str | None) -> Peer | None:
        """Ask for no proof."""
        return self.host.config.peers_by_name.get((authenticated or hello).casefold())


@defect("hub-reports-at-receipt", breaks="SR-E10-04", part="ex2010.acceptance")
class ReportsAtReceipt(DelayedAcknowledgement):
    """Offers the discard notification as soon as it has the message itself."""

    async def accept_with_shadow(
        self, envelope: Envelope, content: bytes, origin: MessageOrigin, sender: str, shadow_id: str
    ) -> Reply:
        """Take it, and report it."""
        reply = await super().accept_with_shadow(envelope, content, origin, sender, shadow_id)
        self.host.discards.queue(sender, shadow_id, self.host.now())
        return reply


@defect("hub-reports-the-first-fork", breaks="SR-MNT-07", part="ex2010.completion")
class ReportsTheFirstFork(HubCompletion):
    """Offers the discard notification when the first of a message's forks is delivered."""

    def release_if_processed(self, key: int) -> None:
        """Report as soon as a recipient has it."""
        message = self.host.messages.get(key)
        if message is not None and self.host.messages.with_fate(key, ("delivered", "relayed", "passed-on")):
            self.host.discard_status.queue_notifications(message)
        super().release_if_processed(key)


@defect("hub-drops-shadows-at-start", breaks="SR-E10-01", part="ex2010.safety_net")
class DropsShadowsAtStart(NoSafetyNet):
    """Forgets at a restart what it keeps for its next hops."""

    def start(self) -> None:
        """Begin with empty shadow queues."""
        for message in list(self.host.messages.in_place("shadow")):
            self.host.messages.drop(message.id)
