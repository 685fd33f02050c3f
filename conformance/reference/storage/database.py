"""The queue database: transactions and group commit.

Statements run at once, inline on the loop, in one open transaction. Whoever has promised something waits for
`durable()`: the loop's next turn commits, once for everybody who waits then. What nobody waits for is committed along
with it, or a moment later. So a group of statements without an `await` in between is atomic, many messages share one
commit, and what `durable()` returned from survives a kill.

When the disk is full, a commit is tried again until there is room: those who wait for it go on waiting, and nothing was
promised to anybody; whoever can refuse instead hears of it at once (`durable_or_refused`). Meanwhile `has_room` says no, so
that nobody new comes in.

A single statement that comes alone needs none of this: it is a transaction of its own (`write_alone`).
"""

import asyncio
import os
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.reference.storage import schema

LINGER = 0.05
"""Seconds after which at the latest what nobody waits for is committed."""

AGAIN = 1.0
"""Seconds after which a commit that found no room is tried again."""

RESERVE = 2 * 2**20
"""Octets of the disk that are kept for what has been acknowledged: its delivery is written down too."""


_REMEMBERED = 256
"""Queries of one table whose rows are kept until it is written to."""

_WRITTEN = re.compile(r"(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM) (\w+)")


class DatabaseError(Exception):
    """The queue database cannot be used: it is damaged, foreign, of another version, or in use."""


class NoRoom(DatabaseError):
    """There is no room on the disk for what was written; it is tried again until there is."""


class Database:
    """One node's SQLite file, in write-ahead mode with a sync at every commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._committed: asyncio.Future[None] | None = None
        self._refusable: asyncio.Future[None] | None = None
        self._broken: DatabaseError | None = None
        self._written: list[tuple[str, Sequence[Any]]] = []
        self._read: dict[str, dict[tuple[str, Sequence[Any]], list[sqlite3.Row]]] = {}
        self._full = False

    def open(self) -> bool:
        """Open the file, and make it where there is none; return whether it is new.

        Raises DatabaseError when it cannot be used.
        """
        try:
            self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._connection.row_factory = sqlite3.Row
            return schema.prepare(self._connection)
        except (sqlite3.DatabaseError, schema.ForeignDatabase) as error:
            self.close()
            raise DatabaseError(f"the queue database {self._path} cannot be used: {error}") from error

    def has_room(self, octets: int) -> bool:
        """Whether a message of that size can be taken in: there is room for it, for its log, and the reserve."""
        disk = os.statvfs(self._path.parent)
        return not self._full and disk.f_bavail * disk.f_frsize >= 2 * octets + RESERVE

    def write(self, statement: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement in the open transaction, and begin one where there is none."""
        connection = self._usable()
        if self._lingering is None:
            connection.execute("BEGIN IMMEDIATE")
            self._lingering = asyncio.get_running_loop().call_later(LINGER, self._commit)
        self._forget(statement)
        cursor = connection.execute(statement, parameters)
        self._written.append((statement, parameters))
        return cursor

    def write_autocommit(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement that nobody waits for and nothing else is written with: on disk at once, where no
        transaction is open. A transaction, and the timer that ends it, take three times as long."""
        if self._lingering is None:
            self._forget(statement)
            try:
                self._usable().execute(statement, parameters)
            except sqlite3.Error:  # there is no room, or worse: a transaction is tried again, or tells what is wrong
                self.write(statement, parameters)
        else:
            self.write(statement, parameters)

    def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return all rows of a query; what was written and is not committed yet is seen."""
        return self._usable().execute(statement, parameters).fetchall()

    def read_cached(self, table: str, statement: str, parameters: Sequence[Any]) -> list[sqlite3.Row]:
        """Return all rows of a query over one table, as they were read before unless that was written to since: the same
        few questions are asked in every session, and have the same answer in most."""
        known = self._read.setdefault(table, {})
        rows = known.get((statement, parameters))
        if rows is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            rows = known[statement, parameters] = self.read(statement, parameters)
        return rows

    def _forget(self, statement: str) -> None:
        if (written := _WRITTEN.match(statement)) is not None:
            self._read.pop(written[1], None)
        else:
            self._read.clear()

    async def commit(self) -> None:
        """Return when all that was written so far is on disk. Raises DatabaseError when it could not be."""
        if self._lingering is not None:
            if self._committed is None:
                loop = asyncio.get_running_loop()
                self._committed = loop.create_future()
                if not self._full and self._refusable is None:
                    loop.call_soon(self._commit)
            await asyncio.shield(self._committed)

    async def commit_if_room(self) -> None:
        """Return when all that was written so far is on disk, as `durable`. Raises NoRoom when there is no room for it now.

        What was written stays in the open transaction then: the caller takes it back.
        """
        if self._full:
            raise self._no_room()
        if self._lingering is not None:
            if self._refusable is None:
                loop = asyncio.get_running_loop()
                self._refusable = loop.create_future()
                if self._committed is None:
                    loop.call_soon(self._commit)
            await asyncio.shield(self._refusable)

    def _no_room(self) -> NoRoom:
        return NoRoom(f"the queue database {self._path} has no room")

    def close(self) -> None:
        """Close at once: what is not committed is rolled back, as a kill would."""
        connection, self._connection = self._connection, None
        for waited in self._ended():
            if not waited.done():
                waited.cancel()
        self._written.clear()
        self._read.clear()
        self._full = False
        if connection is not None:
            connection.close()

    def _usable(self) -> sqlite3.Connection:
        if self._broken is not None:
            raise self._broken
        if self._connection is None:
            raise DatabaseError(f"the queue database {self._path} is closed")
        return self._connection

    def _ended(self) -> list[asyncio.Future[None]]:
        """Have no transaction open any more; return what those who wait for it wait for."""
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        waited = [one for one in (self._committed, self._refusable) if one is not None]
        self._committed = self._refusable = None
        return waited

    def _commit(self) -> None:
        if self._connection is None or self._lingering is None:
            return
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                self._hold_open(self._connection)
                return
            waited = self._ended()
            # what is in memory is now ahead of what is on disk: nothing may be promised any more
            self._broken = DatabaseError(f"the queue database {self._path} could not commit: {error}")
            self._connection.rollback()
            for one in waited:
                one.set_exception(self._broken)
            return
        waited = self._ended()
        self._full = False
        self._written.clear()
        for one in waited:
            one.set_result(None)

    def _hold_open(self, connection: sqlite3.Connection) -> None:
        """Have the transaction that found no room open again, as it was, until there is room for it; who can refuse hears
        of it."""
        self._full = True
        committed, refusable = self._committed, self._refusable
        self._refusable = None
        self._ended()
        if refusable is not None:
            refusable.set_exception(self._no_room())
            refusable.exception()  # they may all have gone
        connection.rollback()
        connection.execute("BEGIN IMMEDIATE")
        for statement, parameters in self._written:
            connection.execute(statement, parameters)
        self._committed = committed
        self._lingering = asyncio.get_running_loop().call_later(AGAIN, self._commit)
