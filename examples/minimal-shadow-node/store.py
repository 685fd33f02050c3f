"""The queue database: SQLite, every commit synced. What is in here was acknowledged; what was not is not in here."""

import json
import sqlite3
import time
import uuid
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE message (id INTEGER PRIMARY KEY, shadow_id TEXT, primary_name TEXT, primary_db TEXT, parent INTEGER,
  copied INTEGER, sender TEXT, parameters TEXT, arrived REAL, internet_id TEXT, content BLOB);
CREATE INDEX by_parent ON message (parent);
CREATE TABLE recipient (message INTEGER, address TEXT, parameters TEXT, done INTEGER DEFAULT 0);
CREATE INDEX by_message ON recipient (message);
CREATE TABLE holder (message INTEGER, server TEXT);
CREATE TABLE discard (id INTEGER PRIMARY KEY, server TEXT, shadow_id TEXT, since REAL);
CREATE TABLE delivered (mailbox TEXT, internet_id TEXT, submitted REAL, at REAL);
CREATE INDEX by_mailbox ON delivered (mailbox, internet_id);
CREATE TABLE contact (primary_name TEXT PRIMARY KEY, at REAL);
"""


@dataclass
class Message:
    """A message: one of this node's own (`primary_name` is empty), or a copy that it keeps."""

    sender: str
    parameters: dict[str, str]
    recipients: dict[str, dict[str, str]]
    content: bytes
    internet_id: str | None = None
    shadow_id: str = ""
    primary_name: str = ""
    primary_db: str = ""
    parent: int | None = None
    copied: bool = True
    arrived: float = field(default_factory=time.time)
    id: int = 0


class Store:
    """The database, open for one process. Every method commits before it returns."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.db = sqlite3.connect(directory / "queue.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        with self.db:
            self.db.execute("BEGIN IMMEDIATE")
            if not self.db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                for statement in SCHEMA.split(";"):
                    self.db.execute(statement)
                self.db.execute("INSERT INTO meta VALUES ('database', ?), ('starts', '0')", (uuid.uuid4().hex[:16],))
            self.db.execute("UPDATE meta SET value = value + 1 WHERE key = 'starts'")
        found = dict(self.db.execute("SELECT key, value FROM meta"))
        self.database: str = found["database"]
        self._start, self._made = found["starts"], 0

    def new_id(self) -> str:
        """Return a shadow id that was never used: database, start, number."""
        self._made += 1
        return f"{self.database}-{self._start}-{self._made}"

    def add(self, message: Message, holders: Iterable[str] = ()) -> None:
        """Put a message in, with the servers that hold a copy of it, or may hold one."""
        with self.db:
            self.db.execute("BEGIN IMMEDIATE")
            self._insert(message, holders)

    def _insert(self, message: Message, holders: Iterable[str] = ()) -> None:
        cursor = self.db.execute(
            "INSERT INTO message (shadow_id, primary_name, primary_db, parent, copied, sender, parameters, arrived,"
            " internet_id, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (message.shadow_id, message.primary_name, message.primary_db, message.parent, message.copied, message.sender,
             json.dumps(message.parameters), message.arrived, message.internet_id, message.content),
        )  # fmt: skip
        message.id = cursor.lastrowid or 0
        rows = [(message.id, address, json.dumps(words)) for address, words in message.recipients.items()]
        self.db.executemany("INSERT INTO recipient (message, address, parameters) VALUES (?, ?, ?)", rows)
        self.db.executemany("INSERT INTO holder VALUES (?, ?)", [(message.id, server) for server in holders])

    def messages(self, where: str, *values: Any) -> list[Message]:
        """Return messages with the recipients that are not done."""
        found = []
        query = f"SELECT * FROM message WHERE {where} ORDER BY id"  # noqa: S608  # the texts are this program's own
        for row in self.db.execute(query, values).fetchall():
            number, shadow_id, primary, database, parent, copied, sender, parameters, arrived, internet_id, content = (
                row
            )
            pending = self.db.execute(
                "SELECT address, parameters FROM recipient WHERE message = ? AND NOT done", (number,)
            )
            recipients = {address: json.loads(words) for address, words in pending}
            words = json.loads(parameters)
            found.append(Message(sender, words, recipients, content, internet_id, shadow_id, primary, database, parent,
                                 bool(copied), arrived, number))  # fmt: skip
        return found

    def primaries(self) -> list[str]:
        """Return the servers for which copies are held."""
        return [row[0] for row in self.db.execute("SELECT DISTINCT primary_name FROM message WHERE primary_name != ''")]

    def take_over(self, copy: Message, copied: bool) -> None:
        """Make a copy a message of this node's own."""
        copy.shadow_id, copy.primary_name, copy.arrived, copy.copied = self.new_id(), "", time.time(), copied
        values = (copy.shadow_id, copy.arrived, copied, copy.id)
        self.db.execute(
            "UPDATE message SET shadow_id = ?, primary_name = '', arrived = ?, copied = ? WHERE id = ?", values
        )

    def copied(self, message: Message, holders: Iterable[str]) -> None:
        """Note which servers hold a copy of a message that is in here; one that is gone meanwhile is done there."""
        with self.db:
            self.db.execute("BEGIN IMMEDIATE")
            if self.db.execute("UPDATE message SET copied = 1 WHERE id = ?", (message.id,)).rowcount:
                self.db.executemany("INSERT INTO holder VALUES (?, ?)", [(message.id, server) for server in holders])
            else:
                self._notify([(server, message.shadow_id) for server in holders])

    def done(self, message: Message, addresses: Iterable[str], report: Message | None, early: bool) -> bool:
        """Note recipients as delivered or failed, with the report on them. Return whether the message is processed.

        A message is processed when all its recipients and all its reports are; then its copies may go, and its parent
        may be processed too. `early` lets the copies go in any case.
        """
        with self.db:
            self.db.execute("BEGIN IMMEDIATE")
            rows = [(message.id, address) for address in addresses]
            self.db.executemany("UPDATE recipient SET done = 1 WHERE message = ? AND address = ?", rows)
            if report is not None:
                self._insert(report)
            if early:
                self._release(message.id, message.shadow_id)
            return self._finish(message.id)

    def _finish(self, number: int) -> bool:
        waiting = self.db.execute(
            "SELECT 1 FROM recipient WHERE message = ? AND NOT done UNION SELECT 1 FROM message WHERE parent = ?",
            (number, number),
        )
        if waiting.fetchone():
            return False
        row = self.db.execute("SELECT shadow_id, parent FROM message WHERE id = ?", (number,)).fetchone()
        if row is not None:
            self._release(number, row[0])
            self.delete(number)
            if row[1] is not None:
                self._finish(row[1])
        return True

    def _release(self, number: int, shadow_id: str) -> None:
        held = self.db.execute("SELECT server FROM holder WHERE message = ?", (number,)).fetchall()
        self._notify([(server, shadow_id) for (server,) in held])
        self.db.execute("DELETE FROM holder WHERE message = ?", (number,))

    def _notify(self, rows: list[tuple[str, str]]) -> None:
        now = time.time()
        stamped = [(server, shadow_id, now) for server, shadow_id in rows]
        self.db.executemany("INSERT INTO discard (server, shadow_id, since) VALUES (?, ?, ?)", stamped)

    def notify(self, servers: Iterable[str], shadow_id: str) -> None:
        """Queue a notification for servers."""
        self._notify([(server, shadow_id) for server in servers])

    def delete(self, number: int) -> None:
        """Delete a message, of whatever kind."""
        self.db.execute("DELETE FROM recipient WHERE message = ?", (number,))
        self.db.execute("DELETE FROM message WHERE id = ?", (number,))

    def inspect(self, next_hop: Any) -> dict[str, Any]:
        """Return what `inspect` prints; `next_hop` names the next hop of a recipient."""
        queues: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for one in self.messages("1"):
            item = {"message_id": one.internet_id, "shadow_id": one.shadow_id, "primary": one.primary_name or None}
            hops: dict[str, list[str]] = {}
            for address in one.recipients:
                hops.setdefault(next_hop(address), []).append(address)
            for hop, addresses in hops.items():
                kind, leads = ("shadow", one.primary_name) if one.primary_name else ("delivery", hop)
                queue = queues.setdefault((kind, leads, hop), [])
                queue.append({**item, "recipients": addresses, "since": one.arrived})
        for server, shadow_id, since in self.db.execute("SELECT server, shadow_id, since FROM discard"):
            item = {"message_id": None, "shadow_id": shadow_id, "primary": None, "recipients": [], "since": since}
            queues.setdefault(("discard", server, ""), []).append(item)
        listed = [{"queue": f"{kind} {hop} {to}".strip(), "kind": kind, "next_hop": hop, "items": items}
                  for (kind, hop, to), items in queues.items()]  # fmt: skip
        rows = self.db.execute("SELECT count(*) FROM delivered").fetchone()[0]
        return {"database": self.database, "queues": listed, "delivered_to": rows}


def open_to_read(directory: Path) -> Store:
    """Open the database of a node that runs, to inspect it."""
    store = Store.__new__(Store)
    store.db = sqlite3.connect(f"file:{directory / 'queue.db'}?mode=ro", uri=True)
    with closing(store.db.execute("SELECT value FROM meta WHERE key = 'database'")) as rows:
        store.database = rows.fetchone()[0]
    return store
