"""Who may hold a shadow of our messages, and the discard notifications queued for them, on disk (SR-MNT-05)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from conformance.reference.storage.database import Database


@dataclass(frozen=True, slots=True)
class DiscardEvent:
    """A queued discard notification: its row, for whom, for which shadow, and since when (POSIX seconds)."""

    id: int
    server: str
    shadow_id: str
    queued: float


@dataclass(frozen=True, slots=True)
class Holder:
    """A server that holds a message's shadow, or (not `acknowledged`) may hold it: its reply was lost."""

    server: str
    shadow_id: str
    acknowledged: bool


class Discards:
    """The primary's side of what shadow servers hold."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add_holder(self, message: int, server: str, shadow_id: str, *, acknowledged: bool) -> None:
        """Note that a server holds (or may hold) a message's shadow."""
        self._db.write(
            "INSERT OR REPLACE INTO holder (message, server, shadow_id, acknowledged) VALUES (?, ?, ?, ?)",
            (message, server, shadow_id, acknowledged),
        )

    def remove_holder(self, message: int, server: str) -> None:
        """Note that a server holds no shadow of a message after all."""
        self._db.write("DELETE FROM holder WHERE message = ? AND server = ?", (message, server))

    def holders(self, message: int) -> list[Holder]:
        """Return the servers that hold or may hold a message's shadow, by name."""
        rows = self._db.read(
            "SELECT server, shadow_id, acknowledged FROM holder WHERE message = ? ORDER BY server", (message,)
        )
        return [Holder(row[0], row[1], bool(row[2])) for row in rows]

    def queue(self, server: str, shadow_id: str, now: float) -> None:
        """Queue a discard notification."""
        self._db.write(
            "INSERT OR IGNORE INTO discard (server, shadow_id, queued) VALUES (?, ?, ?)", (server, shadow_id, now)
        )

    def pending(self, server: str, most: int, without: Collection[int] = ()) -> tuple[list[DiscardEvent], int]:
        """Return a server's oldest notifications, and how many it has in all; `without` these rows."""
        limit = most + len(without)
        rows = self._db.read_cached(
            "discard", "SELECT id, shadow_id, queued FROM discard WHERE server = ? ORDER BY id LIMIT ?", (server, limit)
        )
        number = len(rows)
        if number == limit:
            number = self._db.read("SELECT COUNT(*) FROM discard WHERE server = ?", (server,))[0][0]
        events = [DiscardEvent(row[0], server, row[1], row[2]) for row in rows if row[0] not in without]
        return events[:most], number - (len(rows) - len(events))

    def all_events(self) -> Iterator[DiscardEvent]:
        """Yield all queued notifications, oldest first."""
        for row in self._db.read("SELECT id, server, shadow_id, queued FROM discard ORDER BY id"):
            yield DiscardEvent(*row)

    def queued_until(self, than: float) -> list[DiscardEvent]:
        """Return the notifications queued at `than` or before, oldest first."""
        rows = self._db.read(
            "SELECT id, server, shadow_id, queued FROM discard WHERE queued <= ? ORDER BY queued, id", (than,)
        )
        return [DiscardEvent(*row) for row in rows]

    def remove(self, event: int) -> None:
        """Delete a notification."""
        self._db.write("DELETE FROM discard WHERE id = ?", (event,))

    def oldest_queued_at(self) -> float | None:
        """Return since when the oldest notification waits, or None when there is none."""
        value: float | None = self._db.read("SELECT MIN(queued) FROM discard")[0][0]
        return value
