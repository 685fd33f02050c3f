"""The shadow server's side of shadow redundancy on disk: shadows held for primaries, and the last contact with each.

A primary is another server that has sent copies (shadows) of its messages here to keep; for a server of 2010 it is the next hop
that the messages were sent to. *Contact* with it is a session in which it has shown that it runs; shadow/manager.py decides what
counts. In methods, `primary` is the name of such a server, and `database` the id of its queue database. A shadow is *held for* a
primary while its place is `shadow`. When the primary has processed the message, the shadow is *discarded*: it may be kept for a
while in the place `shadow-safety-net`.
"""

from typing import NamedTuple, cast

from conformance.reference.message import Place
from conformance.reference.storage.database import Database


class HeldShadow(NamedTuple):
    """The row id of a message with a shadow id, and the place where it is held."""

    row_id: int
    place: Place


class Shadows:
    """Queries over shadow messages by primary, and the time of the last contact with each primary.

    `_contacts` has the times by name (POSIX seconds), as in the table.
    """

    def __init__(self, db: Database) -> None:
        """Read the recorded contacts from the database."""
        self._db = db
        self._contacts: dict[str, float] = dict(map(tuple, db.read("SELECT server, at FROM contact")))

    def primaries(self) -> list[str]:
        """Return the primaries for which shadows are held, sorted by name."""
        rows = self._db.read(
            "SELECT DISTINCT primary_server FROM message WHERE place = 'shadow' ORDER BY primary_server"
        )
        return [row[0] for row in rows]

    def has_any_for(self, primary: str) -> bool:
        """Return whether any shadow is held for a primary."""
        return bool(
            self._db.read_cached(
                "SELECT 1 FROM message WHERE primary_server = ? AND place = 'shadow' LIMIT 1", (primary,)
            )
        )

    def rows_held_for(self, primary: str) -> list[int]:
        """Return the row ids of the shadows held for a primary, oldest first."""
        rows = self._db.read(
            "SELECT id FROM message WHERE place = 'shadow' AND primary_server = ? ORDER BY id", (primary,)
        )
        return [row[0] for row in rows]

    def rows_of_other_databases(self, primary: str, database: str) -> list[int]:
        """Return the row ids of the shadows held for a primary that came from another queue database of it than `database`, in order.

        If `database` is the present one of the primary, the primary has lost these messages (SR-MNT-11).
        """
        rows = self._db.read_cached(
            "SELECT id FROM message WHERE primary_server = ? AND place = 'shadow' AND primary_database <> ?"
            " ORDER BY id",
            (primary, database),
        )
        return [row[0] for row in rows]

    def find_by_shadow_id(self, primary: str, database: str, shadow_id: str) -> HeldShadow | None:
        """Return the row id and the place of the message with this shadow id, or None if this server has none.

        A shadow that was discarded, and is in the shadow Safety Net, is found too. With empty `primary` and `database` that is a
        message of which this server is the primary. Of several the one that was stored first is returned.
        """
        rows = self._db.read(
            "SELECT id, place FROM message WHERE primary_server = ? AND primary_database = ? AND shadow_id = ?"
            " ORDER BY id LIMIT 1",
            (primary, database, shadow_id),
        )
        return HeldShadow(row_id=rows[0][0], place=cast(Place, rows[0][1])) if rows else None

    def last_contact(self, primary: str) -> float | None:
        """Return when the last contact with a primary was (POSIX seconds), or None if none is recorded."""
        return self._contacts.get(primary)

    def set_contact(self, primary: str, at: float, *, alone: bool = False) -> None:
        """Record contact with a primary at `at` (POSIX seconds), in place of an earlier one.

        `alone`: nothing else is about to be written, so the record is committed at once if no transaction is open. Does not wait
        for the disk.
        """
        self._contacts[primary] = at
        write = self._db.write_autocommit if alone else self._db.write
        write(
            "INSERT INTO contact (server, at) VALUES (?, ?) ON CONFLICT (server) DO UPDATE SET at = excluded.at",
            (primary, at),
        )
