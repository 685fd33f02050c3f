"""What happens between a message's final dot and its reply (SR-CRE-01, SR-CRE-05)."""

from dataclasses import dataclass, replace

from conformance.reference.headers import is_looping, trace_field
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Message, Recipient, new_message
from conformance.reference.replies import NO_ROOM, Reply
from conformance.reference.storage.database import NoRoom

LOOP = Reply(554, "5.4.6", "the message has been through too many servers")
BARE = Reply(550, "5.6.11", "a bare CR or LF is not allowed")


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """Where a message comes from: what the client called itself, its address, and whether a server of the organisation
    has had it in hand before. `deadline` is the loop's time at which it must have its reply."""

    hello: str
    address: str
    from_organisation: bool
    deadline: float


class Acceptance(Component):
    """Takes messages in: as primary, or for mailboxes hosted here."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept a message as its primary: redundant first, then on disk, then acknowledged."""
        if (refusal := content_refusal(content)) is not None:
            return refusal
        key, traced = self.add_trace_field(content, origin, "ESMTP")
        message = self.store(envelope, traced, key, origin)
        refusal = await self.host.redundancy.ensure_redundant(message, traced, origin.deadline)
        if refusal is not None:
            self.host.messages.drop(message.id)
            await self.host.db.commit()
            self.host.log.warning("%s rejected: %s", key, refusal)
            return refusal
        return await self.acknowledge(message)

    def store(self, envelope: Envelope, content: bytes, key: str, origin: MessageOrigin) -> Message:
        """Put a message into the queue database, not yet acknowledged."""
        draft = new_message(
            content,
            envelope,
            message_id=key,
            since=self.host.now(),
            redundancy_pending=True,
            journal_due=not origin.from_organisation and self.host.config.journal is not None,
        )
        return self.host.messages.add(draft, content)

    async def acknowledge(self, message: Message) -> Reply:
        """Make sure that the message is on disk, begin its delivery, and say so; refuse it where there is no room."""
        self.host.messages.clear_redundancy_pending(message.id)
        try:
            await self.host.db.commit_if_room()
        except NoRoom as error:
            self.host.messages.drop(message.id)
            self.host.log.warning("%s refused: %s", message.message_id, error)
            return self.no_room_reply()
        self.host.delivery.start_processing(replace(message, redundancy_pending=False))
        self.host.log.info("%s accepted from <%s>", message.message_id, message.envelope.reverse_path)
        return self.acknowledgement_reply(message)

    def no_room_reply(self) -> Reply:
        """Return the refusal of a message for which the disk has no room now."""
        return NO_ROOM

    def acknowledgement_reply(self, message: Message) -> Reply:
        """Return the reply that acknowledges a message."""
        return Reply(250, "2.6.0", f"<{message.internet_id or message.message_id}> Queued mail for delivery")

    async def deliver_to_mailboxes(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> list[Reply]:
        """Deliver to mailboxes hosted here for another server of the boundary; one reply for each recipient."""
        _, traced = self.add_trace_field(content, origin, "LMTP")
        return [
            await self.host.store.deliver_for_peer(envelope, recipient, traced) for recipient in envelope.recipients
        ]

    def add_trace_field(self, content: bytes, origin: MessageOrigin, protocol: str) -> tuple[str, bytes]:
        """Return a name for a message, and its content with our trace field before it (RFC 5321 4.4)."""
        key = self.host.identity.new_id()
        name = self.host.name
        trace = trace_field(
            helo=origin.hello, peer=origin.address, by=name, protocol=protocol, message_id=key, at=self.host.now()
        )
        return key, trace + content


def content_refusal(content: bytes) -> Reply | None:
    """Return why content cannot be taken: it goes round, or has bare CR or LF (RFC 5321 2.3.8)."""
    if is_looping(content):
        return LOOP
    bare = content.replace(b"\r\n", b"")
    return BARE if b"\r" in bare or b"\n" in bare else None


def envelope_of(reverse_path: str, recipients: list[Recipient], parameters: dict[str, str]) -> Envelope:
    """Return the envelope of a transaction; the null reverse-path is empty."""
    return Envelope(
        "" if reverse_path == "<>" else reverse_path,
        tuple(recipients),
        parameters.get("BODY", ""),
        parameters.get("RET", ""),
        parameters.get("ENVID", ""),
    )
