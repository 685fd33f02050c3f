"""Shadow queues: one for each next hop of each primary (SR-BND-07)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.reference.headers import internet_message_id
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Message, Recipient, new_message
from conformance.reference.replies import Reply


@dataclass(frozen=True, slots=True)
class QueuedShadow:
    """A shadow message in one of its queues, with those recipients that the primary's next hop is for."""

    primary: str
    next_hop: str
    message: Message
    recipients: tuple[Recipient, ...]


class ShadowQueues(Component):
    """Says in which queues a shadow message is held."""

    def all_queued(self) -> Iterator[QueuedShadow]:
        """Yield all shadow messages, once for each queue that holds them."""
        for message in self.host.messages.in_place("shadow"):
            yield from self.queues_of(message)

    def queues_of(self, message: Message) -> Iterator[QueuedShadow]:
        """Yield a shadow message once for each next hop that its primary needs for it."""
        hops: dict[str, list[Recipient]] = {}
        for recipient in message.envelope.recipients:
            hops.setdefault(self.host.routing.next_hop_name_in_boundary(recipient.address), []).append(recipient)
        for next_hop, recipients in hops.items():
            yield QueuedShadow(message.primary, next_hop, message, tuple(recipients))


class ShadowKeeping(Component):
    """Stores what a primary asks us to keep, once."""

    async def keep(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> Reply:
        """Store a shadow copy, and acknowledge it once it is on disk (SR-CRE-04)."""
        host = self.host
        host.manager.record_session(primary, database)
        if host.shadows.find(primary, database, shadow_id) is None:
            self.store(envelope, content, primary, database, shadow_id)
        await host.db.commit()
        host.manager.watch(primary)
        host.log.info("%s shadow kept for %s", shadow_id, primary)
        return Reply(250, "2.6.0", f"<{internet_message_id(content) or shadow_id}> Queued mail for redundancy")

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Put the copy into the shadow queue."""
        host = self.host
        shadow = new_message(
            content,
            envelope,
            message_id=host.identity.new_id(),
            since=host.now(),
            place="shadow",
            shadow_id=shadow_id,
            primary=primary,
            database=database,
        )
        host.messages.add(shadow, content)
        host.safety_net.set_alarm()


class Promotion(Component):
    """Makes shadow messages primary messages of this server."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Take shadows over: from now on they are ours, under names of our own, and are processed like any other."""
        host = self.host
        for row in rows:
            if (shadow := host.messages.get(row)) is None:
                continue
            name = self.new_message_id(shadow)
            host.messages.take_over(row, message_id=name, since=host.now())
            host.log.warning("%s taken over from %s: <%s>", name, shadow.primary, shadow.internet_id)
            if (message := host.messages.get(row)) is not None:
                self.start_processing(message)

    def new_message_id(self, message: Message) -> str:
        """Return the id that a shadow has from now on: a new one, for it is a message of this server."""
        return self.host.identity.new_id()

    def start_processing(self, message: Message) -> None:
        """Process a message that was a shadow: redundant afresh, and at the same time to its next hops."""
        self.host.delivery.start_processing(message)
