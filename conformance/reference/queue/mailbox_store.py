"""Delivery into mailboxes hosted here: through duplicate detection into the store behind this server (LMTP)."""

from conformance.reference.config import Address
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Recipient
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import SessionLost
from conformance.reference.send.factory import create_dialogue

BUSY = Reply(451, "4.3.0", "the mailbox store does not answer")
DROPPED = Reply(250, "2.1.5", "delivered before: duplicate dropped")
ELSEWHERE = Reply(451, "4.3.0", "the mailbox is not active here")


class MailboxStore(Component):
    """The mailbox databases that are active on this server."""

    async def deliver_for_peer(self, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Deliver to one mailbox for another server of the boundary, if its database is active here."""
        mailbox = self.host.config.mailboxes_by_address.get(recipient.address.casefold())
        if mailbox is None or mailbox.sink is None or mailbox.server != self.host.name:
            return ELSEWHERE
        return await self.deliver(mailbox.sink.dial, envelope, recipient, content)

    async def deliver(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Deliver to one mailbox, or drop a duplicate; the reply is what the giver is told."""
        duplicates = self.host.duplicates
        key = duplicates.key_of(recipient.address, content)
        if key is None:
            return await self.transmit_to_store(sink, envelope, recipient, content)
        if not await duplicates.claim_delivery(key):
            self.host.log.info("<%s> duplicate for <%s> dropped", key.internet_id, recipient.address)
            return DROPPED
        delivered = False
        try:
            reply = await self.transmit_to_store(sink, envelope, recipient, content)
            delivered = reply.positive
        finally:
            duplicates.end_delivery(key, delivered=delivered)
        await self.host.db.commit()
        return reply

    async def transmit_to_store(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Give the message to the store, over LMTP."""
        idle = self.host.transport.SendConnectionInactivityTimeout
        dialogue = create_dialogue(sink, self.host.name, idle, "lmtp")
        reply = BUSY
        try:
            await dialogue.open()
            single = Envelope(envelope.reverse_path, (recipient,), envelope.body)
            reply = (await dialogue.transmit(single, content))[recipient]
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.warning("<%s>: mailbox store: %s", recipient.address, lost)
        finally:
            dialogue.abort()
        return reply
