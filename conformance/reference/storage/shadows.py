"""What this server holds as a shadow for others, and when it last was in contact with them."""

from typing import cast

from conformance.reference.message import Place
from conformance.reference.storage.database import Database


class Shadows:
    """Shadow messages by their primary, and the last successful contact with each primary."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._contacts: dict[str, float] = dict(map(tuple, db.read("SELECT server, at FROM contact")))

    def primaries(self) -> list[str]:
        """Return the primaries of the shadows held, by name."""
        rows = self._db.read(
            "SELECT DISTINCT primary_server FROM message WHERE place = 'shadow' ORDER BY primary_server"
        )
        return [row[0] for row in rows]

    def has_any_for(self, primary: str) -> bool:
        """Return whether a shadow is held for a primary."""
        return bool(
            self._db.read_cached(
                "message", "SELECT 1 FROM message WHERE primary_server = ? AND place = 'shadow' LIMIT 1", (primary,)
            )
        )

    def rows_held_for(self, primary: str) -> list[int]:
        """Return the rows held for a primary, oldest first."""
        rows = self._db.read(
            "SELECT id FROM message WHERE place = 'shadow' AND primary_server = ? ORDER BY id", (primary,)
        )
        return [row[0] for row in rows]

    def rows_of_other_databases(self, primary: str, database: str) -> list[int]:
        """Return the rows held for a primary that came from another queue database of it, oldest first."""
        rows = self._db.read_cached(
            "message",
            "SELECT id FROM message WHERE primary_server = ? AND place = 'shadow' AND primary_database <> ?"
            " ORDER BY id",
            (primary, database),
        )
        return [row[0] for row in rows]

    def find(self, primary: str, database: str, shadow_id: str) -> tuple[int, Place] | None:
        """Return the row and place (shadow or shadow Safety Net) of a shadow, or None when it is not held."""
        rows = self._db.read(
            "SELECT id, place FROM message WHERE primary_server = ? AND primary_database = ? AND shadow_id = ?"
            " ORDER BY id LIMIT 1",
            (primary, database, shadow_id),
        )
        return (rows[0][0], cast(Place, rows[0][1])) if rows else None

    def last_contact(self, primary: str) -> float | None:
        """Return when there last was a successful session with a primary, POSIX seconds."""
        return self._contacts.get(primary)

    def set_contact(self, primary: str, at: float, *, alone: bool = False) -> None:
        """Note a successful session with a primary; `alone`: nothing else is about to be written."""
        self._contacts[primary] = at
        write = self._db.write_autocommit if alone else self._db.write
        write(
            "INSERT INTO contact (server, at) VALUES (?, ?) ON CONFLICT (server) DO UPDATE SET at = excluded.at",
            (primary, at),
        )
