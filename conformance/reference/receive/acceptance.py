"""Accepting a message: what happens between its final dot and the reply (SR-CRE-01, SR-CRE-05).

The session of a listener (session.py) calls `host.acceptance` with each message that it has received, except copies to keep for
another server (shadows). The *primary server* of a message has acknowledged it and must deliver it. To make a message *redundant*
is to have a copy stored on another server. A *trace field* is the Received field that each server adds at the beginning of a
message. `self.host` has the other components of the node; `host.db.commit_if_room` waits until all writes are on disk, and raises
NoRoom if the disk is full.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

from conformance.reference.headers import is_looping, trace_field
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Message, Recipient, new_message
from conformance.reference.replies import NO_ROOM, Reply, id_in_reply
from conformance.reference.storage.database import NoRoom

_LOOP = Reply(554, "5.4.6", "the message has been through too many servers")
_BARE_LINE_END = Reply(550, "5.6.11", "a bare CR or LF is not allowed")


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """Where a message comes from: the client's EHLO name and IP address, and when the client must have the reply.

    `from_organisation`: another server of the organisation has accepted the message before. `deadline`, by which the client must
    have the reply, is in the event loop's time.
    """

    hello: str
    address: str
    from_organisation: bool
    deadline: float


class Acceptance(Component):
    """Accepts messages as their primary server, or into mailboxes hosted here; each `Reply` that a method returns is for the client."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Accept a message as its primary: have a shadow made, write it to disk, start its delivery and return 250; or return a refusal.

        A message is refused if it loops, has bare line ends, finds the disk full, or has no shadow though redundancy is mandatory
        (SR-ENA-04). A refused message is not kept. Waits for the attempts at a shadow, which end at `origin.deadline` (or a second
        later if many such sessions are still closing), and then for the disk.
        """
        if (refusal := content_refusal(content)) is not None:
            return refusal
        message_id, traced = self.add_trace_field(content, origin, "ESMTP")
        message = self.store(envelope, traced, message_id, origin)
        refusal = await self.host.redundancy.make_redundant_or_refuse(message, traced, origin.deadline)
        if refusal is not None:
            self.host.messages.drop(message.id)
            with suppress(NoRoom):  # the refusal does not wait for room
                await self.host.db.commit_if_room()
            self.host.log.warning("%s rejected: %s", message_id, refusal)
            return refusal
        return await self.acknowledge(message)

    def store(self, envelope: Envelope, content: bytes, message_id: str, origin: MessageOrigin) -> Message:
        """Add a message to the queue database, without waiting for the disk; return it with its row id.

        `message_id` is this server's id of the message. The message is marked as still to be made redundant (`redundancy_pending`)
        and, if no other server of the organisation has accepted it before, as still to be journaled (`journal_due`).
        """
        draft = new_message(
            content,
            envelope,
            message_id=message_id,
            since=self.host.now(),
            redundancy_pending=True,
            journal_due=not origin.from_organisation,
        )
        return self.host.messages.add(draft, content)

    async def acknowledge(self, message: Message) -> Reply:
        """Wait until a stored message is on disk, start its delivery, and return 250; delete it and return 452 if the disk is full.

        The caller has had a shadow made, or has decided to do without: no other attempt to make the message redundant is made.
        """
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
        """Return the reply that refuses a message because the disk is full."""
        return NO_ROOM

    def acknowledgement_reply(self, message: Message) -> Reply:
        """Return the reply 250 to a message, with its Message-ID or, if it has none, this server's id of it."""
        return Reply(250, "2.6.0", f"<{id_in_reply(message.internet_id, message.message_id)}> Queued mail for delivery")

    async def deliver_to_mailboxes(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> list[Reply]:
        """Deliver a message from another server of the boundary into mailboxes hosted here; return one reply for each recipient, in order.

        Waits for the mailbox store, for one recipient after another. A recipient gets 451 if the mailbox is not here or the store
        does not answer, and 250 also if the mailbox has got the message before.
        """
        _, traced = self.add_trace_field(content, origin, "LMTP")
        return [
            await self.host.store.deliver_for_peer(envelope, recipient, traced) for recipient in envelope.recipients
        ]

    def add_trace_field(self, content: bytes, origin: MessageOrigin, protocol: str) -> tuple[str, bytes]:
        """Return a new id for a message, and its content with this server's Received field prepended (RFC 5321 4.4).

        `protocol` is the one that the message came by, for the field: `ESMTP` or `LMTP`.
        """
        message_id = self.host.identity.new_id()
        name = self.host.name
        trace = trace_field(
            helo=origin.hello,
            peer=origin.address,
            by=name,
            protocol=protocol,
            message_id=message_id,
            at=self.host.now(),
        )
        return message_id, trace + content


def content_refusal(content: bytes) -> Reply | None:
    """Return the reply that refuses content in a mail loop or with bare CR or LF (RFC 5321 2.3.8), or None if it is acceptable."""
    if is_looping(content):
        return _LOOP
    rest = content.replace(b"\r\n", b"")
    return _BARE_LINE_END if b"\r" in rest or b"\n" in rest else None


def envelope_of(reverse_path: str, recipients: list[Recipient], parameters: dict[str, str]) -> Envelope:
    """Return the envelope of a transaction; `parameters` are those of MAIL by name in upper case.

    The null reverse-path `<>` becomes ""; parameters other than BODY, RET, ENVID and SMTPUTF8 are dropped.
    """
    return Envelope(
        reverse_path="" if reverse_path == "<>" else reverse_path,
        recipients=tuple(recipients),
        body=parameters.get("BODY", ""),
        ret=parameters.get("RET", ""),
        envid=parameters.get("ENVID", ""),
        smtputf8="SMTPUTF8" in parameters,
    )
