"""Duplicate detection: a message is delivered to a mailbox once within the tracking window (SR-DUP-01 to SR-DUP-07).

The Internet message id is the Message-ID header field without its brackets, compared octet for octet; the client submit
time is the Date header field as an instant. A message that has not both is never a duplicate.
"""

import asyncio
from typing import NamedTuple

from conformance.reference.config import NodeConfiguration
from conformance.reference.headers import client_submit_time, internet_message_id
from conformance.reference.host import Component, Host

LONGEST_WINDOW = 49 * 86400.0
FALLBACK_WINDOW = 86400.0
"""A DuplicateTrackingWindow above 49 days is not honoured: 24 hours are used instead (SR-DUP-04), in seconds."""


class DuplicateKey(NamedTuple):
    """What is compared: mailbox (in lower case), Internet message id, client submit time (POSIX seconds)."""

    mailbox: str
    internet_id: str
    submitted: float


class DuplicateDetection(Component):
    """The delivered-to table, and who is delivering what at this moment."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._in_progress: dict[DuplicateKey, asyncio.Future[None]] = {}
        self._alarm = host.alarms.new(self.clean_up)

    def start(self) -> None:
        """Begin the background clean-up of the delivered-to table."""
        self._set_alarm()

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Keep to a changed DuplicateCleanupInterval."""
        self._alarm.cancel()
        self._set_alarm()

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return what a message is told by, or None when it is never a duplicate."""
        internet_id, submitted = internet_message_id(content), client_submit_time(content)
        return (
            None
            if internet_id is None or submitted is None
            else DuplicateKey(mailbox.casefold(), internet_id, submitted)
        )

    async def claim_delivery(self, key: DuplicateKey) -> bool:
        """Return whether the caller is to deliver, and then to tell `ended`; False: it was delivered before.

        The same message on two ways at once: the second waits to see what becomes of the first.
        """
        while (turn := self._in_progress.get(key)) is not None:
            await asyncio.wait([turn])
        if self.was_delivered(key):
            return False
        self._in_progress[key] = asyncio.get_running_loop().create_future()
        return True

    def end_delivery(self, key: DuplicateKey, *, delivered: bool) -> None:
        """Note how a delivery ended; one that failed leaves no mark."""
        if delivered:
            self.host.delivered.add(*key, self.host.now())
            self._set_alarm()
        turn = self._in_progress.pop(key)
        if not turn.done():
            turn.set_result(None)

    def was_delivered(self, key: DuplicateKey) -> bool:
        """Whether such a message was delivered within the tracking window."""
        before = self.host.delivered.delivered_at(*key)
        return before is not None and self.host.now() < before + self.tracking_window

    @property
    def tracking_window(self) -> float:
        """The DuplicateTrackingWindow that is in force, seconds."""
        window = self.host.transport.DuplicateTrackingWindow
        scale = self.host.config.scale
        return FALLBACK_WINDOW / scale if window > LONGEST_WINDOW / scale else window

    def clean_up(self) -> None:
        """Remove expired entries from the delivered-to table (SR-DUP-07)."""
        removed = self.host.delivered.remove_before(self.host.now() - self.tracking_window)
        self.host.log.info("delivered-to table: %d expired entries removed", removed)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if not self._alarm.is_set and self.host.delivered.has_any():
            self._alarm.set(self.host.now() + self.host.transport.DuplicateCleanupInterval)
