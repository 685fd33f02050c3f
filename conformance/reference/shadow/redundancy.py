"""Making a message redundant, and what follows when that fails (SR-ENA-03, SR-ENA-04, SR-PRF-07, SR-TMO-01)."""

from conformance.reference.message import Message
from conformance.reference.part import Part
from conformance.reference.replies import Reply

NOT_REDUNDANT = Reply(451, "4.4.0", "Message failed to be made redundant")


class Redundancy(Part):
    """Decides when a message may be acknowledged."""

    async def before_acknowledgement(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Make a message that is stored here redundant; return why it must be refused, or None.

        `deadline` is the loop's time at which the sender must have its reply.
        """
        redundant = await self.host.creation.make(message, content, deadline)
        return None if redundant or not self.mandatory else NOT_REDUNDANT

    async def afresh(self, message: Message, content: bytes) -> None:
        """Make a message that no sender waits for redundant: a report, or one taken over or sent again."""
        await self.host.creation.make(message, content, None)
        self.host.messages.made_redundant(message.id)

    @property
    def mandatory(self) -> bool:
        """Whether a message without a shadow is refused; without shadow redundancy it never is (SR-ENA-06)."""
        transport = self.host.transport
        return transport.ShadowRedundancyEnabled and transport.RejectMessageOnShadowFailure
