"""Defects of acceptance: what is promised with a 250, and who keeps it."""

from collections.abc import Iterator
from dataclasses import replace

from conformance.reference.config import Address
from conformance.reference.defects.defect import defect
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.queue.delivery import Redirection
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin
from conformance.reference.replies import Reply
from conformance.reference.shadow.shadow_queues import QueuedShadow, ShadowQueues
from conformance.reference.storage.database import Database


@defect("forgets-its-queue-on-restart", breaks="RL-ACK-01", part="acceptance")
class ForgetsItsQueue(Acceptance):
    """Clears its delivery queues when it starts: what it acknowledged before is gone."""

    def start(self) -> None:
        """Drop what was acknowledged."""
        for message in list(self.host.messages.in_place("primary")):
            self.host.messages.drop(message.id)


@defect("begins-anew-after-every-failure", breaks="SR-BND-09", part="database")
class BeginsAnew(Database):
    """Begins with an empty queue database at every start, and leaves what it had to whoever keeps the shadows: when both
    fail together, nobody has it any more."""

    def open(self) -> bool:
        """Put the old file away."""
        for old in self._path.parent.glob(f"{self._path.name}*"):
            old.unlink()
        return super().open()


@defect("takes-no-second-transmission", breaks="SR-TMO-04", part="acceptance")
class TakesNoSecondTransmission(Acceptance):
    """Refuses a message that it has had before."""

    def start(self) -> None:
        """Nothing was seen yet."""
        self.seen: set[str] = set()

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Refuse what was seen."""
        key = f"{envelope.reverse_path} {content!r}"
        if key in self.seen:
            return Reply(554, "5.6.0", "the message was transmitted before")
        reply = await super().accept(envelope, content, origin)
        if reply.positive:
            self.seen.add(key)
        return reply


@defect("folds-letter-case", breaks="RL-ACK-04", part="acceptance")
class FoldsLetterCase(Acceptance):
    """Takes addresses that differ in letter case only for one, wherever they are."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Keep the first of them."""
        once = {recipient.address.casefold(): recipient for recipient in reversed(envelope.recipients)}
        return await super().accept(envelope.for_recipients(tuple(reversed(once.values()))), content, origin)


@defect("delivers-everything-twice", breaks="RL-ACK-04", part="acceptance")
class DeliversEverythingTwice(Acceptance):
    """Puts every message into its queue twice."""

    async def acknowledge(self, message: Message) -> Reply:
        """Queue a twin."""
        host = self.host
        name = host.identity.new_id()
        twin = replace(message, id=0, message_id=name, shadow_id=name, redundancy_pending=False)
        host.delivery.start_processing(host.messages.add(twin, host.messages.content(message.id)))
        return await super().acknowledge(message)


@defect("one-shadow-queue-for-all", breaks="SR-BND-07", part="shadow_queues")
class OneShadowQueueForAll(ShadowQueues):
    """Holds a shadow message in one queue, however many next hops its primary needs."""

    def queues_of(self, message: Message) -> Iterator[QueuedShadow]:
        """Yield it once, in the queue of whoever comes first."""
        first = next(super().queues_of(message))
        yield replace(first, recipients=message.envelope.recipients)


@defect("redirects-nothing", breaks="SR-CRE-10", part="redirection")
class RedirectsNothing(Redirection):
    """Says that it has redirected its queues, and leaves them where they are."""

    async def redirect(self, target: str) -> dict[str, int]:
        """Do nothing."""
        return {"redirected": 0, "kept": 0}


@defect("delivers-one-of-many", breaks="RL-ACK-04", part="store")
class DeliversOneOfMany(MailboxStore):
    """Gives the store one copy for the first recipient, and calls the others delivered, though nobody was refused."""

    async def deliver(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Skip everybody but the first."""
        if recipient != envelope.recipients[0]:
            return Reply(250, "2.1.5", "delivered with the first")
        return await super().deliver(sink, envelope, recipient, content)
