"""The shadow queues of Exchange 2010: what was sent to a next hop, kept until that server has passed it on (EX2010, components).

There is one queue for each next hop; a *shadow* in it is a copy of a message, with the recipients that were sent there. That next
hop is the *primary* of the shadow: it must deliver the message now. outbound.py keeps shadows here; manager.py promotes them
(this server sends them again) when the primary has failed.
"""

from collections.abc import Iterator, Sequence

from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient, new_message
from conformance.reference.shadow.shadow_queues import Promotion, QueuedShadow, ShadowQueues


class HubShadowQueues(ShadowQueues):
    """The shadow queues of one server, on disk: messages whose place is `shadow`, by `Message.primary`."""

    def queues_of(self, message: Message) -> Iterator[QueuedShadow]:
        """Yield a shadow message in its only queue, that of the server which it was sent to."""
        yield QueuedShadow(
            primary=message.primary,
            next_hop=message.primary,
            message=message,
            recipients=message.envelope.recipients,
        )

    def keep(
        self,
        message: Message,
        content: bytes,
        recipients: Sequence[Recipient],
        primary: str,
        database: str,
        shadow_id: str,
    ) -> None:
        """Keep a shadow of a message that a next hop has accepted for these recipients (SR-E10-03).

        The next hop is the `primary` now, `database` the id of its queue database, and `shadow_id` was sent to it with XSHADOW=.
        Does not wait for the disk.
        """
        shadow = new_message(
            content,
            message.envelope.for_recipients(tuple(recipients)),
            message_id=shadow_id,
            since=self.expiry_start(message),
            place="shadow",
            primary=primary,
            database=database,
        )
        self.host.messages.add(shadow, content)
        self.host.log.info("%s shadow %s kept for %s", message.message_id, shadow_id, primary)

    def expiry_start(self, message: Message) -> float:
        """Return from when the expiry of a new shadow of a message is counted: now, POSIX seconds (SR-E10-12)."""
        return self.host.now()

    def messages_held_for(self, primary: str) -> list[Message]:
        """Return the shadow messages in the queue of a next hop, `primary`, oldest first."""
        messages = [self.host.messages.get(row_id) for row_id in self.host.shadows.rows_held_for(primary)]
        return [message for message in messages if message is not None]

    def notify_when_delivered(self, message: Message, primary: str) -> None:
        """Have a discard notification queued for a failed primary once a message promoted from it has been delivered (SR-E10-08).

        To that end the primary is recorded as a holder of the message's shadow: it may still have the message. Does not wait for
        the disk.
        """
        self.host.discards.add_holder(message.id, primary, message.shadow_id)

    def expire(self, primary: str, before: float) -> None:
        """Delete the shadows in the queue of the next hop `primary` that came there at `before` or earlier (POSIX seconds; SR-E10-12)."""
        for message in self.messages_held_for(primary):
            if message.since <= before:
                self.host.messages.drop(message.id)
                self.host.log.warning("%s shadow for %s expired", message.shadow_id, primary)


def shadow_queues_of(host: Host) -> HubShadowQueues:
    """Return the shadow queues of a 2010 server, with their 2010 type; for another server the assertion fails."""
    assert isinstance(host.shadow_queues, HubShadowQueues)
    return host.shadow_queues


class HubPromotion(Promotion):
    """Promotes shadows without giving them a new id."""

    def new_message_id(self, message: Message) -> str:
        """Return the shadow id of the message, which its failed primary knows, as its id here."""
        return message.shadow_id
