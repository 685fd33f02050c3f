"""Readings of how messages are handed to their next hops, and of the names that they have."""

import asyncio
from collections.abc import Iterable

from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt, HopQueue, RecordOutcome, RemoteQueue
from conformance.reference.readings.reading import reading
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.storage.identity import Identity


@reading("one-transmission-for-each-recipient", allowed_by="ruling 26", parts=("delivery",))
class OneTransmissionForEachRecipient(Delivery):
    """Hands a message to a next hop outside once for each of its recipients there."""

    def _queue_attempts(self, message: Message, recipients: Iterable[Recipient]) -> None:
        """Queue the recipients outside one by one; what sites share is still shared (SR-BIF-03)."""
        together: list[Recipient] = []
        for recipient in recipients:
            if self.host.routing.next_hop(recipient.address).kind == "outside":
                super()._queue_attempts(message, [recipient])
            else:
                together.append(recipient)
        if together:
            super()._queue_attempts(message, together)


class _OneMessage(RemoteQueue):
    messages_per_session = 1


@reading("one-message-in-a-session", allowed_by="ruling 25", parts=("delivery",))
class OneMessageInASession(Delivery):
    """Opens a session with the next hop for each message."""

    def create_queue(self, hop: NextHop) -> HopQueue:
        """Return a queue whose sessions end after one message."""
        queue = super().create_queue(hop)
        return _OneMessage(self.host, hop, self.record_outcome) if isinstance(queue, RemoteQueue) else queue


KEPT = 20.0
"""Seconds for which a session with a next hop is kept for the next message."""


class _KeptOpen(RemoteQueue):
    """A queue whose sessions wait a while for the next message, unless the queue is paused."""

    def __init__(self, host: Host, hop: NextHop, settle: RecordOutcome) -> None:
        self._news = asyncio.Event()
        self._waiting = 0
        super().__init__(host, hop, settle)

    @property
    def paused(self) -> bool:
        """Whether nothing new is begun; set, it ends the sessions that wait."""
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._paused = paused
        self._news.set()

    def add(self, attempt: DeliveryAttempt) -> None:
        """Give a message to a session that waits for one, or begin another session."""
        if self._waiting > len(self.waiting) and not self.paused:
            self.waiting.append(attempt)
            self._news.set()
        else:
            super().add(attempt)

    async def next_in_session(self) -> DeliveryAttempt | None:
        """Wait for a message, with the session open."""
        self._waiting += 1
        try:
            async with asyncio.timeout(KEPT):
                while (attempt := self.pop()) is None and not self.paused:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return self.pop()
        finally:
            self._waiting -= 1
        return attempt


@reading("keeps-sessions-with-next-hops", allowed_by="ruling 25", parts=("delivery",))
class KeepsSessionsWithNextHops(Delivery):
    """Keeps a session with a next hop open for a while after a message, and sends the next message in it."""

    def create_queue(self, hop: NextHop) -> HopQueue:
        """Return a queue whose sessions wait for more."""
        queue = super().create_queue(hop)
        return _KeptOpen(self.host, hop, self.record_outcome) if type(queue) is RemoteQueue else queue


@reading("longer-shadow-ids", allowed_by="wire-profile.md: 1 to 64 characters", parts=("identity",))
class LongerIds(Identity):
    """Gives out ids of 64 characters."""

    def new_id(self) -> str:
        """Fill the id up."""
        return f"{super().new_id()}-".ljust(64, "Z")
