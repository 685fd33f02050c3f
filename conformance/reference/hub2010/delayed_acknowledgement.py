"""Delayed acknowledgement: the reply to a sender that keeps no shadow is withheld until the message has been delivered.

This is the component `host.acceptance` of an Exchange 2010 server. "Delivered" includes handed on to the next hop. The sender
then still has the message if this server fails before. The delay ends after MaxAcknowledgementDelay (SR-E10-15, SR-E10-16).
"""

import asyncio

from conformance.reference.headers import internet_message_id
from conformance.reference.hub2010.completion import HubCompletion
from conformance.reference.message import Envelope, Message
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin, content_refusal
from conformance.reference.replies import Reply

SHADOW_ID_IN_USE = Reply(451, "4.3.0", "another message of that shadow id is being processed")


class DelayedAcknowledgement(Acceptance):
    """Acknowledges a message at once if its sender keeps a shadow, and after its delivery otherwise."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept a message from a sender without XSHADOW; return the reply once it need not be withheld (SR-E10-15, SR-E10-16).

        Waits for the disk and then for the delivery (`wait_until_delivered`). A message that loops or has bare line ends is refused
        at once.
        """
        if (refusal := content_refusal(content)) is not None:
            return refusal
        message_id, traced = self.add_trace_field(content, origin, "ESMTP")
        return await self.acknowledge_after_delivery(self.store(envelope, traced, message_id, origin), origin.deadline)

    async def acknowledge_after_delivery(self, message: Message, deadline: float) -> Reply:
        """Start the delivery of a stored message, and return the reply once it need not be withheld any more (`wait_until_delivered`).

        The reply is 250, also if the message is not delivered in time, or 452 if the disk is full, without a wait for delivery.
        `deadline` is the event loop's time by which the sender must have its reply.
        """
        reply = await self.acknowledge(message)
        await self.wait_until_delivered(message, deadline)
        return reply

    async def accept_with_shadow(
        self, envelope: Envelope, content: bytes, origin: MessageOrigin, sender: str, shadow_id: str
    ) -> Reply:
        """Accept a message at once whose sender keeps the shadow (SR-E10-03), and return the reply.

        `sender` is the name of that server, `shadow_id` the id of its shadow. The sender is recorded as the holder of the shadow:
        it gets a discard notification once the message has been processed. Waits until the message is on disk, then the reply is
        250; or returns a refusal, for a mail loop, bare line ends or a full disk. A message with a shadow id that is already in
        the queue is not stored (`_reply_to_repeat`).
        """
        if (refusal := content_refusal(content)) is not None:
            return refusal
        # empty primary and database: among the messages of this server itself
        queued = self.host.shadows.find_by_shadow_id(primary="", database="", shadow_id=shadow_id)
        if queued is not None:
            return self._reply_to_repeat(queued.row_id, content)
        _, traced = self.add_trace_field(content, origin, "ESMTP")
        message = self.store(envelope, traced, shadow_id, origin)  # under the shadow's id, so that a repeat is found
        self.host.discards.add_holder(message.id, sender, shadow_id)
        return await self.acknowledge(message)

    def _reply_to_repeat(self, row_id: int, content: bytes) -> Reply:
        """Return the reply to a message whose shadow id is in the queue already, in this row.

        That is 250 for the same message (with the same Message-ID), whose first reply was lost, and 451 for another one, or one
        without Message-ID. Nothing is queued.
        """
        message = self.host.messages.get(row_id)
        if message is None or message.internet_id is None or message.internet_id != internet_message_id(content):
            return SHADOW_ID_IN_USE
        return self.acknowledgement_reply(message)

    async def wait_until_delivered(self, message: Message, deadline: float) -> None:
        """Wait until no recipient of a message is pending, at most MaxAcknowledgementDelay and at most until `deadline`.

        `deadline` is the event loop's time by which the sender must have its reply. Does not wait if shadow redundancy is
        disabled.
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
