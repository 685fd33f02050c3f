"""Delayed acknowledgement: a sender that keeps no shadow keeps the message itself until it is told that we have it."""

import asyncio

from conformance.reference.headers import internet_message_id
from conformance.reference.host import Host
from conformance.reference.hub2010.transport_redundancy import TransportRedundancy
from conformance.reference.message import Envelope, Message
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.receive.acceptance import Acceptance, unfit
from conformance.reference.replies import Reply
from conformance.reference.shadow.creation import MARGIN
from conformance.reference.shadow.manager import ShadowRedundancyManager

ID_IN_USE = Reply(451, "4.3.0", "another message of that shadow id is being processed")


class DelayedAcknowledgement(Acceptance):
    """Takes messages in: at once from who keeps a shadow, and late from who does not."""

    def __init__(
        self, host: Host, delivery: TransportRedundancy, store: MailboxStore, manager: ShadowRedundancyManager
    ) -> None:
        super().__init__(host, delivery, store, manager)
        self._redundancy = delivery

    async def take(self, envelope: Envelope, content: bytes, helo: str, peer: str, session_ends: float) -> Reply:
        """Accept a message from a sender without XSHADOW, and withhold the reply (SR-E10-15, SR-E10-16)."""
        if (refusal := unfit(content)) is not None:
            return refusal
        key, traced = self._traced(content, helo, peer, "ESMTP")
        message = self.store(envelope, traced, key)
        reply = await self.acknowledge(message)
        await self._withhold(message, session_ends - MARGIN)
        return reply

    async def take_tracked(
        self, envelope: Envelope, content: bytes, helo: str, peer: str, sender: str, shadow_id: str
    ) -> Reply:
        """Accept a message whose sender keeps the shadow: at once, noting whom to notify (SR-E10-03)."""
        if (refusal := unfit(content)) is not None:
            return refusal
        if (known := self.host.shadows.find("", "", shadow_id)) is not None:
            return self._again(known[0], content)
        _, traced = self._traced(content, helo, peer, "ESMTP")
        message = self.store(envelope, traced, shadow_id)
        self.host.discards.add_holder(message.id, sender, acknowledged=True)
        return await self.acknowledge(message)

    def _again(self, row: int, content: bytes) -> Reply:
        """Answer a message whose id is in the queue: the same one once more, whose first reply was lost, is not
        taken twice."""
        message = self.host.messages.get(row)
        if message is None or message.internet_id is None or message.internet_id != internet_message_id(content):
            return ID_IN_USE
        return self.queued(message)

    async def _withhold(self, message: Message, deadline: float) -> None:
        """Return when all next hops have the message, or after MaxAcknowledgementDelay: best effort then."""
        if not self.host.transport.ShadowRedundancyEnabled:
            return
        latest = asyncio.get_running_loop().time() + self.host.transport.MaxAcknowledgementDelay
        try:
            async with asyncio.timeout_at(min(latest, deadline)):
                await self._redundancy.passed_on(message)
        except TimeoutError:
            self.host.log.info("%s acknowledged while its delivery is pending", message.message_id)
