"""Defects in what depends on whether a shadow was made: the acknowledgement, the rejection, and delivery.

`make_redundant_or_refuse` is called for each message before its acknowledgement. It tries to have a shadow made on another server, and
returns None if the message may be acknowledged, else the reply that refuses it: a message without a shadow is refused while redundancy
is mandatory. `deadline` is the event loop's time by which the sender must have its reply.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.message import Message, new_message
from conformance.reference.queue.delivery import Delivery
from conformance.reference.replies import Reply
from conformance.reference.shadow.creation import NOT_REDUNDANT, Redundancy


@defect("acknowledges-before-shadow", breaks="SR-CRE-01", slot="redundancy")
class AcknowledgesBeforeShadow(Redundancy):
    """Acknowledges the sender first, and makes the shadow afterwards."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Start to make the shadow in the background, without a deadline, and return None at once: the message may be acknowledged."""
        self.host.tasks.start(self.host.creation.make_shadow(message, content, None), f"{self.host.name}: late shadow")
        return None


@defect("rejects-by-default", breaks="SR-ENA-03", slot="redundancy")
class RejectsByDefault(Redundancy):
    """Takes RejectMessageOnShadowFailure to be true where it is false."""

    @property
    def is_mandatory(self) -> bool:
        """Whether a message without a shadow is refused: if redundancy is enabled, whatever RejectMessageOnShadowFailure is."""
        return self.host.transport.ShadowRedundancyEnabled


@defect("ignores-reject-on-shadow-failure", breaks="SR-ENA-04", slot="redundancy")
class NeverRejects(Redundancy):
    """Accepts a message without a shadow whatever RejectMessageOnShadowFailure says."""

    @property
    def is_mandatory(self) -> bool:
        """Whether a message without a shadow is refused: never."""
        return False


class AltersRejection(Redundancy):
    """Base class of defects that reject a message without a shadow with another reply than 451 4.4.0."""

    reply = NOT_REDUNDANT

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return `reply` where the correct class rejects the message with 451 4.4.0; None where the message may be acknowledged."""
        refusal = await super().make_redundant_or_refuse(message, content, deadline)
        return None if refusal is None else self.reply


@defect("rejects-with-450", breaks="SR-ENA-04", slot="redundancy")
class RejectsWith450(AltersRejection):
    """Rejects with 450 4.4.0 in place of 451 4.4.0."""

    reply = Reply(450, "4.4.0", NOT_REDUNDANT.text)


@defect("rejects-with-another-status", breaks="SR-ENA-04", slot="redundancy")
class RejectsWithAnotherStatus(AltersRejection):
    """Rejects with 451 4.3.0 in place of 451 4.4.0."""

    reply = Reply(451, "4.3.0", NOT_REDUNDANT.text)


@defect("rejects-for-good", breaks="SR-ENA-05", slot="redundancy")
class RejectsForGood(AltersRejection):
    """Rejects with 550, so that no sender tries again."""

    reply = Reply(550, "5.4.0", NOT_REDUNDANT.text)


@defect("rejects-again", breaks="SR-ENA-05", slot="redundancy")
class RejectsAgain(Redundancy):
    """Remembers what it rejected once, and rejects it for ever."""

    def start(self) -> None:
        """Begin with no message rejected; `rejected` has the Message-IDs of those that were."""
        self.rejected: set[str | None] = set()

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return the refusal 451 4.4.0, without trying to make a shadow, for a Message-ID that was rejected once; else as is correct."""
        if message.internet_id in self.rejected:
            return NOT_REDUNDANT
        refusal = await super().make_redundant_or_refuse(message, content, deadline)
        if refusal is not None:
            self.rejected.add(message.internet_id)
        return refusal


@defect("delivers-what-it-rejected", breaks="SR-ENA-04", slot="redundancy")
class DeliversWhatItRejected(Redundancy):
    """Rejects a message with 451 4.4.0 and delivers it all the same."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return what is correct; if that is a refusal, store a copy of the message and start its delivery nevertheless."""
        refusal = await super().make_redundant_or_refuse(message, content, deadline)
        if refusal is not None:
            host = self.host
            copy = new_message(content, message.envelope, message_id=host.identity.new_id(), since=host.now())
            host.delivery.start_processing(host.messages.add(copy, content))
        return refusal


@defect("rejects-though-disabled", breaks="SR-ENA-06", slot="redundancy")
class RejectsThoughDisabled(Redundancy):
    """Obeys RejectMessageOnShadowFailure while ShadowRedundancyEnabled is false."""

    @property
    def is_mandatory(self) -> bool:
        """Whether a message without a shadow is refused: if RejectMessageOnShadowFailure is set, even if redundancy is disabled."""
        return self.host.transport.RejectMessageOnShadowFailure


@defect("alone-it-accepts", breaks="SR-BND-08", slot="redundancy")
class AloneItAccepts(Redundancy):
    """Alone in its boundary, accepts without a shadow whatever RejectMessageOnShadowFailure says."""

    @property
    def is_mandatory(self) -> bool:
        """Whether a message without a shadow is refused: if that is correct and there is a server on which one could be made."""
        return super().is_mandatory and bool(self.host.choice.servers_to_try())


@defect("timeout-rejects", breaks="SR-TMO-01", slot="redundancy")
class TimeoutRejects(Redundancy):
    """Rejects a message whose shadow session timed out though a shadow is not mandatory."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Refuse a message when the attempts to make a shadow took longer than a minute and no server has, or may have, its shadow.

        Otherwise return what is correct: a message without a shadow is refused only if redundancy is mandatory.
        """
        began = self.host.now()
        refusal = await super().make_redundant_or_refuse(message, content, deadline)
        slow = self.host.now() - began > 60 and not self.host.discards.holders_of_shadow(message.id)
        return NOT_REDUNDANT if slow else refusal


@defect("shadows-outside-mail-only", breaks="SR-CRE-07", slot="redundancy")
class ShadowsOutsideMailOnly(Redundancy):
    """Makes no shadow of what a mailbox of the organisation submitted."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return None (acknowledge), without a shadow, for a message whose sender is in a domain of the organisation.

        Any other message is handled correctly.
        """
        domains = self.host.config.mailbox_domains
        if message.envelope.reverse_path.rpartition("@")[2].casefold() in domains:
            return None
        return await super().make_redundant_or_refuse(message, content, deadline)


@defect("shadow-redundancy-needs-a-partner", breaks="SR-CRE-03", slot="redundancy")
class NeedsAPartner(Redundancy):
    """Makes shadows only of what other servers of the organisation hand over."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Make a shadow only of a message with a Received field of another server, which has handled it before.

        Return None for any other message, which is acknowledged without a shadow; else what is correct.
        """
        # our own Received field is at the very beginning, without a line end before it
        if content.count(b"\r\nReceived:", 0, content.find(b"\r\n\r\n")) == 0:
            return None
        return await super().make_redundant_or_refuse(message, content, deadline)


@defect("forgets-to-be-redundant-again", breaks="SR-BND-03", slot="redundancy")
class ForgetsToBeRedundantAgain(Redundancy):
    """Makes no new shadow of a message that it took over from a lost primary, or sends again."""

    async def try_to_make_redundant(self, message: Message, content: bytes) -> None:
        """Record that the attempt to make a shadow has ended, without making one; for messages that no sender waits for."""
        self.host.messages.clear_redundancy_pending(message.id)


@defect("one-role-at-a-time", breaks="SR-BND-06", slot="redundancy")
class OneRoleAtATime(Redundancy):
    """Makes no shadows of its own messages while it holds shadows for others."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return None (acknowledge), without a shadow, while this server holds a shadow for another one; else as is correct."""
        if next(iter(self.host.messages.held_as("shadow")), None) is not None:
            return None
        return await super().make_redundant_or_refuse(message, content, deadline)


@defect("tells-discard-at-once", breaks="SR-MNT-01", slot="redundancy")
class TellsDiscardAtOnce(Redundancy):
    """Offers the discard notification as soon as the shadow is made, before the next hop has the message."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Queue the discard notification as soon as the shadow is made, before the message is delivered.

        Return what is correct: None where the message may be acknowledged, else the refusal.
        """
        refusal = await super().make_redundant_or_refuse(message, content, deadline)
        if refusal is None:
            self.host.discard_status.queue_notifications(message)
        return refusal


@defect("trusts-another-boundary", breaks="SR-BND-05", slot="redundancy")
class TrustsAnotherBoundary(Redundancy):
    """Makes no shadow of what another server of the organisation hands over: that one had one."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return None (acknowledge), without a shadow, for a message with a Received field of a known server; else as is correct."""
        fields = content[: content.find(b"\r\n\r\n")]
        if any(f"by {peer.name} with".encode() in fields for peer in self.host.config.peers):
            return None
        return await super().make_redundant_or_refuse(message, content, deadline)


@defect("leaves-it-to-the-hub", breaks="SR-IOP-02", slot="redundancy")
class LeavesItToTheHub(Redundancy):
    """Makes no shadow of a message whose next hop is a server of Exchange 2010."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return None (acknowledge), without a shadow, for a message to any mailbox on an Exchange 2010 server; else as is correct."""
        config = self.host.config
        boxes = (config.mailboxes_by_address.get(each.address.casefold()) for each in message.envelope.recipients)
        hosts = (config.peers_by_name.get(box.server.casefold()) for box in boxes if box is not None)
        if any(host is not None and host.generation == "ex2010" for host in hosts):
            return None
        return await super().make_redundant_or_refuse(message, content, deadline)


@defect("holds-promoted-mail-until-its-shadow-is-made", breaks="SR-OUT-05", slot="delivery")
class HoldsPromotedMail(Delivery):
    """Delivers what it took over only when the effort to make its new shadow has ended."""

    async def _make_redundant(self, message: Message, content: bytes) -> None:
        """Try to make the shadow of a stored message, and begin its delivery afterwards, whether one was made or not.

        Correct is to do both at the same time (ruling 24).
        """
        await super()._make_redundant(message, content)
        super()._begin_delivery(message)

    def _begin_delivery(self, message: Message) -> None:
        """Begin the delivery of a message for which no shadow is to be made any more; of any other `_make_redundant` begins it."""
        if not message.redundancy_pending:
            super()._begin_delivery(message)
