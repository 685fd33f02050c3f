"""Duplicate detection: a message is delivered to a mailbox once within the tracking window (SR-DUP-01 to SR-DUP-07).

The Internet message id is the Message-ID header field without its brackets, compared octet for octet; the client submit time is
the instant in the Date header field. A message without one of them is never a duplicate. The *delivered-to table* is a table of
the queue database with the deliveries so far (storage/delivered.py). The delivery into mailboxes (queue/mailbox_store.py) calls
`host.duplicates`: `claim_delivery` before a delivery, `end_delivery` after it.
"""

import asyncio
from typing import NamedTuple

from conformance.reference.config import NodeConfiguration
from conformance.reference.headers import client_submit_time, internet_message_id
from conformance.reference.host import Component, Host

MAX_WINDOW = 49 * 86400.0
FALLBACK_WINDOW = 86400.0
"""A DuplicateTrackingWindow above MAX_WINDOW is ignored, and FALLBACK_WINDOW used instead (SR-DUP-04); seconds."""


class DuplicateKey(NamedTuple):
    """What duplicates have in common: mailbox (in lower case), Internet message id, client submit time (POSIX seconds)."""

    mailbox: str
    internet_id: str
    submitted: float


class DuplicateDetection(Component):
    """Recognises duplicates by the delivered-to table and by the deliveries in progress.

    `_in_progress` has a future for each key that is being delivered; it is done when that delivery has ended.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._in_progress: dict[DuplicateKey, asyncio.Future[None]] = {}
        self._alarm = host.alarms.new(self.clean_up)

    def start(self) -> None:
        """Schedule a clean-up of the delivered-to table after DuplicateCleanupInterval, if it has entries; the node calls this once."""
        self._set_alarm()

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Apply DuplicateCleanupInterval after a reload, changed or not: the next clean-up is that long after the reload."""
        self._alarm.cancel()
        self._set_alarm()

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the duplicate key of a message for a mailbox, or None if it can never be a duplicate."""
        internet_id, submitted = internet_message_id(content), client_submit_time(content)
        if internet_id is None or submitted is None:
            return None
        return DuplicateKey(mailbox.casefold(), internet_id, submitted)

    async def claim_delivery(self, key: DuplicateKey) -> bool:
        """Return whether the caller is to deliver the message with this key; if so, it must call `end_delivery` afterwards.

        False: it was delivered to the mailbox before, within the tracking window; then `end_delivery` must not be called. Waits,
        without limit, while another caller is delivering a message with the same key, and then decides by the outcome of that.
        """
        while (other := self._in_progress.get(key)) is not None:
            await asyncio.wait([other])
        if self.was_delivered(key):
            return False
        self._in_progress[key] = asyncio.get_running_loop().create_future()
        return True

    def end_delivery(self, key: DuplicateKey, *, delivered: bool) -> None:
        """End the delivery that `claim_delivery` permitted: record it in the delivered-to table if it succeeded (`delivered`).

        Callers that wait for it in `claim_delivery` go on; after a failure the first of them delivers. Does not wait until the
        record is on disk.
        """
        if delivered:
            self.host.delivered.add(*key, self.host.now())
            self._set_alarm()
        self._in_progress.pop(key).set_result(None)

    def was_delivered(self, key: DuplicateKey) -> bool:
        """Return whether a message with this key was delivered within the tracking window before now."""
        delivered_at = self.host.delivered.delivered_at(*key)
        return delivered_at is not None and self.host.now() < delivered_at + self.tracking_window

    @property
    def tracking_window(self) -> float:
        """The tracking window in force, real seconds: DuplicateTrackingWindow, or FALLBACK_WINDOW if that exceeds MAX_WINDOW (SR-DUP-04).

        The configured window is already divided by `scale`; the two constants, a day and 49 days, are not.
        """
        window = self.host.transport.DuplicateTrackingWindow
        scale = self.host.config.scale
        return FALLBACK_WINDOW / scale if window > MAX_WINDOW / scale else window

    def clean_up(self) -> None:
        """Remove expired entries from the delivered-to table (SR-DUP-07), and schedule the next clean-up if any entries are left.

        An entry is expired if its delivery is at least the tracking window ago. The alarm calls this.
        """
        removed = self.host.delivered.remove_until(self.host.now() - self.tracking_window)
        self.host.log.info("delivered-to table: %d expired entries removed", removed)
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Schedule a clean-up after DuplicateCleanupInterval, unless one is scheduled or the table is empty."""
        if self._alarm.due is None and self.host.delivered.has_any():
            self._alarm.set(self.host.now() + self.host.transport.DuplicateCleanupInterval)
