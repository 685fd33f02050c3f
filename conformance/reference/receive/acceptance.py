"""What happens between a message's final dot and its reply (SR-CRE-01, SR-CRE-05, SR-ENA-03, SR-ENA-04)."""

from conformance.reference.headers import client_submit_time, internet_message_id, received, went_round
from conformance.reference.host import Host
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.replies import Reply
from conformance.reference.shadow.creation import MARGIN
from conformance.reference.shadow.manager import ShadowRedundancyManager

NOT_REDUNDANT = Reply(451, "4.4.0", "Message failed to be made redundant")
LOOP = Reply(554, "5.4.6", "the message has been through too many servers")
BARE = Reply(550, "5.6.11", "a bare CR or LF is not allowed")


class Acceptance:
    """Takes messages in: as primary, as a shadow, or for mailboxes hosted here."""

    def __init__(self, host: Host, delivery: Delivery, store: MailboxStore, manager: ShadowRedundancyManager) -> None:
        self.host = host
        self._delivery = delivery
        self._store = store
        self._manager = manager

    async def take(self, envelope: Envelope, content: bytes, helo: str, peer: str, session_ends: float) -> Reply:
        """Accept a message as its primary: redundant first, then on disk, then acknowledged."""
        if (refusal := unfit(content)) is not None:
            return refusal
        key, traced = self._traced(content, helo, peer, "ESMTP")
        message = self.store(envelope, traced, key)
        redundant = await self._delivery.make_redundant(message, traced, session_ends - MARGIN)
        if not redundant and self.must_be_redundant:
            self.host.messages.drop(message.id)
            await self.host.db.durable()
            self.host.log.warning("%s rejected: no shadow could be made", key)
            return NOT_REDUNDANT
        return await self.acknowledge(message)

    def store(self, envelope: Envelope, content: bytes, key: str) -> Message:
        """Put a message into the queue database, not yet acknowledged."""
        return self.host.messages.add(
            message_id=key,
            place="primary",
            envelope=envelope,
            content=content,
            internet_id=internet_message_id(content),
            submitted=client_submit_time(content),
            since=self.host.now(),
            shadow_id=key,
        )

    async def acknowledge(self, message: Message) -> Reply:
        """Make sure that the message is on disk, begin its delivery, and say so."""
        await self.host.db.durable()
        self._delivery.take(message)
        self.host.log.info("%s accepted from <%s>", message.message_id, message.envelope.reverse_path)
        return self.queued(message)

    def queued(self, message: Message) -> Reply:
        """Return the reply that acknowledges a message."""
        return Reply(250, "2.6.0", f"<{message.internet_id or message.message_id}> Queued mail for delivery")

    @property
    def must_be_redundant(self) -> bool:
        """Whether a message without a shadow is rejected (SR-ENA-04, SR-ENA-06)."""
        transport = self.host.transport
        return transport.ShadowRedundancyEnabled and transport.RejectMessageOnShadowFailure

    async def keep_shadow(
        self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str
    ) -> Reply:
        """Store a shadow copy and acknowledge it once it is on disk (SR-CRE-04)."""
        self._manager.saw_database(primary, database)
        if self.host.shadows.find(primary, database, shadow_id) is None:
            self.host.messages.add(
                message_id=self.host.identity.next(),
                place="shadow",
                envelope=envelope,
                content=content,
                internet_id=internet_message_id(content),
                submitted=client_submit_time(content),
                since=self.host.now(),
                shadow_id=shadow_id,
                primary=primary,
                database=database,
            )
        await self.host.db.durable()
        self._manager.watch(primary)
        self.host.log.info("%s shadow kept for %s", shadow_id, primary)
        return Reply(250, "2.6.0", f"<{internet_message_id(content) or shadow_id}> Queued mail for redundancy")

    async def into_mailboxes(self, envelope: Envelope, content: bytes, helo: str, peer: str) -> list[Reply]:
        """Deliver to mailboxes hosted here for another server of the boundary; one reply for each recipient."""
        _, traced = self._traced(content, helo, peer, "LMTP")
        replies = []
        for recipient in envelope.recipients:
            mailbox = self.host.config.mailbox_at.get(recipient.address.casefold())
            if mailbox is None or mailbox.sink is None or mailbox.server != self.host.config.name:
                replies.append(Reply(451, "4.3.0", "the mailbox is not active here"))
            else:
                replies.append(await self._store.deliver(mailbox.sink.dial, envelope, recipient, traced))
        return replies

    def _traced(self, content: bytes, helo: str, peer: str, protocol: str) -> tuple[str, bytes]:
        key = self.host.identity.next()
        name = self.host.config.name
        trace = received(helo=helo, peer=peer, by=name, protocol=protocol, message_id=key, at=self.host.now())
        return key, trace + content


def unfit(content: bytes) -> Reply | None:
    """Return why content cannot be taken: it goes round, or has bare CR or LF (RFC 5321 2.3.8)."""
    if went_round(content):
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
