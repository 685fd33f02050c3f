"""Delivery into mailboxes hosted here: duplicate detection, then LMTP to the mailbox store behind this server.

`host.store` is called by the queue for mailboxes here (hop_queue.py), and for messages of other servers (receive/acceptance.py).
A message is a duplicate if the mailbox has got one with the same Message-ID and Date before (duplicates.py). `sink` is the
address of the mailbox store, an LMTP server.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from conformance.reference.config import Address
from conformance.reference.host import Component
from conformance.reference.message import Envelope, Recipient
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.factory import create_dialogue

NO_ANSWER = Reply(451, "4.3.0", "the mailbox store does not answer")
DUPLICATE = Reply(250, "2.1.5", "delivered before: duplicate dropped")
NOT_ACTIVE_HERE = Reply(451, "4.3.0", "the mailbox is not active here")


class MailboxStore(Component):
    """Delivers into the mailbox databases that are active on this server."""

    async def deliver_for_peer(self, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Deliver to one mailbox for another server of the boundary, as `deliver` does; return the reply.

        That is 451, with nothing delivered, if the mailbox is unknown or not active here.
        """
        mailbox = self.host.config.mailboxes_by_address.get(recipient.address.casefold())
        if mailbox is None or mailbox.sink is None or mailbox.server != self.host.name:
            return NOT_ACTIVE_HERE
        return await self.deliver(mailbox.sink.dial, envelope, recipient, content)

    async def deliver(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Deliver to one mailbox, or drop a duplicate; return the reply to the server that sent the message.

        That is 250 for a duplicate, else the reply of the mailbox store, or 451 if the session with the store is lost. A successful
        delivery is recorded on disk when this returns, so that later duplicates are recognised; one without Message-ID or Date is
        not recorded. Waits, without limit, while the same message is being delivered to the mailbox by another caller.
        """
        duplicates = self.host.duplicates
        key = duplicates.key_of(recipient.address, content)
        if key is None:  # without Message-ID or Date it is never a duplicate
            return await self.transmit_to_store(sink, envelope, recipient, content)
        if not await duplicates.claim_delivery(key):
            self.host.log.info("<%s> duplicate for <%s> dropped", key.internet_id, recipient.address)
            return DUPLICATE
        delivered = False
        async with self.session_with_store(sink) as session:
            try:
                reply = await self.transmit_in(session, envelope, recipient, content)
                delivered = reply.positive
            finally:
                duplicates.end_delivery(key, delivered=delivered)
            await self.host.db.commit()
        return reply

    async def transmit_to_store(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Transmit the message to the mailbox store in a new LMTP session; return its reply, or 451 if the session is lost."""
        async with self.session_with_store(sink) as session:
            return await self.transmit_in(session, envelope, recipient, content)

    async def transmit_in(self, session: Dialogue, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Open the session with the mailbox store and transmit the message to one recipient; return the final reply.

        That is the reply of the store, 451 if the session is lost or cannot be opened, or a permanent refusal made here if the
        message needs 8BITMIME or SMTPUTF8 and the store does not offer it. BODY and SMTPUTF8 are sent if the store offers them,
        NOTIFY and ORCPT if it offers DSN, RET and ENVID never. The session stays open unless it is lost.
        """
        try:
            await session.open()
            envelope_for_one = Envelope(
                reverse_path=envelope.reverse_path,
                recipients=(recipient,),
                body=envelope.body,
                smtputf8=envelope.smtputf8,
            )
            return (await session.transmit(envelope_for_one, content))[recipient]
        except SessionLost as lost:
            self.host.log.warning("<%s>: mailbox store: %s", recipient.address, lost)
            return NO_ANSWER

    @asynccontextmanager
    async def session_with_store(self, sink: Address) -> AsyncIterator[Dialogue]:
        """Yield a session with a mailbox store that is not open yet; after the block a task ends it with QUIT.

        So the caller does not wait for the reply to QUIT, which may take SendConnectionInactivityTimeout. If the block raises,
        the connection is dropped without QUIT.
        """
        idle_timeout = self.host.transport.SendConnectionInactivityTimeout
        session = create_dialogue(sink, self.host.name, idle_timeout, protocol="lmtp")
        try:
            yield session
        except BaseException:
            session.abort()
            raise
        ending = self.host.tasks.start(
            self._end_session(session), f"{self.host.name}: end a session with a mailbox store"
        )
        ending.add_done_callback(lambda _: session.abort())  # also if the task is cancelled before it runs

    async def _end_session(self, session: Dialogue) -> None:
        """Send QUIT and wait for its reply; do nothing if the session is lost, or was never connected."""
        if session.is_alive:
            with suppress(SessionLost):
                await session.quit()
