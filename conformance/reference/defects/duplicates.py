"""Defects in duplicate detection: which messages count as the same, for how long, and what a restart or a move does.

Messages are duplicates if they have the same key: mailbox, Message-ID, and client submit time (the Date field). Within the tracking
window only the first is delivered; the delivered-to table has the keys of what was delivered.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import asyncio

from conformance.reference.config import NodeConfiguration
from conformance.reference.defects.defect import defect
from conformance.reference.duplicates import DuplicateDetection, DuplicateKey
from conformance.reference.headers import internet_message_id
from conformance.reference.host import Host


@defect("never-deduplicates", breaks="SR-DUP-01", slot="duplicates")
class NeverDeduplicates(DuplicateDetection):
    """Delivers every copy."""

    def was_delivered(self, key: DuplicateKey) -> bool:
        """Return False: no message counts as delivered before, so that every copy is delivered."""
        return False


@defect("deduplicates-by-message-id-only", breaks="SR-DUP-02", slot="duplicates")
class ByMessageIdOnly(DuplicateDetection):
    """Takes messages with one Message-ID for duplicates though their client submit times differ."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the key of a message for a mailbox with the submit time 0 for all messages; None if it can never be a duplicate."""
        key = super().key_of(mailbox, content)
        return None if key is None else key._replace(submitted=0.0)


@defect("deduplicates-by-submit-time-only", breaks="SR-DUP-02", slot="duplicates")
class BySubmitTimeOnly(DuplicateDetection):
    """Takes messages with one client submit time for duplicates though their Message-IDs differ."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the key of a message for a mailbox with the same Message-ID for all messages; None if it can never be a duplicate."""
        key = super().key_of(mailbox, content)
        return None if key is None else key._replace(internet_id="any")


@defect(
    "needs-no-submit-time",
    breaks="SR-DUP-02",
    slot="duplicates",
    needs_expectation="messages with one Message-ID, one content and no Date look like one message that was sent twice",
)
class NeedsNoSubmitTime(DuplicateDetection):
    """Takes messages with one Message-ID for duplicates though they have no client submit time."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return a key also for a message without a client submit time, with the time 0; None if it has no Message-ID."""
        internet_id = internet_message_id(content)
        key = super().key_of(mailbox, content)
        return DuplicateKey(mailbox.casefold(), internet_id, 0.0) if key is None and internet_id is not None else key


@defect("deduplicates-across-mailboxes", breaks="SR-DUP-05", slot="duplicates")
class AcrossMailboxes(DuplicateDetection):
    """Delivers a message to one mailbox of a server and drops it for the others."""

    def key_of(self, mailbox: str, content: bytes) -> DuplicateKey | None:
        """Return the key of a message as if all mailboxes were one; None if it can never be a duplicate."""
        return super().key_of("any", content)


@defect("deduplicates-for-ever", breaks="SR-DUP-03", slot="duplicates")
class ForEver(DuplicateDetection):
    """Drops duplicates long after the tracking window."""

    @property
    def tracking_window(self) -> float:
        """Return, for the time within which duplicates are dropped, a hundred years, in seconds."""
        return 36_525 * 86400.0


@defect("deduplicates-for-half-the-window", breaks="SR-DUP-03", slot="duplicates")
class ForHalfTheWindow(DuplicateDetection):
    """Forgets a delivery after half of the tracking window."""

    @property
    def tracking_window(self) -> float:
        """Return half of the correct time within which duplicates are dropped, in seconds."""
        return super().tracking_window / 2


@defect("honours-any-window", breaks="SR-DUP-04", slot="duplicates")
class HonoursAnyWindow(DuplicateDetection):
    """Honours a tracking window of more than 49 days."""

    @property
    def tracking_window(self) -> float:
        """Return DuplicateTrackingWindow in seconds, without the limit of 49 days."""
        return self.host.transport.DuplicateTrackingWindow


@defect("takes-all-for-duplicates-after-a-move", breaks="SR-DUP-06", slot="duplicates")
class AllDuplicatesAfterAMove(DuplicateDetection):
    """Takes everything for a duplicate that comes for a mailbox which moved here without its history."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.moved: set[str] = set()  # mailboxes, in lower case

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Apply a reload, and remember in `moved` the mailboxes whose server is another one than before it, as after a failover."""
        super().reconfigured(before)
        self.moved |= {
            address
            for address, mailbox in self.host.config.mailboxes_by_address.items()
            if (old := before.mailboxes_by_address.get(address)) is not None and old.server != mailbox.server
        }

    def was_delivered(self, key: DuplicateKey) -> bool:
        """Return whether the mailbox was moved, or the message was delivered to it before; True drops the message."""
        return key.mailbox in self.moved or super().was_delivered(key)


@defect(
    "leaves-a-waiting-duplicate",
    breaks="SR-DUP-01",
    slot="duplicates",
    needs_expectation="no document says when the second is dropped, only that it is",
)
class LeavesAWaitingDuplicate(DuplicateDetection):
    """Lets a duplicate that came amid the delivery of the first wait for ever, and so never drops it."""

    def end_delivery(self, key: DuplicateKey, *, delivered: bool) -> None:
        """End a delivery without waking the callers that wait for its outcome: they wait for ever. Correct is to wake them."""
        self._in_progress[key] = asyncio.get_running_loop().create_future()
        super().end_delivery(key, delivered=delivered)


@defect("puts-off-its-clean-up", breaks="SR-DUP-07", slot="duplicates")
class PutsOffItsCleanUp(DuplicateDetection):
    """Counts DuplicateCleanupInterval anew from each delivery, and cleans up only where deliveries are that far apart."""

    def end_delivery(self, key: DuplicateKey, *, delivered: bool) -> None:
        """End a delivery, and schedule the clean-up anew, an interval from now; correct is to leave a scheduled one as it is.

        After a failed delivery (`delivered` false) no clean-up is scheduled.
        """
        self._alarm.cancel()
        super().end_delivery(key, delivered=delivered)


@defect("never-cleans-up", breaks="SR-DUP-07", slot="duplicates")
class NeverCleansUp(DuplicateDetection):
    """Keeps expired entries in the delivered-to table for ever."""

    def clean_up(self) -> None:
        """Do nothing: all entries of the delivered-to table stay, expired ones too, and no other clean-up is scheduled."""


@defect("forgets-deliveries-on-restart", breaks="SR-OUT-03", slot="duplicates")
class ForgetsDeliveriesOnRestart(DuplicateDetection):
    """Clears its delivered-to table when it starts."""

    def start(self) -> None:
        """Delete all entries of the delivered-to table at the start of the node; correct is to delete none."""
        self.host.delivered.remove_until(self.host.now() + 1)  # all: none is later than now
        super().start()
