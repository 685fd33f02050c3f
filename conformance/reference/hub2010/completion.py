"""What all next hops have taken is not kept as a primary message: where a next hop is tracked it is in the shadow queue,
elsewhere it counts as delivered (SR-E10-01, SR-E10-14)."""

import asyncio

from conformance.reference.config import NodeConfiguration
from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.queue.delivery import Completion
from conformance.reference.safety_net import SafetyNet
from conformance.reference.shadow.creation import ShadowCreation


class HubCompletion(Completion):
    """Forgets messages that were passed on, and tells who waits for that."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._passed_on_events: dict[int, asyncio.Event] = {}

    async def wait_until_passed_on(self, message: Message) -> None:
        """Return when every next hop has taken the message."""
        try:
            while self.host.messages.pending(message.id):
                await self._passed_on_events.setdefault(message.id, asyncio.Event()).wait()
        finally:
            self._passed_on_events.pop(message.id, None)

    def release_if_processed(self, key: int) -> None:
        """Release a message where nothing is left to be done, and wake who waits for it."""
        if (awaited := self._passed_on_events.get(key)) is not None and not self.host.messages.pending(key):
            awaited.set()
        super().release_if_processed(key)

    def release(self, message: Message) -> None:
        """Offer the discard notification, and forget the message: there is no Safety Net before 2013."""
        self.host.discard_status.queue_notifications(message)
        self.host.messages.drop(message.id)


class NoShadowAtReceipt(ShadowCreation):
    """Asks nobody for a shadow: a 2010 server keeps one itself when it sends."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make none."""
        return False


class NoSafetyNet(SafetyNet):
    """Keeps nothing of what was processed."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Have nothing to send again."""

    def drop_expired(self) -> None:
        """Leave the shadow queues alone: they have an expiry of their own (SR-E10-12)."""

    def set_alarm(self) -> None:
        """Wait for nothing."""

    def resubmit(self, database: str) -> int:
        """Send nothing again."""
        return 0
