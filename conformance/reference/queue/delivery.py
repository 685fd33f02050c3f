"""Delivery: every primary message goes to its next hops, a fork for each, and is tried again until all are
processed."""

import asyncio
import heapq
import itertools
from collections.abc import Iterable

from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient
from conformance.reference.part import Part
from conformance.reference.queue.fork import Fork
from conformance.reference.queue.next_hop import HopQueue, queue_for
from conformance.reference.queue.routing import NextHop
from conformance.reference.replies import Reply

EXPIRED = Reply(550, "5.4.7", "the message expired in the queue")


class Delivery(Part):
    """Takes messages in hand, spreads them over the queues, and settles what became of them."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._in_hand: set[int] = set()
        self._efforts: dict[int, asyncio.Task[None]] = {}
        self._queues: dict[NextHop, HopQueue] = {}
        self._active: dict[Fork, None] = {}
        self._deferred: list[tuple[float, int, Message, tuple[Recipient, ...]]] = []
        self._numbers = itertools.count()
        self._alarm = host.alarms.new(self._retry)
        self._diversion: NextHop | None = None
        self._paused = False

    def start(self) -> None:
        """Go on with what is in the database."""
        for message in self.host.messages.in_place("primary"):
            self.take(message)

    def take(self, message: Message) -> None:
        """Begin to process a primary message, unless that is being done."""
        if message.id in self._in_hand or self._paused:
            return
        self._in_hand.add(message.id)
        if message.redundancy_pending:
            self.host.tasks.start(self._prepare(message), f"{self.host.name}: prepare {message.message_id}")
        else:
            self._begin(message)

    def forget(self, key: int) -> None:
        """Let go of a message that has been processed: what has left is not made redundant any more (SR-BND-04)."""
        self._in_hand.discard(key)
        if (effort := self._efforts.pop(key, None)) is not None:
            effort.cancel()

    async def _prepare(self, message: Message) -> None:
        """Begin to make a message redundant, and its delivery: no sender waits, and none of the two waits for the other."""
        await self.host.db.durable()
        effort = self._make_redundant(message, self.host.messages.content(message.id))
        self._efforts[message.id] = self.host.tasks.start(effort, f"{self.host.name}: shadow of {message.message_id}")
        self._begin(message)

    async def _make_redundant(self, message: Message, content: bytes) -> None:
        try:
            await self.host.redundancy.afresh(message, content)
        finally:
            self._efforts.pop(message.id, None)

    def _begin(self, message: Message) -> None:
        self.host.journaling.report(message)
        if pending := self.host.messages.pending(message.id):
            self._spread(message, pending)
        else:
            self.host.completion.check(message.id)

    def _spread(self, message: Message, recipients: Iterable[Recipient]) -> None:
        """Queue a fork for each next hop that the recipients need."""
        diverted = {self._diversion: list(recipients)} if self._diversion is not None else None
        for hop, group in (diverted or self.host.routing.forks(recipients)).items():
            fork = Fork(message, tuple(group), hop, asyncio.get_running_loop().create_future())
            self._active[fork] = None
            self._queue(hop).add(fork)

    def _queue(self, hop: NextHop) -> HopQueue:
        for idle in [known for known, queue in self._queues.items() if not queue.ready and not queue.workers]:
            del self._queues[idle]
        if hop not in self._queues:
            self._queues[hop] = self.queue_for(hop)
        return self._queues[hop]

    def queue_for(self, hop: NextHop) -> HopQueue:
        """Return an empty queue for a next hop."""
        return queue_for(self.host, hop, self.settle)

    async def settle(self, fork: Fork, replies: dict[Recipient, Reply], reports: bool) -> None:
        """Note what became of each recipient of a fork, and see what is to be done next; returns when it is on disk."""
        host, message = self.host, fork.message
        fate = fork.hop.fate(reports=reports)
        taken = [r for r in fork.recipients if (reply := replies.get(r)) is not None and reply.positive]
        refused = [(r, reply) for r in fork.recipients if (reply := replies.get(r)) is not None and reply.permanent]
        host.messages.set_fate(message.id, taken, fate, crossed=fork.hop.crosses)
        host.messages.set_fate(message.id, [r for r, _ in refused], "failed")
        for recipient in fork.recipients:
            said = replies.get(recipient)
            became = fate if recipient in taken else "failed" if said and said.permanent else "deferred"
            host.log.info("%s to <%s> %s: %s", message.message_id, recipient.address, became, said)
        if refused:
            host.reports.failed(message, refused, fork.hop)
        if taken:
            host.reports.succeeded(message, taken, fate, fork.hop)
        done = {*taken, *(r for r, _ in refused)}
        if left := tuple(r for r in fork.recipients if r not in done):
            self._defer(message, left, fork.hop)
        host.completion.check(message.id)
        await host.db.durable()
        del self._active[fork]
        fork.settled.set_result(None)

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Have recipients tried again after MessageRetryInterval, until the message expires (SR-MNT-14)."""
        host = self.host
        if self._diversion is not None and hop != self._diversion:
            self._spread(message, recipients)
            return
        expires = message.since + host.transport.MessageExpirationTimeout
        if host.reached(expires):
            host.messages.set_fate(message.id, recipients, "expired")
            host.log.warning("%s expired for %d recipients", message.message_id, len(recipients))
            host.reports.failed(message, [(recipient, EXPIRED) for recipient in recipients], hop)
            return
        host.reports.delayed(message, recipients)
        due = min(host.now() + host.transport.MessageRetryInterval, expires)
        heapq.heappush(self._deferred, (due, next(self._numbers), message, recipients))
        self._alarm.set(self._deferred[0][0])

    def _retry(self) -> None:
        while self._deferred and self.host.reached(self._deferred[0][0]):
            _, _, message, recipients = heapq.heappop(self._deferred)
            self._spread(message, recipients)
        if self._deferred:
            self._alarm.set(self._deferred[0][0])

    async def divert(self, target: NextHop) -> None:
        """Bring all that is queued to one server instead, each message with one try (Redirect-Message).

        What is in the midst of a session is left to end; what the target does not take goes its usual way again.
        """
        self._diversion = target
        try:
            waiting = [(message, recipients) for _, _, message, recipients in sorted(self._deferred)]
            self._deferred.clear()
            self._alarm.cancel()
            for queue in tuple(self._queues.values()):
                while queue.ready:
                    fork = queue.ready.popleft()
                    del self._active[fork]
                    fork.settled.cancel()
                    waiting.append((fork.message, fork.recipients))
            for message, recipients in waiting:
                self._spread(message, recipients)
            concerned = set(self._in_hand)
            while settling := [fork.settled for fork in self._active if fork.message.id in concerned]:
                await asyncio.wait(settling)
        finally:
            self._diversion = None

    async def finish(self, grace: float) -> None:
        """Begin nothing new, and return when what is under way has ended, after `grace` seconds at the latest."""
        self._paused = True
        self._alarm.cancel()
        workers: set[asyncio.Task[None]] = set()
        for queue in self._queues.values():
            queue.paused = True
            workers |= queue.workers
        if workers:
            await asyncio.wait(workers, timeout=grace)
