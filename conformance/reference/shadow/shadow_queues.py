"""The shadow server's side: keeping shadow copies for other servers (SR-CRE-04, SR-CRE-11), the shadow queues that hold them
(SR-BND-07), and promotion, by which this server takes over the messages of a lost primary (SR-MNT-09, SR-MNT-11).

A primary is the server that must deliver a message; the shadow is the copy that this server keeps, to deliver it if the primary
is lost. A copy is identified by the name of its `primary`, the id of that server's queue `database`, and the `shadow_id` that the
primary gave it. Components of a node: receive/verbs.py calls `host.keeping`, manager.py `host.promotion`, inspection.py
`host.shadow_queues`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.reference.headers import internet_message_id
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Message, Recipient, new_message
from conformance.reference.replies import Reply, id_in_reply


@dataclass(frozen=True, slots=True)
class QueuedShadow:
    """A shadow message in one shadow queue, with the recipients that its primary sends to the queue's next hop."""

    primary: str
    next_hop: str
    message: Message
    recipients: tuple[Recipient, ...]


class ShadowQueues(Component):
    """Sorts shadow messages into shadow queues, one for each primary and next hop of it."""

    def all_queued(self) -> Iterator[QueuedShadow]:
        """Yield all shadow messages, in the order of their arrival, each once for each of its queues."""
        for message in self.host.messages.held_as("shadow"):
            yield from self.queues_of(message)

    def queues_of(self, message: Message) -> Iterator[QueuedShadow]:
        """Yield a shadow message once for each next hop to which its primary sends it, with the recipients there."""
        by_next_hop: dict[str, list[Recipient]] = {}
        for recipient in message.envelope.recipients:
            by_next_hop.setdefault(self.host.routing.next_hop_name_in_boundary(recipient.address), []).append(recipient)
        for next_hop, recipients in by_next_hop.items():
            yield QueuedShadow(
                primary=message.primary, next_hop=next_hop, message=message, recipients=tuple(recipients)
            )


class ShadowKeeping(Component):
    """Stores the shadow copies that primaries send, each once."""

    async def keep(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> Reply:
        """Store a shadow copy unless it is held already, and return 250 once it is on disk, in either case (SR-CRE-04).

        A copy that was discarded and is in the shadow Safety Net counts as held; one that was promoted does not. Records the contact
        with the primary, promotes shadows that came from another database of it, and watches it from now on: heartbeats, and
        promotion if it is lost.
        """
        host = self.host
        host.manager.record_contact_and_database(primary, database)
        if host.shadows.find_by_shadow_id(primary, database, shadow_id) is None:
            self.store(envelope, content, primary, database, shadow_id)
        await host.db.commit()
        host.manager.watch(primary)
        host.log.info("%s shadow kept for %s", shadow_id, primary)
        return Reply(
            250, "2.6.0", f"<{id_in_reply(internet_message_id(content), shadow_id)}> Queued mail for redundancy"
        )

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Add a copy to the shadow queue, without waiting for the disk, and set the alarm for its expiry (SR-SFN-03)."""
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
    """Makes primary messages of this server out of shadow messages: it then delivers them itself."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Promote the shadows with these row ids: make them primary messages of this server, and start to deliver them.

        Skips deleted ones. Does not wait for the disk.
        """
        host = self.host
        for row in rows:
            if (shadow := host.messages.get(row)) is None:
                continue
            new_id = self.new_message_id(shadow)
            host.messages.make_primary(row, message_id=new_id, since=host.now())
            host.log.warning("%s taken over from %s: <%s>", new_id, shadow.primary, shadow.internet_id)
            if (message := host.messages.get(row)) is not None:
                self.start_processing(message)

    def new_message_id(self, message: Message) -> str:
        """Return the id that the shadow `message` gets as a message of this server: a new one."""
        return self.host.identity.new_id()

    def start_processing(self, message: Message) -> None:
        """Start processing a promoted message in the background: have a new shadow made, and deliver it at the same time."""
        self.host.delivery.start_processing(message)
