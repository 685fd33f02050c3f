"""The delivered-to table: deliveries into mailboxes here, by which duplicates are recognised (SR-DUP-01).

Only duplicates.py uses it, and the inspection of queues for its size. A row has the `mailbox` (in lower case), the
`internet_id` of the message (its Message-ID), when a client `submitted` it (its Date), and the time of the delivery (`at`). The
first three identify duplicates. Times are POSIX seconds.
"""

from conformance.reference.storage.database import Database


class Delivered:
    """Statements on the rows of the table. What is written is on disk with the next commit (`Database.commit`)."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def delivered_at(self, mailbox: str, internet_id: str, submitted: float) -> float | None:
        """Return when a message was delivered to a mailbox, or None if that is not recorded."""
        rows = self._db.read(
            "SELECT at FROM delivered_to WHERE mailbox = ? AND internet_id = ? AND submitted = ?",
            (mailbox, internet_id, submitted),
        )
        return rows[0][0] if rows else None

    def add(self, mailbox: str, internet_id: str, submitted: float, at: float) -> None:
        """Record a delivery at `at`, in place of an earlier one of the same message to the same mailbox."""
        self._db.write(
            "INSERT OR REPLACE INTO delivered_to (mailbox, internet_id, submitted, at) VALUES (?, ?, ?, ?)",
            (mailbox, internet_id, submitted, at),
        )

    def remove_until(self, at: float) -> int:
        """Delete the deliveries at `at` or before; return their number."""
        return self._db.write("DELETE FROM delivered_to WHERE at <= ?", (at,)).rowcount

    def has_any(self) -> bool:
        """Return whether any delivery is recorded."""
        return bool(self._db.read("SELECT 1 FROM delivered_to LIMIT 1"))

    def count(self) -> int:
        """Return the number of recorded deliveries."""
        number: int = self._db.read("SELECT COUNT(*) FROM delivered_to")[0][0]
        return number
