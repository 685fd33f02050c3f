"""The delivery queue for one next hop, and the sessions that carry its messages there.

A message with recipients at several next hops is bifurcated: it has one `DeliveryAttempt` for each next hop. The queue gives
attempts to at most MAX_SESSIONS workers. A worker for a remote next hop opens a session, transmits up to MESSAGES_PER_SESSION
attempts in it, and gives the replies of each to `record_outcome` (`Delivery` in delivery.py, which also adds the attempts). If
the session is lost, the attempt that was under way is repeated in a new session or at the next server of the hop, unless all
servers have failed: then the attempt is over, and `Delivery` retries its recipients later. `refused` of an attempt has the
recipients that were refused for good in a lost session; they are not tried again.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from conformance.reference.config import Address
from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import SessionLost


@dataclass(slots=True, eq=False)
class DeliveryAttempt:
    """One attempt to deliver a message to one next hop, for those of its recipients that are reached there.

    `hop` is the next hop, which may have several servers that are tried in turn. `finished` is done when the outcome has been
    recorded, and cancelled when the attempt is withdrawn. `refused` has the final replies for recipients that were refused for
    good in sessions that were lost before the attempt had ended: they are not tried again.
    """

    message: Message
    recipients: tuple[Recipient, ...]
    hop: NextHop
    finished: asyncio.Future[None]
    refused: dict[Recipient, Reply] = field(default_factory=dict)

    @property
    def remaining(self) -> tuple[Recipient, ...]:
        """The recipients for whom the message is to be transmitted."""
        return tuple(recipient for recipient in self.recipients if recipient not in self.refused)


MAX_SESSIONS = 5
"""The most concurrent sessions with one next hop."""
MESSAGES_PER_SESSION = 20
"""The most messages in one session (SmtpMaxMessagesPerConnection)."""

_UNROUTABLE = {"no such mailbox": Reply(550, "5.1.1", "no such mailbox"), "no route": Reply(550, "5.4.4", "no route")}


class RecordOutcome(Protocol):
    """A function that records the replies to an attempt, by recipient.

    A recipient without a reply, or with one that is not 2yz or 5yz, is to be retried. `takes_over_reports`: the next hop takes
    over delivery status notifications (RFC 3461).
    """

    async def __call__(
        self, attempt: DeliveryAttempt, replies: dict[Recipient, Reply], *, takes_over_reports: bool
    ) -> None:
        """Record the replies, by recipient, and return once they are on disk."""


class HopQueue:
    """Delivery attempts for one next hop, first in, first out; worker tasks run while there are attempts.

    `waiting` has the attempts that no worker has taken. `paused` is set when the node stops: then none is taken any
    more. `record_outcome` (see `RecordOutcome`) ends an attempt. Subclasses have `deliver`.
    """

    def __init__(self, host: Host, hop: NextHop, record_outcome: RecordOutcome) -> None:
        self.host = host
        self.hop = hop
        self.record_outcome = record_outcome
        self.waiting: deque[DeliveryAttempt] = deque()
        self.workers: set[asyncio.Task[None]] = set()
        self.paused = False

    def add(self, attempt: DeliveryAttempt) -> None:
        """Add an attempt at the end, and start a worker if fewer than MAX_SESSIONS are running and the queue is not paused."""
        self.waiting.append(attempt)
        if not self.paused and len(self.workers) < MAX_SESSIONS:
            task = self.host.tasks.start(self._worker(), f"{self.host.name}: to {self.hop.name}")
            self.workers.add(task)
            task.add_done_callback(self.workers.discard)

    def pop(self) -> DeliveryAttempt | None:
        """Remove and return the first attempt; None if there is none or the queue is paused."""
        return self.waiting.popleft() if self.waiting and not self.paused else None

    async def _worker(self) -> None:
        """Deliver attempts until the queue is empty or paused; the task of a worker."""
        while (attempt := self.pop()) is not None:
            await self.deliver(attempt)

    async def deliver(self, attempt: DeliveryAttempt) -> None:
        """Make an attempt, possibly further ones of the queue after it, and record the outcome of each.

        Subclasses implement it; here it raises NotImplementedError.
        """
        raise NotImplementedError


class NowhereQueue(HopQueue):
    """The queue for recipients without a next hop: they fail at once."""

    async def deliver(self, attempt: DeliveryAttempt) -> None:
        """Record a permanent failure (550) for every recipient; the hop's name, `no such mailbox` or `no route`, says which reply."""
        await self.record_outcome(
            attempt, dict.fromkeys(attempt.recipients, _UNROUTABLE[self.hop.name]), takes_over_reports=False
        )


class MailboxQueue(HopQueue):
    """The queue for recipients with mailboxes hosted here."""

    async def deliver(self, attempt: DeliveryAttempt) -> None:
        """Deliver into one mailbox after another, waiting for each, and record the replies.

        The hop's only address is that of the mailbox store.
        """
        content = self.host.messages.content(attempt.message.id)
        envelope = attempt.message.envelope
        replies = {
            recipient: await self.host.store.deliver(self.hop.addresses[0], envelope, recipient, content)
            for recipient in attempt.recipients
        }
        await self.record_outcome(attempt, replies, takes_over_reports=False)


class RemoteQueue(HopQueue):
    """The queue for recipients at other servers: a session carries several messages; after a lost one the next server is tried.

    `messages_per_session` is the most that one session carries.
    """

    messages_per_session = MESSAGES_PER_SESSION

    async def deliver(self, attempt: DeliveryAttempt) -> None:
        """Try one server of the next hop after another, until no attempt is left over from a lost session or no server is left.

        The attempt left over may be another one than `attempt`: a session goes on with further attempts of the queue. If no server
        is left, it ends, and its recipients are retried later, except those that were refused for good. If no session could be
        opened with any server, all other attempts in the queue end in the same way.
        """
        reached = False
        for server, address in zip(self.hop.servers, self.hop.addresses, strict=True):
            unfinished, opened = await self._deliver_in_session(server, address, attempt)
            reached = reached or opened
            if unfinished is None:
                return
            attempt = unfinished
        await self.record_outcome(attempt, attempt.refused, takes_over_reports=False)
        while not reached and (other := self.pop()) is not None:
            await self.record_outcome(
                other, other.refused, takes_over_reports=False
            )  # the next hop is unreachable for them too

    async def next_in_session(self) -> DeliveryAttempt | None:
        """Remove and return the next attempt for an open session; None, if there is none or the queue is paused, ends the session."""
        return self.pop()

    async def _deliver_in_session(
        self, server: str, address: Address, first: DeliveryAttempt
    ) -> tuple[DeliveryAttempt | None, bool]:
        """Transmit `first` and then further attempts of the queue in one session, at most `messages_per_session`.

        Each gets its outcome recorded. Return the attempt that was under way when the session was lost (None if each has its
        outcome or is back in the queue), and whether the session could be opened. An attempt goes back to the head of the queue
        if the session may carry no more, or was lost after other messages and before the content of this one was sent: then the
        server cannot have it. `server` and `address` are one of the servers of the hop. Raises nothing if the session is lost.
        """
        outbound = self.host.outbound
        dialogue = outbound.new_dialogue(self.hop, server, address)
        attempt: DeliveryAttempt | None = first
        opened = False
        transmissions = 0
        try:
            await dialogue.open()
            opened = True
            await outbound.begin_session(self.hop, server, dialogue)
            for _ in range(self.messages_per_session):
                if attempt is None:
                    break
                replies = await outbound.transmit(attempt, server, dialogue)
                transmissions += 1
                transmitted, attempt = attempt, None
                replies |= transmitted.refused
                await self.record_outcome(transmitted, replies, takes_over_reports="DSN" in dialogue.keywords)
                if dialogue.server_ends_session:  # the next message needs another session
                    return None, opened
                attempt = await self.next_in_session()
            if attempt is not None:  # more messages than one session may carry
                self.waiting.appendleft(attempt)
                attempt = None
            await outbound.end_session(self.hop, server, dialogue)
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.info("next hop %s: %s", server, lost)
            if attempt is not None:
                attempt.refused.update(lost.refused)
            if attempt is not None and transmissions and not dialogue.outcome_unknown:
                # a server may end a session between messages: a new session begins with this one
                self.waiting.appendleft(attempt)
                attempt = None
            await dialogue.leave(lost)
        finally:
            dialogue.abort()
        return attempt, opened


def create_hop_queue(host: Host, hop: NextHop, record_outcome: RecordOutcome) -> HopQueue:
    """Return an empty queue for a next hop, of the class for its kind: nowhere, the mailbox store of this server, or another server.

    `record_outcome` is called at the end of each attempt.
    """
    match hop.kind:
        case "nowhere":
            return NowhereQueue(host, hop, record_outcome)
        case "mailbox":
            return MailboxQueue(host, hop, record_outcome)
        case _:
            return RemoteQueue(host, hop, record_outcome)
