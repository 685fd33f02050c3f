"""Who may hold a shadow of our messages, and the discard notifications queued for them, on disk (SR-MNT-05)."""

from dataclasses import dataclass

from conformance.reference.storage.database import Database


@dataclass(frozen=True, slots=True)
class DiscardEvent:
    """A queued discard notification: its row, for whom, for which shadow, and since when (POSIX seconds)."""

    id: int
    server: str
    shadow_id: str
    queued: float


class Discards:
    """The primary's side of what shadow servers hold."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add_holder(self, message: int, server: str, *, acknowledged: bool) -> None:
        """Note that a server holds (or, its reply lost, may hold) a message's shadow."""
        self._db.write(
            "INSERT OR REPLACE INTO holder (message, server, acknowledged) VALUES (?, ?, ?)",
            (message, server, acknowledged),
        )

    def holders(self, message: int) -> list[tuple[str, bool]]:
        """Return the servers that may hold a message's shadow, and whether they acknowledged it."""
        rows = self._db.read("SELECT server, acknowledged FROM holder WHERE message = ? ORDER BY server", (message,))
        return [(row[0], bool(row[1])) for row in rows]

    def queue(self, server: str, shadow_id: str, now: float) -> None:
        """Queue a discard notification."""
        self._db.write(
            "INSERT OR IGNORE INTO discard (server, shadow_id, queued) VALUES (?, ?, ?)", (server, shadow_id, now)
        )

    def waiting(self, server: str, most: int) -> tuple[list[DiscardEvent], int]:
        """Return a server's oldest notifications, and how many it has in all."""
        rows = self._db.read(
            "SELECT id, shadow_id, queued FROM discard WHERE server = ? ORDER BY id LIMIT ?", (server, most)
        )
        number: int = self._db.read("SELECT COUNT(*) FROM discard WHERE server = ?", (server,))[0][0]
        return [DiscardEvent(row[0], server, row[1], row[2]) for row in rows], number

    def everything(self) -> list[DiscardEvent]:
        """Return all queued notifications, oldest first."""
        return [
            DiscardEvent(*row) for row in self._db.read("SELECT id, server, shadow_id, queued FROM discard ORDER BY id")
        ]

    def forget(self, event: int) -> None:
        """Delete a notification that was told."""
        self._db.write("DELETE FROM discard WHERE id = ?", (event,))

    def oldest(self) -> dict[str, float]:
        """Return, for each server with queued notifications, since when its oldest one waits."""
        return {
            row[0]: row[1]
            for row in self._db.read("SELECT server, MIN(queued) FROM discard GROUP BY server ORDER BY 1")
        }

    def forget_all(self, server: str) -> int:
        """Delete all notifications of a server; return how many there were."""
        return self._db.write("DELETE FROM discard WHERE server = ?", (server,)).rowcount
