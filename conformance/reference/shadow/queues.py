"""Shadow queues: one for each next hop of each primary (SR-BND-07)."""

from collections.abc import Iterator
from dataclasses import dataclass

from conformance.reference.message import Message, Recipient
from conformance.reference.part import Part


@dataclass(frozen=True, slots=True)
class QueuedShadow:
    """A shadow message in one of its queues, with those recipients that the primary's next hop is for."""

    primary: str
    next_hop: str
    message: Message
    recipients: tuple[Recipient, ...]


class ShadowQueues(Part):
    """Says in which queues a shadow message is held."""

    def held(self) -> Iterator[QueuedShadow]:
        """Yield all shadow messages, once for each queue that holds them."""
        for message in self.host.messages.in_place("shadow"):
            yield from self.queued(message)

    def queued(self, message: Message) -> Iterator[QueuedShadow]:
        """Yield a shadow message once for each next hop that its primary needs for it."""
        hops: dict[str, list[Recipient]] = {}
        for recipient in message.envelope.recipients:
            hops.setdefault(self.host.routing.destination(recipient.address), []).append(recipient)
        for next_hop, recipients in hops.items():
            yield QueuedShadow(message.primary, next_hop, message, tuple(recipients))
