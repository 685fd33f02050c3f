"""Delivery into mailboxes hosted here, with duplicate detection (SR-DUP-01 to SR-DUP-07)."""

import asyncio

from conformance.reference.config import Address
from conformance.reference.headers import client_submit_time, internet_message_id
from conformance.reference.host import Alarm, Host
from conformance.reference.message import Envelope, Recipient
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue, SessionLost

LONGEST_WINDOW = 49 * 86400.0
FALLBACK_WINDOW = 86400.0
"""A DuplicateTrackingWindow above 49 days is not honoured: 24 hours are used instead (SR-DUP-04)."""

_BUSY = Reply(451, "4.3.0", "the mailbox store does not answer")
_DROPPED = Reply(250, "2.1.5", "delivered before: duplicate dropped")


class MailboxStore:
    """Hands messages to the stores behind this server, once for each mailbox within the tracking window."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._turns: dict[tuple[str, str, float], asyncio.Lock] = {}
        self._alarm = Alarm(host, self._clean_up)

    def start(self) -> None:
        """Begin the background clean-up of the delivered-to table."""
        if self._host.delivered.rows():
            self._wind()

    async def deliver(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Deliver to one mailbox, or drop a duplicate; the reply is what the giver is told."""
        internet_id, submitted = internet_message_id(content), client_submit_time(content)
        if internet_id is None or submitted is None:
            return await self._hand_over(sink, envelope, recipient, content)
        key = (recipient.address.casefold(), internet_id, submitted)
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:  # the same message on two ways at once: the second waits to see what became of the first
            before = self._host.delivered.at(*key)
            if before is not None and self._host.now() < before + self.window:
                self._host.log.info("<%s> duplicate for %s dropped", internet_id, recipient.address)
                return _DROPPED
            reply = await self._hand_over(sink, envelope, recipient, content)
            if reply.positive:
                self._host.delivered.add(*key, self._host.now())
                await self._host.db.durable()
                self._wind()
        if not turn.locked():
            self._turns.pop(key, None)
        return reply

    @property
    def window(self) -> float:
        """The DuplicateTrackingWindow that is in force, seconds."""
        window = self._host.transport.DuplicateTrackingWindow
        return FALLBACK_WINDOW if window > LONGEST_WINDOW else window

    async def _hand_over(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        single = Envelope(envelope.reverse_path, (recipient,), envelope.body)
        idle = self._host.transport.SendConnectionInactivityTimeout
        replies: dict[Recipient, Reply] = {}
        try:
            async with Dialogue(sink, self._host.config.name, idle, "lmtp") as dialogue:
                replies = await dialogue.transmit(single, content)
        except SessionLost as lost:
            self._host.log.warning("%s: the mailbox store is not to be had: %s", recipient.address, lost)
        return replies.get(recipient, _BUSY)

    def _clean_up(self) -> None:
        removed = self._host.delivered.remove_before(self._host.now() - self.window)
        self._host.log.info("delivered-to table: %d expired entries removed", removed)
        if self._host.delivered.rows():
            self._wind()

    def _wind(self) -> None:
        if not self._alarm.is_set:
            self._alarm.set(self._host.now() + self._host.transport.DuplicateCleanupInterval)
