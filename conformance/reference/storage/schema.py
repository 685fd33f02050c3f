"""The tables of the queue database, their version, and the checks that an existing file is a whole queue database.

database.py calls `prepare` when it opens the file.
"""

import sqlite3

APPLICATION_ID = 0x53524544
VERSION = 4

_TABLES = """
BEGIN;
CREATE TABLE node (
    database TEXT NOT NULL,
    incarnation INTEGER NOT NULL
) STRICT;
CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL,
    place TEXT NOT NULL,
    reverse_path TEXT NOT NULL,
    body TEXT NOT NULL,
    ret TEXT NOT NULL,
    envid TEXT NOT NULL,
    smtputf8 INTEGER NOT NULL,
    internet_id TEXT,
    submitted REAL,
    size INTEGER NOT NULL,
    since REAL NOT NULL,
    shadow_id TEXT NOT NULL,
    primary_server TEXT NOT NULL DEFAULT '',
    primary_database TEXT NOT NULL DEFAULT '',
    cause INTEGER,
    redundancy_pending INTEGER NOT NULL DEFAULT 0,
    resubmitted INTEGER NOT NULL DEFAULT 0,
    journal_due INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX message_by_place ON message (place, since);
CREATE UNIQUE INDEX message_by_shadow ON message (primary_server, primary_database, shadow_id, place);
CREATE INDEX message_by_cause ON message (cause) WHERE cause IS NOT NULL;
CREATE TABLE recipient (
    message INTEGER NOT NULL REFERENCES message ON DELETE CASCADE,
    position INTEGER NOT NULL,
    address TEXT NOT NULL,
    notify TEXT NOT NULL,
    orcpt TEXT NOT NULL,
    fate TEXT NOT NULL DEFAULT 'pending',
    crossed INTEGER NOT NULL DEFAULT 0,
    delay_told INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (message, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE content (
    message INTEGER PRIMARY KEY REFERENCES message ON DELETE CASCADE,
    octets BLOB NOT NULL
) STRICT;
CREATE TABLE holder (
    message INTEGER NOT NULL REFERENCES message ON DELETE CASCADE,
    server TEXT NOT NULL,
    shadow_id TEXT NOT NULL,
    PRIMARY KEY (message, server)
) STRICT, WITHOUT ROWID;
CREATE TABLE discard (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    shadow_id TEXT NOT NULL,
    queued REAL NOT NULL,
    UNIQUE (server, shadow_id)
) STRICT;
CREATE INDEX discard_by_age ON discard (queued);
CREATE TABLE contact (
    server TEXT PRIMARY KEY,
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE delivered_to (
    mailbox TEXT NOT NULL,
    internet_id TEXT NOT NULL,
    submitted REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (mailbox, internet_id, submitted)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivered_to_by_age ON delivered_to (at);
PRAGMA application_id = %d;
PRAGMA user_version = %d;
COMMIT;
"""


class ForeignDatabase(Exception):
    """The file is not a queue database, is one of another version, or is damaged; the text says which."""


_SETTINGS = """
PRAGMA locking_mode = EXCLUSIVE;  -- only one node uses the file; checking the lock would take half of each commit
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA cache_spill = OFF;  -- only commits write to the disk, so only they find it full
"""


def prepare(connection: sqlite3.Connection) -> None:
    """Set the open file up for one writer; then make the tables if it is empty, else check that it is a whole queue database.

    A file is empty too if a node was killed before it had made the tables. Raises ForeignDatabase if a check fails, and
    sqlite3.DatabaseError for a file that SQLite cannot read or that is in use.
    """
    connection.executescript(_SETTINGS)
    if connection.execute("SELECT NOT EXISTS (SELECT 1 FROM sqlite_master)").fetchone()[0]:
        connection.executescript(_TABLES % (APPLICATION_ID, VERSION))
        return
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise ForeignDatabase("it is not a queue database of this program")
    if (version := connection.execute("PRAGMA user_version").fetchone()[0]) != VERSION:
        raise ForeignDatabase(f"its schema version is {version}, this program's {VERSION}")
    if (problem := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise ForeignDatabase(f"it is damaged: {problem}")
