"""Delivery into mailboxes hosted here: duplicate detection, then LMTP to the mailbox store behind this server."""

from conformance.reference.config import Address
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Recipient
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import SessionLost
from conformance.reference.send.factory import create_dialogue

NO_ANSWER = Reply(451, "4.3.0", "the mailbox store does not answer")
DUPLICATE = Reply(250, "2.1.5", "delivered before: duplicate dropped")
NOT_ACTIVE_HERE = Reply(451, "4.3.0", "the mailbox is not active here")


class MailboxStore(Component):
    """Delivers into the mailbox databases that are active on this server; `sink` is the mailbox store's address."""

    async def deliver_for_peer(self, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Deliver to one mailbox for another server of the boundary; return 451 if its database is not active here."""
        mailbox = self.host.config.mailboxes_by_address.get(recipient.address.casefold())
        if mailbox is None or mailbox.sink is None or mailbox.server != self.host.name:
            return NOT_ACTIVE_HERE
        return await self.deliver(mailbox.sink.dial, envelope, recipient, content)

    async def deliver(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Deliver to one mailbox, or drop a duplicate; return the reply to the server that sent the message.

        It is positive for a duplicate too. What later duplicates are recognised by is on disk when this returns.
        """
        duplicates = self.host.duplicates
        key = duplicates.key_of(recipient.address, content)
        if key is None:  # without Message-ID or Date it is never a duplicate
            return await self.transmit_to_store(sink, envelope, recipient, content)
        if not await duplicates.claim_delivery(key):
            self.host.log.info("<%s> duplicate for <%s> dropped", key.internet_id, recipient.address)
            return DUPLICATE
        delivered = False
        try:
            reply = await self.transmit_to_store(sink, envelope, recipient, content)
            delivered = reply.positive
        finally:
            duplicates.end_delivery(key, delivered=delivered)
        await self.host.db.commit()
        return reply

    async def transmit_to_store(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Transmit the message to the mailbox store over LMTP; return its reply, or 451 if the session is lost."""
        idle_timeout = self.host.transport.SendConnectionInactivityTimeout
        dialogue = create_dialogue(sink, self.host.name, idle_timeout, "lmtp")
        reply = NO_ANSWER
        try:
            await dialogue.open()
            envelope_for_one = Envelope(envelope.reverse_path, (recipient,), envelope.body)
            reply = (await dialogue.transmit(envelope_for_one, content))[recipient]
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.warning("<%s>: mailbox store: %s", recipient.address, lost)
        finally:
            dialogue.abort()
        return reply
