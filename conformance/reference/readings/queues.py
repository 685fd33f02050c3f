"""Other conforming readings of how messages are handed to next hops, and of the ids that they get.

A reading is a way to understand the documents that differs from the reference's own and conforms as well. A node that runs as
`reference+NAME` follows it: the methods of the class come before those of the component in its `slots`. No check of the harness may fail
it. `self.host` has the other components of the node (host.py).

`Delivery` has one queue for each next hop. A delivery attempt is one attempt to send a message to the recipients that one next
hop has; a session with a server carries one attempt after another.
"""

import asyncio
from collections.abc import Iterable

from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt, HopQueue, RecordOutcome, RemoteQueue
from conformance.reference.readings.reading import reading
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.storage.identity import Identity


@reading("one-transmission-for-each-recipient", allowed_by="ruling 26", slots=("delivery",))
class OneTransmissionForEachRecipient(Delivery):
    """Hands a message to a next hop outside once for each of its recipients there."""

    def _queue_attempts(self, message: Message, recipients: Iterable[Recipient]) -> None:
        """Queue one delivery attempt for each recipient whose next hop is outside the organisation, and one for each other next hop.

        Recipients in other sites still share a copy (SR-BIF-03).
        """
        together: list[Recipient] = []  # those whose next hop is in the organisation
        for recipient in recipients:
            if self.host.routing.next_hop(recipient.address).kind == "outside":
                super()._queue_attempts(message, [recipient])
            else:
                together.append(recipient)
        if together:
            super()._queue_attempts(message, together)


class _SingleMessageQueue(RemoteQueue):
    """A queue that sends one message in each session."""

    messages_per_session = 1


@reading("one-message-in-a-session", allowed_by="ruling 25", slots=("delivery",))
class OneMessageInASession(Delivery):
    """Opens a session with the next hop for each message."""

    def create_queue(self, hop: NextHop) -> HopQueue:
        """Return a new queue for a next hop; if that is another server, its sessions end after one message."""
        queue = super().create_queue(hop)
        return _SingleMessageQueue(self.host, hop, self.record_outcome) if isinstance(queue, RemoteQueue) else queue


IDLE_SESSION_S = 20.0
"""How long a session with a next hop is kept open for the next message."""


class _OpenSessionQueue(RemoteQueue):
    """A queue whose sessions wait IDLE_SESSION_S for the next message, unless the queue is paused."""

    def __init__(self, host: Host, hop: NextHop, record_outcome: RecordOutcome) -> None:
        self._wake_up = asyncio.Event()
        self._waiting_sessions = 0  # sessions in `next_in_session`; `_wake_up` is set when they must look again
        super().__init__(host, hop, record_outcome)

    @property
    def paused(self) -> bool:
        """Whether no new attempt begins, since the node stops; setting it wakes the sessions that wait, which then end if it is true."""
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        """Pause the queue, or go on with it, and wake the sessions that wait for a message."""
        self._paused = paused
        self._wake_up.set()

    def add(self, attempt: DeliveryAttempt) -> None:
        """Queue an attempt, and wake a session that waits for one and has none yet; without such a session do as the reference does.

        The reference opens a new session, unless as many as one next hop may have are open.
        """
        if self._waiting_sessions > len(self.waiting) and not self.paused:
            self.waiting.append(attempt)
            self._wake_up.set()
        else:
            super().add(attempt)

    async def next_in_session(self) -> DeliveryAttempt | None:
        """Remove and return the next attempt for an open session; wait up to IDLE_SESSION_S seconds for it. None ends the session.

        Return None as soon as the queue is paused, since the node stops.
        """
        self._waiting_sessions += 1
        try:
            async with asyncio.timeout(IDLE_SESSION_S):
                while (attempt := self.pop()) is None and not self.paused:
                    self._wake_up.clear()
                    await self._wake_up.wait()
        except TimeoutError:
            return self.pop()
        finally:
            self._waiting_sessions -= 1
        return attempt


@reading("keeps-sessions-with-next-hops", allowed_by="ruling 25", slots=("delivery",))
class KeepsSessionsWithNextHops(Delivery):
    """Keeps a session with a next hop open for a while after a message, and sends the next message in it."""

    def create_queue(self, hop: NextHop) -> HopQueue:
        """Return a new queue for a next hop; if that is another server, its sessions wait for further messages."""
        queue = super().create_queue(hop)
        return _OpenSessionQueue(self.host, hop, self.record_outcome) if type(queue) is RemoteQueue else queue


@reading("longer-shadow-ids", allowed_by="wire-profile.md: 1 to 64 characters", slots=("identity",))
class LongerIds(Identity):
    """Gives out ids of 64 characters."""

    def new_id(self) -> str:
        """Return a new id, for a message or a shadow, filled up with Z to 64 characters."""
        return f"{super().new_id()}-".ljust(64, "Z")
