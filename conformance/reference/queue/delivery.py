"""Delivery: every primary message goes to its next hops, a fork for each, and is tried again until all are
processed."""

import asyncio
import heapq
import itertools
from collections.abc import Iterable

from conformance.reference.boundary import in_boundary
from conformance.reference.host import Component, Host
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt, HopQueue, queue_for
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop

EXPIRED = Reply(550, "5.4.7", "the message expired in the queue")


class Delivery(Component):
    """Takes messages in hand, spreads them over the queues, and settles what became of them."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._processing: set[int] = set()
        self._redundancy_tasks: dict[int, asyncio.Task[None]] = {}
        self._queues: dict[NextHop, HopQueue] = {}
        self._attempts: dict[DeliveryAttempt, None] = {}
        self._deferred: list[tuple[float, int, Message, tuple[Recipient, ...]]] = []
        self._sequence = itertools.count()
        self._alarm = host.alarms.new(self._retry)
        self._redirect_target: NextHop | None = None
        self._paused = False

    def start(self) -> None:
        """Go on with what is in the database."""
        for message in self.host.messages.in_place("primary"):
            self.start_processing(message)

    def start_processing(self, message: Message) -> None:
        """Begin to process a primary message, unless that is being done."""
        if message.id in self._processing or self._paused:
            return
        self._processing.add(message.id)
        if message.redundancy_pending:
            self.host.tasks.start(self._start_redundancy(message), f"{self.host.name}: prepare {message.message_id}")
        else:
            self._begin_delivery(message)

    def stop_processing(self, key: int) -> None:
        """Let go of a message that has been processed: what has left is not made redundant any more (SR-BND-04)."""
        self._processing.discard(key)
        if (effort := self._redundancy_tasks.pop(key, None)) is not None:
            effort.cancel()

    async def _start_redundancy(self, message: Message) -> None:
        """Begin to make a message redundant, and its delivery: no sender waits, and none of the two waits for the other."""
        await self.host.db.commit()
        effort = self._make_redundant(message, self.host.messages.content(message.id))
        self._redundancy_tasks[message.id] = self.host.tasks.start(
            effort, f"{self.host.name}: shadow of {message.message_id}"
        )
        self._begin_delivery(message)

    async def _make_redundant(self, message: Message, content: bytes) -> None:
        try:
            await self.host.redundancy.make_redundant_in_background(message, content)
        finally:
            self._redundancy_tasks.pop(message.id, None)

    def _begin_delivery(self, message: Message) -> None:
        self.host.journaling.send_report_if_due(message)
        if pending := self.host.messages.pending(message.id):
            self._queue_attempts(message, pending)
        else:
            self.host.completion.release_if_processed(message.id)

    def _queue_attempts(self, message: Message, recipients: Iterable[Recipient]) -> None:
        """Queue a fork for each next hop that the recipients need."""
        diverted = {self._redirect_target: list(recipients)} if self._redirect_target is not None else None
        for hop, group in (diverted or self.host.routing.group_by_next_hop(recipients)).items():
            attempt = DeliveryAttempt(message, tuple(group), hop, asyncio.get_running_loop().create_future())
            self._attempts[attempt] = None
            self._queue_to(hop).add(attempt)

    def _queue_to(self, hop: NextHop) -> HopQueue:
        for idle in [known for known, queue in self._queues.items() if not queue.waiting and not queue.workers]:
            del self._queues[idle]
        if hop not in self._queues:
            self._queues[hop] = self.create_queue(hop)
        return self._queues[hop]

    def create_queue(self, hop: NextHop) -> HopQueue:
        """Return an empty queue for a next hop."""
        return queue_for(self.host, hop, self.record_outcome)

    async def record_outcome(self, attempt: DeliveryAttempt, replies: dict[Recipient, Reply], reports: bool) -> None:
        """Note what became of each recipient of a fork, and see what is to be done next; returns when it is on disk."""
        host, message = self.host, attempt.message
        fate = attempt.hop.fate(reports=reports)
        taken = [r for r in attempt.recipients if (reply := replies.get(r)) is not None and reply.positive]
        refused = [(r, reply) for r in attempt.recipients if (reply := replies.get(r)) is not None and reply.permanent]
        host.messages.set_fate(message.id, taken, fate, crossed=attempt.hop.crosses_boundary)
        host.messages.set_fate(message.id, [r for r, _ in refused], "failed")
        for recipient in attempt.recipients:
            said = replies.get(recipient)
            became = fate if recipient in taken else "failed" if said and said.permanent else "deferred"
            host.log.info("%s to <%s> %s: %s", message.message_id, recipient.address, became, said)
        if refused:
            host.reports.report_failed(message, refused, attempt.hop)
        if taken:
            host.reports.report_succeeded(message, taken, fate, attempt.hop)
        done = {*taken, *(r for r, _ in refused)}
        if left := tuple(r for r in attempt.recipients if r not in done):
            self._defer(message, left, attempt.hop)
        host.completion.release_if_processed(message.id)
        await host.db.commit()
        del self._attempts[attempt]
        attempt.finished.set_result(None)

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Have recipients tried again after MessageRetryInterval, until the message expires (SR-MNT-14)."""
        host = self.host
        if self._redirect_target is not None and hop != self._redirect_target:
            self._queue_attempts(message, recipients)
            return
        expires = message.since + host.transport.MessageExpirationTimeout
        if host.is_due(expires):
            host.messages.set_fate(message.id, recipients, "expired")
            host.log.warning("%s expired for %d recipients", message.message_id, len(recipients))
            host.reports.report_failed(message, [(recipient, EXPIRED) for recipient in recipients], hop)
            return
        host.reports.report_delayed(message, recipients)
        due = min(host.now() + host.transport.MessageRetryInterval, expires)
        heapq.heappush(self._deferred, (due, next(self._sequence), message, recipients))
        self._alarm.set(self._deferred[0][0])

    def _retry(self) -> None:
        while self._deferred and self.host.is_due(self._deferred[0][0]):
            _, _, message, recipients = heapq.heappop(self._deferred)
            self._queue_attempts(message, recipients)
        if self._deferred:
            self._alarm.set(self._deferred[0][0])

    async def redirect_all(self, target: NextHop) -> None:
        """Bring all that is queued to one server instead, each message with one try (Redirect-Message).

        What is in the midst of a session is left to end; what the target does not take goes its usual way again.
        """
        self._redirect_target = target
        try:
            waiting = [(message, recipients) for _, _, message, recipients in sorted(self._deferred)]
            self._deferred.clear()
            self._alarm.cancel()
            for queue in tuple(self._queues.values()):
                while queue.waiting:
                    attempt = queue.waiting.popleft()
                    del self._attempts[attempt]
                    attempt.finished.cancel()
                    waiting.append((attempt.message, attempt.recipients))
            for message, recipients in waiting:
                self._queue_attempts(message, recipients)
            concerned = set(self._processing)
            while settling := [attempt.finished for attempt in self._attempts if attempt.message.id in concerned]:
                await asyncio.wait(settling)
        finally:
            self._redirect_target = None

    async def stop(self, grace: float) -> None:
        """Begin nothing new, and return when what is under way has ended, after `grace` seconds at the latest."""
        self._paused = True
        self._alarm.cancel()
        workers: set[asyncio.Task[None]] = set()
        for queue in self._queues.values():
            queue.paused = True
            workers |= queue.workers
        if workers:
            await asyncio.wait(workers, timeout=grace)


class Completion(Component):
    """Releases a message when all its forks, and all reports that it caused, are processed (SR-MNT-07, SR-MNT-08)."""

    def release_if_processed(self, key: int) -> None:
        """Release a message, and then the one that it is a report about, where nothing is left to be done."""
        message = self.host.messages.get(key)
        if message is None or message.place != "primary" or not self.is_processed(message):
            return
        self.release(message)
        self.host.delivery.stop_processing(key)
        self.host.log.info("%s processed", message.message_id)
        if message.cause is not None:
            self.release_if_processed(message.cause)

    def is_processed(self, message: Message) -> bool:
        """Whether every recipient has been reached or reported, and every report processed."""
        return not self.host.messages.pending(message.id) and not self.host.messages.has_unprocessed_reports(message.id)

    def release(self, message: Message) -> None:
        """Offer the discard notification, and move the message to Safety Net (SR-MNT-01, SR-SFN-01)."""
        self.host.discard_status.queue_notifications(message)
        self.host.safety_net.hold(message.id, "safety-net")


class CommandRefused(ValueError):
    """An administrator's command cannot be done. The text says why."""


class Redirection(Component):
    """Hands messages over; each stays redundant, for the target shadows it before it acknowledges (SR-CRE-10)."""

    async def redirect(self, target: str) -> dict[str, int]:
        """Drain the delivery queues to a server, and say how many messages went and stayed.

        Raises CommandRefused when it is no server of the boundary.
        """
        peer = self.host.config.peers_by_name.get(target.casefold())
        if peer is None or not in_boundary(self.host.config, peer) or peer.dial.transport is None:
            raise CommandRefused(f"redirect-messages: {target!r} is no server of this boundary")
        before = sum(1 for _ in self.host.messages.in_place("primary"))
        await self.host.delivery.redirect_all(NextHop("redirection", peer.name, (peer.dial.transport,), (peer.name,)))
        kept = sum(1 for _ in self.host.messages.in_place("primary"))
        self.host.log.warning("redirected to %s: %d messages, %d kept", peer.name, before - kept, kept)
        return {"redirected": before - kept, "kept": kept}
