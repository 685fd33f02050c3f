"""What all next hops have taken is not kept as a primary message: where a next hop is tracked it is in the shadow queue,
elsewhere it counts as delivered (SR-E10-01, SR-E10-14)."""

import asyncio

from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.queue.completion import Completion


class HubCompletion(Completion):
    """Forgets messages that were passed on, and tells who waits for that."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._awaited: dict[int, asyncio.Event] = {}

    async def passed_on(self, message: Message) -> None:
        """Return when every next hop has taken the message."""
        try:
            while self.host.messages.pending(message.id):
                await self._awaited.setdefault(message.id, asyncio.Event()).wait()
        finally:
            self._awaited.pop(message.id, None)

    def check(self, key: int) -> None:
        """Release a message where nothing is left to be done, and wake who waits for it."""
        if (awaited := self._awaited.get(key)) is not None and not self.host.messages.pending(key):
            awaited.set()
        super().check(key)

    def release(self, message: Message) -> None:
        """Offer the discard notification, and forget the message: there is no Safety Net before 2013."""
        self.host.discard_status.queue(message)
        self.host.messages.drop(message.id)
