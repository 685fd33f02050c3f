"""Defects of acceptance: a message is acknowledged with 250 and then lost, changed or delivered twice, or is wrongly refused.

To accept a message is what happens between its final dot and the reply. A message is in one *place*: `primary` while this server
must deliver it, `shadow` while it is a copy that this server keeps for the primary server of the message.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Iterator
from dataclasses import replace

from conformance.reference.config import Address
from conformance.reference.defects.defect import defect
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.queue.delivery import Redirection
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin, content_refusal
from conformance.reference.replies import Reply
from conformance.reference.shadow.shadow_queues import QueuedShadow, ShadowQueues
from conformance.reference.storage.database import Database, DatabaseError


@defect("forgets-its-queue-on-restart", breaks="RL-ACK-01", slot="acceptance")
class ForgetsItsQueue(Acceptance):
    """Clears its delivery queues when it starts: what it acknowledged before is gone."""

    def start(self) -> None:
        """Delete, at the start of the node, every message that is still to be delivered, although it was acknowledged.

        Correct is to delete nothing.
        """
        for message in list(self.host.messages.held_as("primary")):
            self.host.messages.drop(message.id)


@defect("begins-anew-after-every-failure", breaks="SR-BND-09", slot="database")
class BeginsAnew(Database):
    """Begins with an empty queue database at every start, and leaves its messages to their shadow servers: when both
    fail together, no server has them any more."""

    def open(self) -> None:
        """Delete the database of the last start with all messages in it, if there is one, then open a new one.

        Called as the node starts.
        """
        # SQLite has files beside it, whose names begin with its name
        for old in self._path.parent.glob(f"{self._path.name}*"):
            old.unlink()
        super().open()


@defect("relies-on-fsync-to-keep-a-directory", breaks="RL-ACK-05", slot="database", on_disks=True)
class ReliesOnFsyncToKeepADirectory(Database):
    """Makes a directory for its queue database, and never syncs the directory above, which alone must keep that name: a power cut
    may take the whole queue."""

    def open(self) -> None:
        """Open the database in the directory `queue`, which is made at the first start; correct is to put it where it belongs.

        Raises DatabaseError as the correct one does.
        """
        self._path = self._path.parent / "queue" / self._path.name
        self._path.parent.mkdir(exist_ok=True)
        super().open()


@defect("rejects-before-it-forgets", breaks="SR-ENA-04", slot="acceptance")
class RejectsBeforeItForgets(Acceptance):
    """Rejects a message, and deletes it five seconds later: if it is killed meanwhile, it delivers the message."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept or refuse a message; delete one that is refused for want of a shadow only five seconds after the reply.

        Return the reply. Waits for the shadow, as is correct, until `origin.deadline`. Correct is to delete the message, also on
        disk, before the reply. A node that starts again before the five seconds are over delivers it.
        """
        if (refusal := content_refusal(content)) is not None:
            return refusal
        message_id, traced = self.add_trace_field(content, origin, "ESMTP")
        message = self.store(envelope, traced, message_id, origin)
        refusal = await self.host.redundancy.make_redundant_or_refuse(message, traced, origin.deadline)
        if refusal is None:
            return await self.acknowledge(message)
        self.host.alarms.new(lambda: self.host.messages.drop(message.id)).set(self.host.now() + 5)
        return refusal


@defect("takes-no-second-transmission", breaks="SR-TMO-04", slot="acceptance")
class TakesNoSecondTransmission(Acceptance):
    """Refuses a message that it has had before."""

    def start(self) -> None:
        """Begin with no message known; `seen` has sender and content of each accepted message."""
        self.seen: set[str] = set()

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Refuse (554) a message with the sender and content of one that was accepted since the start; handle others correctly.

        Return the reply. Correct is to accept a repeated transmission.
        """
        key = f"{envelope.reverse_path} {content!r}"
        if key in self.seen:
            return Reply(554, "5.6.0", "the message was transmitted before")
        reply = await super().accept(envelope, content, origin)
        if reply.positive:
            self.seen.add(key)
        return reply


@defect("folds-letter-case", breaks="RL-ACK-04", slot="acceptance")
class FoldsLetterCase(Acceptance):
    """Takes addresses that differ in letter case only for one, wherever they are."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept the message for the first of several recipients whose addresses differ at most in letter case, and drop the others.

        Return the correct reply, as if the message had been accepted for all of them.
        """
        # reversed, so that of equal keys the first recipient is kept
        recipients_by_address = {recipient.address.casefold(): recipient for recipient in reversed(envelope.recipients)}
        return await super().accept(
            envelope.for_recipients(tuple(reversed(recipients_by_address.values()))), content, origin
        )


@defect("delivers-everything-twice", breaks="RL-ACK-04", slot="acceptance")
class DeliversEverythingTwice(Acceptance):
    """Puts every message into its queue twice."""

    async def acknowledge(self, message: Message) -> Reply:
        """Start to deliver a copy of the stored message under a new id; then acknowledge and deliver the message itself.

        Return the correct reply: 250 once the message is on disk, or 452 if the disk is full. The copy is delivered in both cases.
        """
        host = self.host
        name = host.identity.new_id()
        copy = replace(message, id=0, message_id=name, shadow_id=name, redundancy_pending=False)
        host.delivery.start_processing(host.messages.add(copy, host.messages.content(message.id)))
        return await super().acknowledge(message)


@defect("one-shadow-queue-for-all", breaks="SR-BND-07", slot="shadow_queues")
class OneShadowQueueForAll(ShadowQueues):
    """Holds a shadow message in one queue, however many next hops its primary needs."""

    def queues_of(self, message: Message) -> Iterator[QueuedShadow]:
        """Yield the message once, in the queue for its primary's first next hop, as if all recipients were reached there.

        Correct is to yield it once for each next hop of the primary.
        """
        first = next(super().queues_of(message))
        yield replace(first, recipients=message.envelope.recipients)


@defect("redirects-nothing", breaks="SR-CRE-10", slot="redirection")
class RedirectsNothing(Redirection):
    """Says that it has redirected its queues, and leaves them where they are."""

    async def redirect(self, target: str) -> dict[str, int]:
        """Redirect nothing, and return the counts of an empty queue: no message redirected to the server `target`, and none kept.

        A wrong `target` is not refused.
        """
        return {"redirected": 0, "kept": 0}


@defect("delivers-one-of-many", breaks="RL-ACK-04", slot="store")
class DeliversOneOfMany(MailboxStore):
    """Gives the store one copy for the first recipient, and calls the others delivered, though none was refused."""

    async def deliver(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Deliver into the mailbox of the envelope's first recipient; for any other return 250 without delivering.

        Called once for each recipient; `sink` is the address of the mailbox store.
        """
        if recipient != envelope.recipients[0]:
            return Reply(250, "2.1.5", "delivered with the first")
        return await super().deliver(sink, envelope, recipient, content)


@defect("acknowledges-what-a-sync-failed-for", breaks="RL-ACK-01", slot="acceptance", on_disks=True)
class AcknowledgesWhatASyncFailedFor(Acceptance):
    """Acknowledges a message although the commit that should have brought it to the disk has failed."""

    async def acknowledge(self, message: Message) -> Reply:
        """Acknowledge a message; return the acknowledgement (250) also if the commit that writes it to disk fails with DatabaseError.

        The delivery of the message is then not started. On a full disk the reply is 452, as is correct.
        """
        try:
            return await super().acknowledge(message)
        except DatabaseError:
            return self.acknowledgement_reply(message)


@defect("refuses-for-good-without-room", breaks="RL-ACK-06", slot="acceptance", on_disks=True)
class RefusesForGoodWithoutRoom(Acceptance):
    """Refuses a message for good when there is no room on its disk: the sender gives it up."""

    def no_room_reply(self) -> Reply:
        """Return the permanent refusal 552, so that the sender does not try again; correct is the temporary 452."""
        return Reply(552, "5.3.4", "insufficient system storage")
