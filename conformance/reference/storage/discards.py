"""The primary's side of shadow redundancy on disk: holders of shadows, and queued discard notifications (SR-MNT-05).

A shadow is a copy of a message that a server other than its primary keeps; the primary must deliver the message. A holder is a
server that has the shadow of a message of this server. Once the message has been processed, a discard notification is queued
for each holder, which lets that server give the shadow up. In methods, `message` is the row id of a message of this server,
`server` the name of a holder, and `shadow_id` the id of the shadow there. What is written is on disk with the next commit
(`Database.commit`).
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from conformance.reference.storage.database import Database


@dataclass(frozen=True, slots=True)
class DiscardNotification:
    """A queued discard notification: its row id, the server to notify, the shadow, and when it was queued (POSIX seconds)."""

    id: int
    server: str
    shadow_id: str
    queued: float


@dataclass(frozen=True, slots=True)
class Holder:
    """A server that holds a message's shadow as `shadow_id`, or may hold it, since its reply was lost."""

    server: str
    shadow_id: str


class Discards:
    """Statements on the tables of holders and discard notifications."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add_holder(self, message: int, server: str, shadow_id: str) -> None:
        """Record that a server holds, or may hold, a message's shadow; replaces an earlier record of this server and message."""
        self._db.write(
            "INSERT OR REPLACE INTO holder (message, server, shadow_id) VALUES (?, ?, ?)", (message, server, shadow_id)
        )

    def remove_holder(self, message: int, server: str) -> None:
        """Record that a server holds no shadow of a message, so that it gets no discard notification; do nothing if none is recorded."""
        self._db.write("DELETE FROM holder WHERE message = ? AND server = ?", (message, server))

    def holders_of_shadow(self, message: int) -> list[Holder]:
        """Return the servers that hold or may hold a message's shadow, sorted by name."""
        rows = self._db.read("SELECT server, shadow_id FROM holder WHERE message = ? ORDER BY server", (message,))
        return [Holder(server=row[0], shadow_id=row[1]) for row in rows]

    def queue_notification(self, server: str, shadow_id: str, now: float) -> None:
        """Queue a discard notification at `now` (POSIX seconds), unless one for the server and shadow is queued already."""
        self._db.write(
            "INSERT OR IGNORE INTO discard (server, shadow_id, queued) VALUES (?, ?, ?)", (server, shadow_id, now)
        )

    def oldest_for_server(
        self, server: str, limit: int, excluded: Collection[int] = ()
    ) -> tuple[list[DiscardNotification], int]:
        """Return the oldest notifications for a server, at most `limit`, oldest first, and how many there are for it in all.

        The number is not limited by `limit`. Both leave out the notifications with the row ids `excluded`.
        """
        to_read = limit + len(excluded)
        rows = self._db.read_cached(
            "SELECT id, shadow_id, queued FROM discard WHERE server = ? ORDER BY id LIMIT ?",
            (server, to_read),
        )
        events = [DiscardNotification(row[0], server, row[1], row[2]) for row in rows if row[0] not in excluded]
        total = len(events)
        if len(rows) == to_read:  # there may be more, and some of them may be excluded
            query = "SELECT COUNT(*) FROM discard WHERE server = ? AND id NOT IN (SELECT value FROM json_each(?))"
            total = self._db.read(query, (server, json.dumps([*excluded])))[0][0]
        return events[:limit], total

    def all_notifications(self) -> Iterator[DiscardNotification]:
        """Yield all queued notifications, oldest first."""
        for row in self._db.read("SELECT id, server, shadow_id, queued FROM discard ORDER BY id"):
            yield DiscardNotification(*row)

    def notifications_queued_until(self, at: float) -> list[DiscardNotification]:
        """Return the notifications for any server that were queued at `at` (POSIX seconds) or before, oldest first."""
        rows = self._db.read(
            "SELECT id, server, shadow_id, queued FROM discard WHERE queued <= ? ORDER BY queued, id", (at,)
        )
        return [DiscardNotification(*row) for row in rows]

    def remove_notification(self, event_id: int) -> None:
        """Delete a queued notification by its row id; do nothing if it is deleted already."""
        self._db.write("DELETE FROM discard WHERE id = ?", (event_id,))

    def oldest_queued_at(self) -> float | None:
        """Return when the oldest notification was queued (POSIX seconds), or None if there is none."""
        value: float | None = self._db.read("SELECT MIN(queued) FROM discard")[0][0]
        return value
