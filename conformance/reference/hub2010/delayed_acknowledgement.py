"""Delayed acknowledgement: a sender that keeps no shadow keeps the message itself until it is told that we have it."""

import asyncio

from conformance.reference.headers import internet_message_id
from conformance.reference.hub2010.completion import HubCompletion
from conformance.reference.message import Envelope, Message
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin, content_refusal
from conformance.reference.replies import Reply

ID_IN_USE = Reply(451, "4.3.0", "another message of that shadow id is being processed")


class DelayedAcknowledgement(Acceptance):
    """Takes messages in: at once from who keeps a shadow, and late from who does not."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept a message from a sender without XSHADOW, and withhold the reply (SR-E10-15, SR-E10-16)."""
        if (refusal := content_refusal(content)) is not None:
            return refusal
        key, traced = self.add_trace_field(content, origin, "ESMTP")
        return await self.acknowledge_after_delivery(self.store(envelope, traced, key, origin), origin.deadline)

    async def acknowledge_after_delivery(self, message: Message, deadline: float) -> Reply:
        """Return the reply to a message that is stored, as soon as it need not be withheld any more."""
        reply = await self.acknowledge(message)
        await self.wait_until_delivered(message, deadline)
        return reply

    async def accept_with_shadow(
        self, envelope: Envelope, content: bytes, origin: MessageOrigin, sender: str, shadow_id: str
    ) -> Reply:
        """Accept a message whose sender keeps the shadow: at once, noting whom to notify (SR-E10-03)."""
        if (refusal := content_refusal(content)) is not None:
            return refusal
        if (known := self.host.shadows.find("", "", shadow_id)) is not None:
            return self._reply_to_repeat(known[0], content)
        _, traced = self.add_trace_field(content, origin, "ESMTP")
        message = self.store(envelope, traced, shadow_id, origin)
        self.host.discards.add_holder(message.id, sender, shadow_id, acknowledged=True)
        return await self.acknowledge(message)

    def _reply_to_repeat(self, row: int, content: bytes) -> Reply:
        """Answer a message whose id is in the queue: the same one once more, whose first reply was lost, is not
        taken twice."""
        message = self.host.messages.get(row)
        if message is None or message.internet_id is None or message.internet_id != internet_message_id(content):
            return ID_IN_USE
        return self.acknowledgement_reply(message)

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Return when all next hops have the message, or after MaxAcknowledgementDelay: best effort then.

        `deadline` is the loop's time at which the sender must have its reply.
        """
        if not self.host.transport.ShadowRedundancyEnabled:
            return
        completion = self.host.completion
        assert isinstance(completion, HubCompletion)
        latest = asyncio.get_running_loop().time() + self.host.transport.MaxAcknowledgementDelay
        try:
            async with asyncio.timeout_at(min(latest, deadline)):
                await completion.wait_until_passed_on(message)
        except TimeoutError:
            self.host.log.info("%s acknowledged while its delivery is pending", message.message_id)
