"""Delivery: processing primary messages until every recipient has been reached or reported.

`start_processing` has a shadow made if one is still missing, reports to the journal, and queues one delivery attempt for each
next hop (bifurcation). `record_outcome` stores the outcome for the recipients of an attempt: failures are reported to the sender,
recipients without an outcome are retried after MessageRetryInterval until the message expires. When no recipient is pending and
no report about the message is under way, the message is *processed*. Then `Completion` releases it: its shadow may be discarded,
and it moves to Safety Net, which holds it for a while. `Redirection` drains the queues to another server on an administrator's
command.

A *primary message* is one that this server has acknowledged or made itself and must deliver (`Message.place` is `primary`). Its
*shadow* is a copy that another server keeps. These are components of a node: others call them as `host.delivery`,
`host.completion` and `host.redirection`. Writes do not wait for the disk unless the docstring says so.
"""

import asyncio
import heapq
import itertools
from collections.abc import Iterable

from conformance.reference.boundary import in_boundary
from conformance.reference.host import Component, Host
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt, HopQueue, create_hop_queue
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop

EXPIRED = Reply(550, "5.4.7", "the message expired in the queue")


class Delivery(Component):
    """Processes primary messages: queues attempts, records their outcomes, and schedules retries.

    `_processing` has the row ids of the messages in process, `_redundancy_tasks` by row id the tasks that make their shadows,
    `_attempts` the attempts queued or under way (in order; the values are not used), `_deferred` a heap of (due time in POSIX
    seconds, tie-breaker, message, recipients) to retry, `_queues` the queue for each next hop so far. `_redirect_target` is the
    next hop of a redirection while one is made, `_paused` is True once the node stops.
    """

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
        """Resume, at the start of the node, the processing of all primary messages in the database."""
        for message in self.host.messages.held_as("primary"):
            self.start_processing(message)

    def start_processing(self, message: Message) -> None:
        """Start processing a primary message that is in the queue database, unless it is in process already or the node is stopping.

        If a shadow has still to be made (`redundancy_pending`), its making and the delivery begin in a task, since they wait for
        the disk; otherwise the delivery begins at once.
        """
        if message.id in self._processing or self._paused:
            return
        self._processing.add(message.id)
        if message.redundancy_pending:
            self.host.tasks.start(self._start_redundancy(message), f"{self.host.name}: prepare {message.message_id}")
        else:
            self._begin_delivery(message)

    def stop_processing(self, row_id: int) -> None:
        """Forget a message that has been processed, and cancel the making of its shadow, if under way (SR-BND-04).

        Does nothing for a message that is not in process.
        """
        self._processing.discard(row_id)
        if (making_shadow := self._redundancy_tasks.pop(row_id, None)) is not None:
            making_shadow.cancel()

    async def _start_redundancy(self, message: Message) -> None:
        """Wait until a message is on disk, then start to make its shadow in the background, and its delivery at the same time."""
        await self.host.db.commit()
        making_shadow = self._make_redundant(message, self.host.messages.content(message.id))
        self._redundancy_tasks[message.id] = self.host.tasks.start(
            making_shadow, f"{self.host.name}: shadow of {message.message_id}"
        )
        self._begin_delivery(message)

    async def _make_redundant(self, message: Message, content: bytes) -> None:
        """Try to have a shadow of a message made, and wait for that, without limit; the coroutine of a task in `_redundancy_tasks`.

        At the end, also when cancelled, remove that task from `_redundancy_tasks`.
        """
        try:
            await self.host.redundancy.try_to_make_redundant(message, content)
        finally:
            self._redundancy_tasks.pop(message.id, None)

    def _begin_delivery(self, message: Message) -> None:
        """Send the journal report if due, and queue attempts for the pending recipients; if there are none, release the message.

        It is released only if no report about it is under way, else after the last report.
        A shadow that is still to be made is made at the same time: delivery does not wait for it (ruling 24).
        """
        self.host.journaling.send_report_if_due(message)
        if pending := self.host.messages.pending_recipients(message.id):
            self._queue_attempts(message, pending)
        else:
            self.host.completion.release_if_processed(message.id)

    def _queue_attempts(self, message: Message, recipients: Iterable[Recipient]) -> None:
        """Queue one attempt for each next hop of the recipients; during a redirection (`_redirect_target`) one for its target only.

        An attempt is in `_attempts` until its outcome is recorded or it is withdrawn for a redirection.
        """
        redirected = {self._redirect_target: list(recipients)} if self._redirect_target is not None else None
        for hop, group in (redirected or self.host.routing.group_by_next_hop(recipients)).items():
            attempt = DeliveryAttempt(
                message, recipients=tuple(group), hop=hop, finished=asyncio.get_running_loop().create_future()
            )
            self._attempts[attempt] = None
            self._queue_for(hop).add(attempt)

    def _queue_for(self, hop: NextHop) -> HopQueue:
        """Return the queue for a next hop, made if there is none; one that is made while the node stops is paused."""
        if hop not in self._queues:
            self._queues[hop] = self.create_queue(hop)
            self._queues[hop].paused = self._paused
        return self._queues[hop]

    def create_queue(self, hop: NextHop) -> HopQueue:
        """Return a new queue for a next hop, whose attempts end in `record_outcome`."""
        return create_hop_queue(self.host, hop, self.record_outcome)

    async def record_outcome(
        self, attempt: DeliveryAttempt, replies: dict[Recipient, Reply], *, takes_over_reports: bool
    ) -> None:
        """Record the replies of the next hop to an attempt, by recipient, and return once they are on disk; the queue calls this.

        Recipients with 2yz are done and those with 5yz have failed; the sender gets delivery status notifications about them. The
        others, with another reply or none, are deferred or, if the message has expired, fail (`_defer`). If nothing is left to
        do, the message is released. `attempt.finished` is done when this returns. `takes_over_reports`: the next hop takes over
        delivery status notifications (RFC 3461).
        """
        host, message = self.host, attempt.message
        fate = attempt.hop.fate_when_accepted(takes_over_reports=takes_over_reports)
        accepted = [r for r in attempt.recipients if (reply := replies.get(r)) is not None and reply.positive]
        refused = [(r, reply) for r in attempt.recipients if (reply := replies.get(r)) is not None and reply.permanent]
        host.messages.set_fate(message.id, accepted, fate, crossed=attempt.hop.crosses_boundary)
        host.messages.set_fate(message.id, [r for r, _ in refused], "failed")
        for recipient in attempt.recipients:
            host.log.info("%s to <%s>: %s", message.message_id, recipient.address, replies.get(recipient))
        if refused:
            host.reports.report_failed(message, refused, attempt.hop)
        if accepted:
            host.reports.report_succeeded(message, accepted, fate, attempt.hop)
        final = {*accepted, *(r for r, _ in refused)}
        if unfinished := tuple(r for r in attempt.recipients if r not in final):
            self._defer(message, unfinished, attempt.hop)
        host.completion.release_if_processed(message.id)
        await host.db.commit()
        del self._attempts[attempt]
        attempt.finished.set_result(None)

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Schedule a retry for recipients after MessageRetryInterval, or report them if the message has expired (SR-MNT-14).

        The retry is at the expiry if that comes first. A delay is reported to a sender who asked for that. `hop` is the next hop
        that has been tried. During a redirection to another server than `hop`, none of this is done: the recipients are tried at
        that server at once.
        """
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
        """Queue attempts for the deferred recipients whose retry is due, and set the alarm for the next; the alarm calls this."""
        while self._deferred and self.host.is_due(self._deferred[0][0]):
            _, _, message, recipients = heapq.heappop(self._deferred)
            self._queue_attempts(message, recipients)
        if self._deferred:
            self._alarm.set(self._deferred[0][0])

    async def redirect_all(self, target: NextHop) -> None:
        """Try each queued message at the server `target` instead of its next hops, and wait, without limit, until all were tried.

        For each message that is once. Attempts that are being transmitted are left to finish; those that still wait in a queue,
        what waits for a retry, and what a finished attempt leaves to be retried, are replaced with attempts at `target`. What the
        target refuses for good has failed; what else it does not accept is routed as usual at the next retry, or tried there
        again if the redirection still lasts then. Messages that arrive meanwhile are also sent to the target, but not waited for.
        """
        self._redirect_target = target
        try:
            to_redirect = [(message, recipients) for _, _, message, recipients in sorted(self._deferred)]
            self._deferred.clear()
            self._alarm.cancel()
            for queue in tuple(self._queues.values()):
                while queue.waiting:
                    attempt = queue.waiting.popleft()
                    del self._attempts[attempt]
                    attempt.finished.cancel()
                    to_redirect.append((attempt.message, attempt.recipients))
            for message, recipients in to_redirect:
                self._queue_attempts(message, recipients)
            message_ids = set(self._processing)  # a message that arrives later is not waited for
            while unfinished := [attempt.finished for attempt in self._attempts if attempt.message.id in message_ids]:
                await asyncio.wait(unfinished)
        finally:
            self._redirect_target = None

    async def stop(self, grace: float) -> None:
        """Start nothing new, and wait until the attempts under way have finished, at most `grace` real seconds; the node is stopping."""
        self._paused = True
        self._alarm.cancel()
        workers: set[asyncio.Task[None]] = set()
        for queue in self._queues.values():
            queue.paused = True
            workers |= queue.workers
        if workers:
            await asyncio.wait(workers, timeout=grace)


class Completion(Component):
    """Releases a message when all its recipients, and all reports that it caused, are processed (SR-MNT-07, SR-MNT-08)."""

    def release_if_processed(self, row_id: int) -> None:
        """Release a primary message if it is processed; then do the same for the message that it is a report about (`cause`).

        Called after each attempt, and for a message that begins without pending recipients. Does nothing if the row
        (`Message.id`) is deleted, is no primary message any more, or is not processed.
        """
        message = self.host.messages.get(row_id)
        if message is None or message.place != "primary" or not self.is_processed(message):
            return
        self.release(message)
        self.host.delivery.stop_processing(row_id)
        self.host.log.info("%s processed", message.message_id)
        if message.cause is not None:
            self.release_if_processed(message.cause)

    def is_processed(self, message: Message) -> bool:
        """Return whether no recipient is pending, and every report about the message has been processed (SR-MNT-07, SR-MNT-08)."""
        return not self.host.messages.pending_recipients(message.id) and not self.host.messages.has_unprocessed_reports(
            message.id
        )

    def release(self, message: Message) -> None:
        """Queue the discard notifications of a processed message, and move it to Safety Net (SR-MNT-01, SR-SFN-01).

        A discard notification lets a server that holds the message's shadow give it up.
        """
        self.host.discard_status.queue_notifications(message)
        self.host.safety_net.hold(message.id, "safety-net")


class CommandRefused(ValueError):
    """An administrator's command that cannot be done; the text says why."""


class Redirection(Component):
    """Redirect-Message: drains the queues to another server, which has shadows made before it acknowledges (SR-CRE-10).

    `_one_at_a_time` is held by the redirection that is under way.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._one_at_a_time = asyncio.Lock()

    async def redirect(self, target: str) -> dict[str, int]:
        """Drain the delivery queues to a server, and return how many messages were redirected and how many kept.

        `kept` counts the primary messages at the end, also those that came meanwhile; they are routed as usual again. `redirected`
        counts those of the beginning that are primary messages no more: processed at the target or otherwise. Waits, without
        limit, for an earlier redirection, and until each message has been tried at the target. Raises CommandRefused if `target`
        is not the name of another server of this boundary with a transport listener.
        """
        peer = self.host.config.peers_by_name.get(target.casefold())
        if peer is None or not in_boundary(self.host.config, peer) or peer.dial.transport is None:
            raise CommandRefused(f"redirect-messages: {target!r} is not a server of this boundary")
        hop = NextHop(kind="redirection", name=peer.name, addresses=(peer.dial.transport,), servers=(peer.name,))
        async with self._one_at_a_time:
            before = {message.id for message in self.host.messages.held_as("primary")}
            await self.host.delivery.redirect_all(hop)
        kept = {message.id for message in self.host.messages.held_as("primary")}
        redirected = len(before - kept)
        self.host.log.warning("redirected to %s: %d messages, %d kept", peer.name, redirected, len(kept))
        return {"redirected": redirected, "kept": len(kept)}
