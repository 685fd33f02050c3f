"""The shadow queues: what was sent to a next hop, kept until that server has passed it on (EX2010, components).

There is a queue for each next hop; each message in it stands for the recipients that were sent there.
"""

from collections.abc import Iterator, Sequence

from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient, new_message
from conformance.reference.shadow.shadow_queues import Promotion, QueuedShadow, ShadowQueues


class HubShadowQueues(ShadowQueues):
    """The shadow queues of one server; all that they hold is in the database."""

    def queues_of(self, message: Message) -> Iterator[QueuedShadow]:
        """Yield a shadow message in its one queue: that of the server that it was sent to."""
        yield QueuedShadow(message.primary, message.primary, message, message.envelope.recipients)

    def keep(
        self, message: Message, content: bytes, recipients: Sequence[Recipient], primary: str, database: str, key: str
    ) -> None:
        """Keep what a next hop has taken: it is the primary now (SR-E10-03). `key` is the shadow's id."""
        shadow = new_message(
            content,
            message.envelope.for_recipients(tuple(recipients)),
            message_id=key,
            since=self.expiry_start(message),
            place="shadow",
            primary=primary,
            database=database,
        )
        self.host.messages.add(shadow, content)
        self.host.log.info("%s shadow %s kept for %s", message.message_id, key, primary)

    def expiry_start(self, message: Message) -> float:
        """Return from when a shadow's expiry is counted, POSIX seconds (SR-E10-12)."""
        return self.host.now()

    def messages_held_for(self, primary: str) -> list[Message]:
        """Return what is in the queue of a next hop."""
        held = [self.host.messages.get(row) for row in self.host.shadows.rows_held_for(primary)]
        return [message for message in held if message is not None]

    def notify_when_delivered(self, message: Message, primary: str) -> None:
        """Have a failed primary told when what was taken over from it is delivered (SR-E10-08)."""
        self.host.discards.add_holder(message.id, primary, message.shadow_id, acknowledged=True)

    def expire(self, primary: str, before: float) -> None:
        """Remove what has been in a next hop's queue since `before` (POSIX seconds; SR-E10-12)."""
        for message in self.messages_held_for(primary):
            if message.since <= before:
                self.host.messages.drop(message.id)
                self.host.log.warning("%s shadow for %s expired", message.shadow_id, primary)


def shadow_queues_of(host: Host) -> HubShadowQueues:
    """Return the shadow queues of a 2010 server."""
    assert isinstance(host.shadow_queues, HubShadowQueues)
    return host.shadow_queues


class HubPromotion(Promotion):
    """Makes a shadow a message of our own again, which keeps its id."""

    def new_message_id(self, message: Message) -> str:
        """Return the id that it has."""
        return message.shadow_id
