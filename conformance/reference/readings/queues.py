"""Readings of how messages are handed to their next hops, and of the names that they have."""

from collections.abc import Iterable

from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.next_hop import HopQueue, RemoteQueue
from conformance.reference.queue.routing import NextHop
from conformance.reference.readings.reading import reading
from conformance.reference.storage.identity import Identity


@reading("one-transmission-for-each-recipient", allowed_by="ruling 26", parts=("delivery",))
class OneTransmissionForEachRecipient(Delivery):
    """Hands a message to a next hop outside once for each of its recipients there."""

    def _spread(self, message: Message, recipients: Iterable[Recipient]) -> None:
        """Queue the recipients outside one by one; what sites share is still shared (SR-BIF-03)."""
        together: list[Recipient] = []
        for recipient in recipients:
            if self.host.routing.next_hop(recipient.address).way == "outside":
                super()._spread(message, [recipient])
            else:
                together.append(recipient)
        if together:
            super()._spread(message, together)


class _OneMessage(RemoteQueue):
    messages_per_session = 1


@reading("one-message-in-a-session", allowed_by="ruling 25", parts=("delivery",))
class OneMessageInASession(Delivery):
    """Opens a session with the next hop for each message."""

    def queue_for(self, hop: NextHop) -> HopQueue:
        """Return a queue whose sessions end after one message."""
        queue = super().queue_for(hop)
        return _OneMessage(self.host, hop, self.settle) if isinstance(queue, RemoteQueue) else queue


@reading("longer-shadow-ids", allowed_by="wire-profile.md: 1 to 64 characters", parts=("identity",))
class LongerIds(Identity):
    """Gives out ids of 64 characters."""

    def next(self) -> str:
        """Fill the id up."""
        return f"{super().next()}-".ljust(64, "Z")
