"""The shadow queues: what was sent to a next hop, kept until that server has passed it on (EX2010, components).

There is a queue for each next hop; each message in it stands for the recipients that were sent there.
"""

from collections.abc import Sequence

from conformance.reference.host import Host
from conformance.reference.message import Envelope, Message, Recipient


class ShadowQueue:
    """The shadow queues of one server."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def keep(
        self, message: Message, content: bytes, recipients: Sequence[Recipient], primary: str, database: str, key: str
    ) -> None:
        """Keep what a next hop has taken: it is the primary now (SR-E10-03). `key` is the shadow's id."""
        envelope = message.envelope
        self._host.messages.add(
            message_id=key,
            place="shadow",
            envelope=Envelope(envelope.reverse_path, tuple(recipients), envelope.body, envelope.ret, envelope.envid),
            content=content,
            internet_id=message.internet_id,
            submitted=message.submitted,
            since=self._host.now(),
            shadow_id=key,
            primary=primary,
            database=database,
        )
        self._host.log.info("%s shadow %s kept for %s", message.message_id, key, primary)

    def held_for(self, primary: str) -> list[Message]:
        """Return what is in the queue of a next hop."""
        held = [self._host.messages.get(row) for row, _ in self._host.shadows.held_for(primary)]
        return [message for message in held if message is not None]

    def own(self, message: Message) -> None:
        """Make a shadow a message of our own again, which keeps its id."""
        self._host.messages.take_over(message.id, message_id=message.shadow_id, since=self._host.now())

    def notify(self, message: Message, primary: str) -> None:
        """Have a failed primary told when what was taken over from it is delivered (SR-E10-08)."""
        self._host.discards.add_holder(message.id, primary, acknowledged=True)

    def expire(self, primary: str, before: float) -> None:
        """Remove what has been in a next hop's queue since `before` (POSIX seconds; SR-E10-12)."""
        for message in self.held_for(primary):
            if message.since <= before:
                self._host.messages.drop(message.id)
                self._host.log.warning("%s shadow for %s expired", message.shadow_id, primary)
