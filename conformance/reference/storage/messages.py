"""Messages, their recipients and content, in whatever place this server holds them."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from conformance.reference.message import Envelope, Fate, Message, Place, Recipient
from conformance.reference.storage.database import Database

_COLUMNS = (
    "id, message_id, place, reverse_path, body, ret, envid, internet_id, submitted, size, since, shadow_id,"
    " primary_server, primary_database, cause, redundancy_pending, resubmitted, journal_due"
)


class Messages:
    """The table of messages; statements only, the callers decide."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, message: Message, content: bytes) -> Message:
        """Store a message with its recipients and content; return it with its row's id."""
        envelope = message.envelope
        row = (
            message.message_id, message.place, envelope.reverse_path, envelope.body, envelope.ret, envelope.envid,
            message.internet_id, message.submitted, message.size, message.since, message.shadow_id, message.primary,
            message.database, message.cause, message.redundancy_pending, message.resubmitted, message.journal_due,
        )  # fmt: skip
        cursor = self._db.write(
            f"INSERT INTO message ({_COLUMNS.removeprefix('id, ')}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608
            row,
        )
        key = cursor.lastrowid
        assert key is not None
        for position, recipient in enumerate(envelope.recipients):
            self._db.write(
                "INSERT INTO recipient (message, position, address, notify, orcpt) VALUES (?, ?, ?, ?, ?)",
                (key, position, recipient.address, recipient.notify, recipient.orcpt),
            )
        self._db.write("INSERT INTO content (message, octets) VALUES (?, ?)", (key, content))
        return replace(message, id=key)

    def content(self, key: int) -> bytes:
        """Return a message's content."""
        return bytes(self._db.read("SELECT octets FROM content WHERE message = ?", (key,))[0]["octets"])

    def get(self, key: int) -> Message | None:
        """Return the message of that row, or None when it is held no more."""
        rows = self._db.read(f"SELECT {_COLUMNS} FROM message WHERE id = ?", (key,))  # noqa: S608
        return self._message(rows[0]) if rows else None

    def in_place(self, *places: Place) -> Iterator[Message]:
        """Yield all messages in these places, oldest first."""
        marks = ", ".join("?" * len(places))
        rows = self._db.read(f"SELECT id FROM message WHERE place IN ({marks}) ORDER BY id", places)  # noqa: S608
        for row in rows:
            if (message := self.get(row["id"])) is not None:
                yield message

    def rows_for_mailboxes(self, place: Place, addresses: Sequence[str]) -> list[int]:
        """Return the rows in a place with a recipient among these addresses (in lower case), oldest first."""
        wanted = frozenset(addresses)
        rows = self._db.read(
            "SELECT recipient.message, recipient.address FROM recipient JOIN message ON message.id = recipient.message"
            " WHERE message.place = ? ORDER BY recipient.message",
            (place,),
        )
        return list(dict.fromkeys(row["message"] for row in rows if row["address"].casefold() in wanted))

    def has_unprocessed_reports(self, key: int) -> bool:
        """Return whether a report that a message caused is still to be processed (SR-MNT-08)."""
        return bool(self._db.read("SELECT 1 FROM message WHERE cause = ? AND place = 'primary' LIMIT 1", (key,)))

    def move(self, key: int, place: Place, since: float) -> None:
        """Put a message into another place."""
        self._db.write("UPDATE message SET place = ?, since = ? WHERE id = ?", (place, since, key))

    def take_over(self, key: int, *, message_id: str, since: float) -> None:
        """Make a shadow a primary message of this server, under a name of its own, still to be made redundant."""
        self._db.write(
            "UPDATE message SET place = 'primary', since = ?, message_id = ?, shadow_id = ?, primary_server = '',"
            " primary_database = '', redundancy_pending = 1, journal_due = 1 WHERE id = ?",
            (since, message_id, message_id, key),
        )

    def clear_redundancy_pending(self, key: int) -> None:
        """Note that the effort to make a message redundant has ended."""
        self._db.write("UPDATE message SET redundancy_pending = 0 WHERE id = ?", (key,))

    def clear_journal_due(self, key: int) -> None:
        """Note that a message's journal report has been made."""
        self._db.write("UPDATE message SET journal_due = 0 WHERE id = ?", (key,))

    def drop(self, key: int) -> None:
        """Delete a message with all that belongs to it."""
        self._db.write("DELETE FROM message WHERE id = ?", (key,))

    def set_fate(self, key: int, recipients: Iterable[Recipient], fate: Fate, *, crossed: bool = False) -> None:
        """Note what became of recipients; `crossed` when they were reached across the boundary."""
        for recipient in recipients:
            self._db.write(
                "UPDATE recipient SET fate = ?, crossed = ?"
                " WHERE message = ? AND address = ? AND orcpt = ? AND notify = ?",
                (fate, crossed, key, recipient.address, recipient.orcpt, recipient.notify),
            )

    def with_fate(self, key: int, fates: Sequence[Fate], *, crossed: bool | None = None) -> list[Recipient]:
        """Return a message's recipients with one of these fates (and crossed or not, where given)."""
        rows = self._db.read("SELECT * FROM recipient WHERE message = ? ORDER BY position", (key,))
        return [
            Recipient(row["address"], row["notify"], row["orcpt"])
            for row in rows
            if row["fate"] in fates and (crossed is None or bool(row["crossed"]) is crossed)
        ]

    def pending(self, key: int) -> list[Recipient]:
        """Return the recipients that are still to be processed, each once."""
        return list(dict.fromkeys(self.with_fate(key, ("pending",))))

    def without_delay_report(self, key: int, recipients: Iterable[Recipient]) -> list[Recipient]:
        """Return those recipients about whose delay no report has been made."""
        rows = self._db.read("SELECT address FROM recipient WHERE message = ? AND delay_told = 1", (key,))
        told = {row["address"] for row in rows}
        return [recipient for recipient in recipients if recipient.address not in told]

    def set_delay_reported(self, key: int, recipients: Iterable[Recipient]) -> None:
        """Note that a report about the delay of recipients has been made."""
        for recipient in recipients:
            self._db.write(
                "UPDATE recipient SET delay_told = 1 WHERE message = ? AND address = ?", (key, recipient.address)
            )

    def oldest_since(self, place: Place) -> float | None:
        """Return since when the oldest message of a place is there, or None when there is none."""
        value: float | None = self._db.read("SELECT MIN(since) AS since FROM message WHERE place = ?", (place,))[0][0]
        return value

    def rows_since(self, place: Place, than: float) -> list[int]:
        """Return the rows of the messages that came to a place at `than` or before, oldest first."""
        rows = self._db.read("SELECT id FROM message WHERE place = ? AND since <= ? ORDER BY since, id", (place, than))
        return [row["id"] for row in rows]

    def _message(self, row: sqlite3.Row) -> Message:
        recipients = self._db.read(
            "SELECT address, notify, orcpt FROM recipient WHERE message = ? ORDER BY position", (row["id"],)
        )
        envelope = Envelope(
            row["reverse_path"],
            tuple(Recipient(r["address"], r["notify"], r["orcpt"]) for r in recipients),
            row["body"],
            row["ret"],
            row["envid"],
        )
        return Message(
            id=row["id"],
            message_id=row["message_id"],
            place=row["place"],
            envelope=envelope,
            internet_id=row["internet_id"],
            submitted=row["submitted"],
            size=row["size"],
            since=row["since"],
            shadow_id=row["shadow_id"],
            primary=row["primary_server"],
            database=row["primary_database"],
            cause=row["cause"],
            redundancy_pending=bool(row["redundancy_pending"]),
            resubmitted=bool(row["resubmitted"]),
            journal_due=bool(row["journal_due"]),
        )
