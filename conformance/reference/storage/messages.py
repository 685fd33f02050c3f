"""Messages with their recipients and content, wherever this server holds them, in the queue database.

A message is in one *place*: `primary` (this server must deliver it), `shadow` (a copy kept for another server, which must deliver
it), `safety-net` or `shadow-safety-net` (held after its processing). Each recipient has a *fate*, `pending` at first
(message.py). `row_id` is the id of a message's row, `Message.id`. A report is a message about another one, its `cause`. To make a
message *redundant* is to have a copy of it stored on another server. Writing methods do not wait for the disk: `Database.commit`
does.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from conformance.reference.message import Envelope, Fate, Message, Place, Recipient
from conformance.reference.storage.database import Database

_COLUMNS = (
    "id, message_id, place, reverse_path, body, ret, envid, smtputf8, internet_id, submitted, size, since, shadow_id,"
    " primary_server, primary_database, cause, redundancy_pending, resubmitted, journal_due"
)


class Messages:
    """Statements on the tables of messages, recipients and contents."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, message: Message, content: bytes) -> Message:
        """Store a message, whose id is 0, with its recipients and content; return a copy of it with its row id.

        All recipients are `pending`. Raises sqlite3.IntegrityError if a message of the same primary, database and shadow id is in
        that place already.
        """
        envelope = message.envelope
        row = (
            message.message_id, message.place, envelope.reverse_path, envelope.body, envelope.ret, envelope.envid,
            envelope.smtputf8, message.internet_id, message.submitted, message.size, message.since, message.shadow_id, message.primary,
            message.database, message.cause, message.redundancy_pending, message.resubmitted, message.journal_due,
        )  # fmt: skip
        cursor = self._db.write(
            f"INSERT INTO message ({_COLUMNS.removeprefix('id, ')}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608
            row,
        )
        row_id = cursor.lastrowid
        assert row_id is not None
        for position, recipient in enumerate(envelope.recipients):
            self._db.write(
                "INSERT INTO recipient (message, position, address, notify, orcpt) VALUES (?, ?, ?, ?, ?)",
                (row_id, position, recipient.address, recipient.notify, recipient.orcpt),
            )
        self._db.write("INSERT INTO content (message, octets) VALUES (?, ?)", (row_id, content))
        return replace(message, id=row_id)

    def content(self, row_id: int) -> bytes:
        """Return the content of a stored message, which must not have been deleted."""
        return bytes(self._db.read("SELECT octets FROM content WHERE message = ?", (row_id,))[0]["octets"])

    def get(self, row_id: int) -> Message | None:
        """Return the message in a row, or None if it has been deleted."""
        rows = self._db.read(f"SELECT {_COLUMNS} FROM message WHERE id = ?", (row_id,))  # noqa: S608
        return self._message(rows[0]) if rows else None

    def held_as(self, *places: Place) -> Iterator[Message]:
        """Yield all messages in these places, in the order of their row ids; skip those deleted during the iteration.

        Which messages these are is read before the first is yielded: one moved to another place meanwhile is yielded too.
        """
        marks = ", ".join("?" * len(places))
        rows = self._db.read(f"SELECT id FROM message WHERE place IN ({marks}) ORDER BY id", places)  # noqa: S608
        for row in rows:
            if (message := self.get(row["id"])) is not None:
                yield message

    def rows_for_mailboxes(self, place: Place, addresses: Sequence[str]) -> list[int]:
        """Return the row ids of messages in a place with a recipient among these addresses (in lower case), in row order."""
        address_set = frozenset(addresses)
        rows = self._db.read(
            "SELECT recipient.message, recipient.address FROM recipient JOIN message ON message.id = recipient.message"
            " WHERE message.place = ? ORDER BY recipient.message",
            (place,),
        )
        return list(dict.fromkeys(row["message"] for row in rows if row["address"].casefold() in address_set))

    def has_unprocessed_reports(self, row_id: int) -> bool:
        """Return whether a report about a message (one with this `cause`) has still to be processed (SR-MNT-08)."""
        return bool(self._db.read("SELECT 1 FROM message WHERE cause = ? AND place = 'primary' LIMIT 1", (row_id,)))

    def move(self, row_id: int, place: Place, since: float) -> None:
        """Move a message to another place; `since` is when (POSIX seconds)."""
        self._db.write("UPDATE message SET place = ?, since = ? WHERE id = ?", (place, since, row_id))

    def make_primary(self, row_id: int, *, message_id: str, since: float) -> None:
        """Make a shadow a primary message of this server, whose new message id and shadow id are `message_id`.

        It is marked as still to be made redundant (`redundancy_pending`) and journaled (`journal_due`). `since` is the time of
        this (POSIX seconds).
        """
        self._db.write(
            "UPDATE message SET place = 'primary', since = ?, message_id = ?, shadow_id = ?, primary_server = '',"
            " primary_database = '', redundancy_pending = 1, journal_due = 1 WHERE id = ?",
            (since, message_id, message_id, row_id),
        )

    def clear_redundancy_pending(self, row_id: int) -> None:
        """Record that the attempt to make a message redundant has ended, with or without a shadow."""
        self._db.write("UPDATE message SET redundancy_pending = 0 WHERE id = ?", (row_id,))

    def clear_journal_due(self, row_id: int) -> None:
        """Record that no journal report of a message is due any more: it has been made, or no journal recipient is configured."""
        self._db.write("UPDATE message SET journal_due = 0 WHERE id = ?", (row_id,))

    def drop(self, row_id: int) -> None:
        """Delete a message with its recipients, content and holders (the servers recorded as having its shadow), if it is not yet deleted.

        Discard notifications about it stay queued.
        """
        self._db.write("DELETE FROM message WHERE id = ?", (row_id,))

    def set_fate(self, row_id: int, recipients: Iterable[Recipient], fate: Fate, *, crossed: bool = False) -> None:
        """Set the fate of recipients of a message; `crossed`: it left the transport high-availability boundary for them.

        A recipient is identified by address, ORCPT and NOTIFY: if it was given twice, both get the fate.
        """
        for recipient in recipients:
            self._db.write(
                "UPDATE recipient SET fate = ?, crossed = ?"
                " WHERE message = ? AND address = ? AND orcpt = ? AND notify = ?",
                (fate, crossed, row_id, recipient.address, recipient.orcpt, recipient.notify),
            )

    def recipients_with_fate(
        self, row_id: int, fates: Sequence[Fate], *, crossed: bool | None = None
    ) -> list[Recipient]:
        """Return a message's recipients with one of these fates, in their order.

        Unless `crossed` is None, only those for which the message left the transport high-availability boundary (True) or did not
        (False).
        """
        rows = self._db.read("SELECT * FROM recipient WHERE message = ? ORDER BY position", (row_id,))
        return [
            Recipient(row["address"], notify=row["notify"], orcpt=row["orcpt"])
            for row in rows
            if row["fate"] in fates and (crossed is None or bool(row["crossed"]) is crossed)
        ]

    def pending_recipients(self, row_id: int) -> list[Recipient]:
        """Return the recipients whose fate is `pending`, without duplicates; empty also for a deleted message."""
        return list(dict.fromkeys(self.recipients_with_fate(row_id, ("pending",))))

    def without_delay_report(self, row_id: int, recipients: Iterable[Recipient]) -> list[Recipient]:
        """Return those of the recipients, compared by address, whose delay has not been reported to the sender."""
        rows = self._db.read("SELECT address FROM recipient WHERE message = ? AND delay_told = 1", (row_id,))
        reported = {row["address"] for row in rows}
        return [recipient for recipient in recipients if recipient.address not in reported]

    def set_delay_reported(self, row_id: int, recipients: Iterable[Recipient]) -> None:
        """Record that the delay of recipients, found by address, has been reported to the sender, so that it is not reported again."""
        for recipient in recipients:
            self._db.write(
                "UPDATE recipient SET delay_told = 1 WHERE message = ? AND address = ?", (row_id, recipient.address)
            )

    def oldest_since(self, place: Place) -> float | None:
        """Return when the message that is longest in a place came there (POSIX seconds), or None if there is none."""
        value: float | None = self._db.read("SELECT MIN(since) AS since FROM message WHERE place = ?", (place,))[0][0]
        return value

    def rows_in_place_since(self, place: Place, at: float) -> list[int]:
        """Return the row ids of messages that are in a place and came there at `at` (POSIX seconds) or before, oldest first."""
        rows = self._db.read("SELECT id FROM message WHERE place = ? AND since <= ? ORDER BY since, id", (place, at))
        return [row["id"] for row in rows]

    def _message(self, row: sqlite3.Row) -> Message:
        """Return the message in a row of the table of messages, with all its recipients."""
        recipients = self._db.read(
            "SELECT address, notify, orcpt FROM recipient WHERE message = ? ORDER BY position", (row["id"],)
        )
        envelope = Envelope(
            reverse_path=row["reverse_path"],
            recipients=tuple(Recipient(r["address"], notify=r["notify"], orcpt=r["orcpt"]) for r in recipients),
            body=row["body"],
            ret=row["ret"],
            envid=row["envid"],
            smtputf8=bool(row["smtputf8"]),
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
