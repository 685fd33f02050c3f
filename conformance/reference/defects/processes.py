"""Defects of several processes on one queue: no lock at all, and a lock that outlasts the process that holds it.

The queue is a database file in the data directory of a node. A delivery attempt is one attempt to send a message to one next hop.
`record_outcome` gets the hop's replies to it by recipient, and whether the hop takes over delivery status notifications.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from conformance.reference.defects.defect import defect
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.replies import Reply
from conformance.reference.storage.database import Database, DatabaseError


@defect("runs-twice-on-one-queue", breaks="RL-SHQ-01", slot="database")
class RunsTwiceOnOneQueue(Database):
    """Does not lock its queue database, so that a second process delivers what the first has in hand."""

    def open(self) -> None:
        """Open the database file; if that fails, as when another process has it open, copy it and open the copy (`_path` from now on).

        Correct is to raise DatabaseError. Raises it only if the copy cannot be used either.
        """
        try:
            super().open()
        except DatabaseError:
            other = self._path.with_name("queue-of-another.db")
            for suffix in ("", "-wal"):
                written = Path(f"{self._path}{suffix}")
                if written.exists():
                    shutil.copyfile(written, f"{other}{suffix}")
            self._path = other
            super().open()


@defect("keeps-the-locks-of-the-dead", breaks="RL-SHQ-02", slot="delivery")
class KeepsTheLocksOfTheDead(Delivery):
    """Marks a message as locked while it is passed on, and leaves locked what it finds so when it starts."""

    def _lock(self, message: Message) -> Path:
        """Return the path of a message's lock file, in the data directory; the message is locked while it exists."""
        return Path(self.host.config.data_dir, f"lock-{message.id}")

    def start_processing(self, message: Message) -> None:
        """Start processing a message, unless it is locked; correct is to process it in any case."""
        if not self._lock(message).exists():
            super().start_processing(message)

    def _queue_attempts(self, message: Message, recipients: Iterable[Recipient]) -> None:
        """Make the lock file of a message, then queue delivery attempts for these recipients as is correct."""
        self._lock(message).touch()
        super()._queue_attempts(message, recipients)

    async def record_outcome(
        self, attempt: DeliveryAttempt, replies: dict[Recipient, Reply], *, takes_over_reports: bool
    ) -> None:
        """Delete the lock file of the message of an attempt, if there is one, then record the outcome as is correct."""
        self._lock(attempt.message).unlink(missing_ok=True)
        await super().record_outcome(attempt, replies, takes_over_reports=takes_over_reports)
