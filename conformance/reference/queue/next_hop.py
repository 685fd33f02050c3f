"""One delivery queue: the messages that wait for one next hop, and the sessions that bring them there."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from conformance.reference.config import Address
from conformance.reference.host import Host
from conformance.reference.message import Recipient
from conformance.reference.queue.fork import Fork
from conformance.reference.queue.routing import NextHop
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import SessionLost

SESSIONS = 5
"""Sessions with one next hop at the same time."""
MESSAGES_PER_SESSION = 20
"""After so many messages a session ends and another one begins (SmtpMaxMessagesPerConnection)."""

_NOWHERE = {"no such mailbox": Reply(550, "5.1.1", "no such mailbox"), "no route": Reply(550, "5.4.4", "no route")}


Settle = Callable[[Fork, dict[Recipient, Reply], bool], Awaitable[None]]
"""Takes what a next hop said of a fork; a recipient without a reply is to be tried again. The last argument says
whether the next hop reports on its own what becomes of the message (RFC 3461)."""


class HopQueue:
    """Messages for one next hop, first in, first out; workers come with work and leave without."""

    def __init__(self, host: Host, hop: NextHop, settle: Settle) -> None:
        self.host = host
        self.hop = hop
        self.settle = settle
        self.ready: deque[Fork] = deque()
        self.workers: set[asyncio.Task[None]] = set()
        self.paused = False

    def add(self, fork: Fork) -> None:
        """Put a fork at the end."""
        self.ready.append(fork)
        if not self.paused and len(self.workers) < SESSIONS:
            task = self.host.tasks.start(self._worker(), f"{self.host.name}: to {self.hop.name}")
            self.workers.add(task)
            task.add_done_callback(self.workers.discard)

    def next(self) -> Fork | None:
        """Take the first fork out, if there is one and the queue is not paused."""
        return self.ready.popleft() if self.ready and not self.paused else None

    async def _worker(self) -> None:
        while (fork := self.next()) is not None:
            await self.bring(fork)

    async def bring(self, fork: Fork) -> None:
        """Try a fork, and perhaps others of the queue after it."""
        raise NotImplementedError


class NowhereQueue(HopQueue):
    """Recipients that no next hop is known for: they fail at once."""

    async def bring(self, fork: Fork) -> None:
        """Refuse every recipient."""
        await self.settle(fork, dict.fromkeys(fork.recipients, _NOWHERE[self.hop.name]), False)


class MailboxQueue(HopQueue):
    """Mailboxes hosted here."""

    async def bring(self, fork: Fork) -> None:
        """Deliver into one mailbox after the other."""
        content = self.host.messages.content(fork.message.id)
        envelope = fork.message.envelope
        replies = {
            recipient: await self.host.store.deliver(self.hop.dials[0], envelope, recipient, content)
            for recipient in fork.recipients
        }
        await self.settle(fork, replies, False)


class RemoteQueue(HopQueue):
    """Another server: several messages go over one session, and what a broken session held is tried elsewhere."""

    messages_per_session = MESSAGES_PER_SESSION

    async def bring(self, fork: Fork) -> None:
        """Try one address of the next hop after the other, until one takes the fork or none is left."""
        reached = False
        for server, dial in zip(self.hop.servers, self.hop.dials, strict=True):
            left, opened = await self._session(server, dial, fork)
            reached = reached or opened
            if left is None:
                return
            fork = left
        await self.settle(fork, {}, False)
        while not reached and (waiting := self.next()) is not None:
            await self.settle(waiting, {}, False)  # nobody is there: the others need not try in vain

    async def following(self) -> Fork | None:
        """Return what is to be brought in a session after a message, or None: then it ends."""
        return self.next()

    async def _session(self, server: str, dial: Address, first: Fork) -> tuple[Fork | None, bool]:
        """Bring as many forks as there are, beginning with `first`, over one session.

        Returns the fork that the session was lost with, and whether the server answered at all.
        """
        outbound = self.host.outbound
        dialogue = outbound.dialogue(self.hop, server, dial)
        fork: Fork | None = first
        opened = False
        served = 0
        try:
            await dialogue.open()
            opened = True
            await outbound.opened(self.hop, server, dialogue)
            for _ in range(self.messages_per_session):
                if fork is None:
                    break
                replies = await outbound.transmit(fork, server, dialogue)
                served += 1
                done, fork = fork, None
                await self.settle(done, replies, "DSN" in dialogue.keywords)
                fork = await self.following()
            if fork is not None:
                self.ready.appendleft(fork)
                fork = None
            await outbound.closing(self.hop, server, dialogue)
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.info("next hop %s: %s", server, lost)
            if fork is not None and served and not dialogue.in_doubt:
                self.ready.appendleft(fork)  # a session may end after any message: this one begins the next session
                fork = None
        finally:
            dialogue.abort()
        return fork, opened


def queue_for(host: Host, hop: NextHop, settle: Settle) -> HopQueue:
    """Return an empty queue for a next hop."""
    match hop.way:
        case "nowhere":
            return NowhereQueue(host, hop, settle)
        case "mailbox":
            return MailboxQueue(host, hop, settle)
        case _:
            return RemoteQueue(host, hop, settle)
