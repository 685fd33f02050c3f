"""The delivered-to table: what was delivered into mailboxes here, to tell duplicates (SR-DUP-01)."""

from conformance.reference.storage.database import Database


class Delivered:
    """Rows of mailbox, Internet message id, client submit time, and time of delivery."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def delivered_at(self, mailbox: str, internet_id: str, submitted: float) -> float | None:
        """Return when such a message was delivered to the mailbox, POSIX seconds, or None."""
        rows = self._db.read(
            "SELECT at FROM delivered_to WHERE mailbox = ? AND internet_id = ? AND submitted = ?",
            (mailbox, internet_id, submitted),
        )
        return rows[0][0] if rows else None

    def add(self, mailbox: str, internet_id: str, submitted: float, at: float) -> None:
        """Note a delivery."""
        self._db.write(
            "INSERT OR REPLACE INTO delivered_to (mailbox, internet_id, submitted, at) VALUES (?, ?, ?, ?)",
            (mailbox, internet_id, submitted, at),
        )

    def remove_before(self, at: float) -> int:
        """Delete the rows of deliveries at `at` or before; return how many there were."""
        return self._db.write("DELETE FROM delivered_to WHERE at <= ?", (at,)).rowcount

    def has_any(self) -> bool:
        """Return whether there is a row."""
        return bool(self._db.read("SELECT 1 FROM delivered_to LIMIT 1"))

    def count(self) -> int:
        """Return how many rows there are."""
        number: int = self._db.read("SELECT COUNT(*) FROM delivered_to")[0][0]
        return number
