"""A fork: one of the ways that a bifurcated message goes."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from conformance.reference.config import Address
from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import SessionLost


@dataclass(slots=True, eq=False)
class DeliveryAttempt:
    """A message on its way to one next hop, for some of its recipients; `settled` is done when the try is over."""

    message: Message
    recipients: tuple[Recipient, ...]
    hop: NextHop
    finished: asyncio.Future[None]


SESSIONS = 5
"""Sessions with one next hop at the same time."""
MESSAGES_PER_SESSION = 20
"""After so many messages a session ends and another one begins (SmtpMaxMessagesPerConnection)."""

_NOWHERE = {"no such mailbox": Reply(550, "5.1.1", "no such mailbox"), "no route": Reply(550, "5.4.4", "no route")}


RecordOutcome = Callable[[DeliveryAttempt, dict[Recipient, Reply], bool], Awaitable[None]]
"""Takes what a next hop said of a fork; a recipient without a reply is to be tried again. The last argument says
whether the next hop reports on its own what becomes of the message (RFC 3461)."""


class HopQueue:
    """Messages for one next hop, first in, first out; workers come with work and leave without."""

    def __init__(self, host: Host, hop: NextHop, settle: RecordOutcome) -> None:
        self.host = host
        self.hop = hop
        self.record_outcome = settle
        self.waiting: deque[DeliveryAttempt] = deque()
        self.workers: set[asyncio.Task[None]] = set()
        self.paused = False

    def add(self, attempt: DeliveryAttempt) -> None:
        """Put a fork at the end."""
        self.waiting.append(attempt)
        if not self.paused and len(self.workers) < SESSIONS:
            task = self.host.tasks.start(self._worker(), f"{self.host.name}: to {self.hop.name}")
            self.workers.add(task)
            task.add_done_callback(self.workers.discard)

    def pop(self) -> DeliveryAttempt | None:
        """Take the first fork out, if there is one and the queue is not paused."""
        return self.waiting.popleft() if self.waiting and not self.paused else None

    async def _worker(self) -> None:
        while (attempt := self.pop()) is not None:
            await self.deliver(attempt)

    async def deliver(self, attempt: DeliveryAttempt) -> None:
        """Try a fork, and perhaps others of the queue after it."""
        raise NotImplementedError


class NowhereQueue(HopQueue):
    """Recipients that no next hop is known for: they fail at once."""

    async def deliver(self, attempt: DeliveryAttempt) -> None:
        """Refuse every recipient."""
        await self.record_outcome(attempt, dict.fromkeys(attempt.recipients, _NOWHERE[self.hop.name]), False)


class MailboxQueue(HopQueue):
    """Mailboxes hosted here."""

    async def deliver(self, attempt: DeliveryAttempt) -> None:
        """Deliver into one mailbox after the other."""
        content = self.host.messages.content(attempt.message.id)
        envelope = attempt.message.envelope
        replies = {
            recipient: await self.host.store.deliver(self.hop.addresses[0], envelope, recipient, content)
            for recipient in attempt.recipients
        }
        await self.record_outcome(attempt, replies, False)


class RemoteQueue(HopQueue):
    """Another server: several messages go over one session, and what a broken session held is tried elsewhere."""

    messages_per_session = MESSAGES_PER_SESSION

    async def deliver(self, attempt: DeliveryAttempt) -> None:
        """Try one address of the next hop after the other, until one takes the fork or none is left."""
        reached = False
        for server, dial in zip(self.hop.servers, self.hop.addresses, strict=True):
            left, opened = await self._deliver_in_session(server, dial, attempt)
            reached = reached or opened
            if left is None:
                return
            attempt = left
        await self.record_outcome(attempt, {}, False)
        while not reached and (waiting := self.pop()) is not None:
            await self.record_outcome(waiting, {}, False)  # nobody is there: the others need not try in vain

    async def next_in_session(self) -> DeliveryAttempt | None:
        """Return what is to be brought in a session after a message, or None: then it ends."""
        return self.pop()

    async def _deliver_in_session(
        self, server: str, dial: Address, first: DeliveryAttempt
    ) -> tuple[DeliveryAttempt | None, bool]:
        """Bring as many forks as there are, beginning with `first`, over one session.

        Returns the fork that the session was lost with, and whether the server answered at all.
        """
        outbound = self.host.outbound
        dialogue = outbound.new_dialogue(self.hop, server, dial)
        attempt: DeliveryAttempt | None = first
        opened = False
        served = 0
        try:
            await dialogue.open()
            opened = True
            await outbound.begin_session(self.hop, server, dialogue)
            for _ in range(self.messages_per_session):
                if attempt is None:
                    break
                replies = await outbound.transmit(attempt, server, dialogue)
                served += 1
                done, attempt = attempt, None
                await self.record_outcome(done, replies, "DSN" in dialogue.keywords)
                attempt = await self.next_in_session()
            if attempt is not None:
                self.waiting.appendleft(attempt)
                attempt = None
            await outbound.end_session(self.hop, server, dialogue)
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.info("next hop %s: %s", server, lost)
            if attempt is not None and served and not dialogue.outcome_unknown:
                self.waiting.appendleft(
                    attempt
                )  # a session may end after any message: this one begins the next session
                attempt = None
        finally:
            dialogue.abort()
        return attempt, opened


def queue_for(host: Host, hop: NextHop, settle: RecordOutcome) -> HopQueue:
    """Return an empty queue for a next hop."""
    match hop.kind:
        case "nowhere":
            return NowhereQueue(host, hop, settle)
        case "mailbox":
            return MailboxQueue(host, hop, settle)
        case _:
            return RemoteQueue(host, hop, settle)
