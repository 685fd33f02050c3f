"""The queue database: SQLite, with every commit synced. A message is in it before it is acknowledged."""

import contextlib
import fcntl
import json
import os
import re
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from config import Refused

# No id is used again (AUTOINCREMENT): a task may still have that of a deleted row.
SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY AUTOINCREMENT, primary_name TEXT, parent INTEGER, row TEXT, content);
CREATE TABLE IF NOT EXISTS discard (id INTEGER PRIMARY KEY AUTOINCREMENT, server TEXT, shadow_id TEXT, since REAL);
CREATE TABLE IF NOT EXISTS delivered (mailbox TEXT, internet_id TEXT, submitted REAL, at REAL);
CREATE INDEX IF NOT EXISTS by_internet_id ON delivered (internet_id);
CREATE TABLE IF NOT EXISTS contact (primary_name TEXT PRIMARY KEY, at REAL);
INSERT OR IGNORE INTO meta VALUES ('database', lower(hex(randomblob(8)))), ('made', '0');
COMMIT
"""


@dataclass
class Message:
    """A message of this node's own (`primary_name` is empty), or a copy that it keeps."""

    sender: str
    parameters: dict[str, str]  # RET and ENVID, as they came
    recipients: dict[str, dict[str, str]]  # those that are not done, each with its NOTIFY and ORCPT
    content: bytes = b""
    internet_id: str | None = None
    shadow_id: str = ""
    primary_name: str = ""
    primary_db: str = ""
    parent: int | None = None  # the message that this report is about
    copied: bool = True  # whether a copy was made, or tried to be made
    holders: list[str] = field(default_factory=list)  # the servers that hold a copy, or may hold one
    arrived: float = field(default_factory=time.time)
    id: int | None = None

    @property
    def row(self) -> str:
        """Everything but the content, which never changes."""
        return json.dumps({key: value for key, value in vars(self).items() if key not in ("id", "content")})

    def header(self, name: str) -> str | None:
        """Return the value of a header field, unfolded, or None."""
        head = b"\r\n" + self.content.partition(b"\r\n\r\n")[0] + b"\r\n"
        field = rb"\r\n" + name.encode() + rb"[ \t]*:([^\r\n]*(?:\r\n[ \t][^\r\n]*)*)"
        found = re.search(field, head, re.IGNORECASE)
        return found[1].replace(b"\r\n", b"").decode("latin-1").strip() if found else None


class Store:
    """The database. Every method that changes it has committed when it returns."""

    def __init__(self, directory: Path) -> None:
        """Open the database, which no other process may have. Raises Refused."""
        directory.mkdir(parents=True, exist_ok=True)
        try:
            fcntl.flock(os.open(directory, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)  # until the process ends
        except BlockingIOError:
            raise Refused("data_dir: another process has this queue") from None
        self._db = sqlite3.connect(directory / "queue.db", isolation_level=None)
        self._db.executescript(SCHEMA)
        ((self.database,),) = self.run("SELECT value FROM meta WHERE key = 'database'")

    def run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Run one statement and commit its changes."""
        return self._db.execute(statement, values)

    def keep_file(self, given: Any) -> None:
        """Keep the node's file for the command `inspect`: the next one may be refused."""
        with contextlib.suppress(sqlite3.Error):  # a full disk is no reason not to apply it
            self.run("INSERT OR REPLACE INTO meta VALUES ('file', ?)", json.dumps(given))

    def new_id(self) -> str:
        """Return a shadow id that was never used: the database id and a number."""
        change = "UPDATE meta SET value = value + 1 WHERE key = 'made' RETURNING value"
        ((number,),) = self.run(change).fetchall()
        return f"{self.database}-{number}"

    def add(self, message: Message) -> None:
        """Insert a message or a copy."""
        insert = "INSERT INTO message (primary_name, parent, row, content) VALUES (?, ?, ?, ?)"
        message.id = self.run(insert, message.primary_name, message.parent, message.row, message.content).lastrowid

    def save(self, message: Message) -> bool:
        """Store the changes of a message; return False if it is processed and was deleted."""
        update = "UPDATE message SET primary_name = ?, row = ? WHERE id = ?"
        return self.run(update, message.primary_name, message.row, message.id).rowcount == 1

    def messages(self, where: str, *values: Any) -> list[Message]:
        """Return the messages for which a condition holds, oldest first."""
        query = f"SELECT id, row, content FROM message WHERE {where} ORDER BY id"  # noqa: S608  # the texts are our own
        return [Message(**json.loads(row), content=content, id=key) for key, row, content in self.run(query, *values)]

    def done(self, message: Message, addresses: Iterable[str], report: Message | None = None) -> None:
        """Record recipients as delivered or failed, with the report on them; the message may then be processed.

        Raises sqlite3.Error; nothing has changed then.
        """
        settled = {address: message.recipients.pop(address) for address in addresses}
        try:
            with self._db:
                self.run("BEGIN IMMEDIATE")
                self.save(message)
                if report is not None:
                    self.add(report)
                self._finish(message.id)
        except sqlite3.Error:
            message.recipients |= settled
            raise

    def _finish(self, number: int | None) -> None:
        """Delete a message and queue its notifications once it is processed: its recipients and its reports are done."""
        for one in self.messages("id = ?", number):
            if not one.recipients and not self.messages("parent = ?", number):
                self.notify(one)
                self.delete(one)
                self._finish(one.parent)

    def delete(self, message: Message) -> None:
        """Delete a message, or a copy."""
        self.run("DELETE FROM message WHERE id = ?", message.id)

    def notify(self, message: Message) -> None:
        """Queue the notification for each server that may hold a copy."""
        rows = [(server, message.shadow_id, time.time()) for server in message.holders]
        self._db.executemany("INSERT INTO discard (server, shadow_id, since) VALUES (?, ?, ?)", rows)

    def note_contact(self, primary: str) -> None:
        """Record contact with a server for which copies are held."""
        self.run("INSERT OR REPLACE INTO contact VALUES (?, ?)", primary, time.time())

    def last_contact(self, primary: str) -> float:
        """Return the time of the last contact with a server."""
        row = self.run("SELECT at FROM contact WHERE primary_name = ?", primary).fetchone()
        return float(row[0]) if row else time.time()
