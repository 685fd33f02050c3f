"""The queue database of a node: transactions and group commit. Everything that must survive a kill is written here.

Statements run synchronously in the event loop, in one open transaction. A caller that is about to promise something, such as the
acknowledgement of a message, awaits `commit()`. The first such call has the transaction committed in the next turn of the loop,
once for all callers that wait by then. A transaction that no caller waits for is committed COMMIT_DELAY seconds after its first
statement. So statements without an `await` between them are atomic, many messages share one commit, and what a returned
`commit()` covers survives a kill.

A commit that finds the disk full is rolled back, its statements are executed again in a new transaction, and the commit is
retried every FULL_DISK_RETRY seconds: callers of `commit()` go on waiting, as nothing was promised, while callers of
`commit_if_room()` get NoRoom and can refuse the message. Meanwhile `has_room` returns False, so that no new message is accepted.

A single statement that nothing else is written with may be committed on its own (`write_autocommit`).

While a transaction is open, `_commit_timer` is set and `_written` has its statements. `_committed` is the future that callers of
`commit` wait for, `_refusable` that of callers of `commit_if_room`; each is None if no caller waits. `_full` says that the last
commit found the disk full, `_broken` is the error of a commit that failed for good. `_cache` has the rows of cached queries.
"""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from conformance.reference.storage import schema

COMMIT_DELAY = 0.05
"""Seconds after its first statement at which a transaction is committed that no caller waits for."""

FULL_DISK_RETRY = 1.0
"""Seconds after which a commit that found the disk full is retried."""

RESERVE = 2 * 2**20
"""Octets of the disk that are reserved for messages already acknowledged, whose delivery must be recorded too."""


class DatabaseError(Exception):
    """The queue database cannot be used: damaged, foreign, of another version, in use, closed, or after a failed commit."""


class NoRoom(DatabaseError):
    """The disk is full; the commit is retried until it is not."""


class Database:
    """One node's SQLite file, in write-ahead mode with a sync at every commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._commit_timer: asyncio.TimerHandle | None = None
        self._committed: asyncio.Future[None] | None = None
        self._refusable: asyncio.Future[None] | None = None
        self._broken: DatabaseError | None = None
        self._written: list[tuple[str, Sequence[Any]]] = []
        self._cache: dict[tuple[str, Sequence[Any]], list[sqlite3.Row]] = {}
        self._full = False

    def open(self) -> None:
        """Open the file, creating it and its tables if necessary. If it cannot be used, close it and raise DatabaseError."""
        try:
            self._connection = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
            self._connection.row_factory = sqlite3.Row
            schema.prepare(self._connection)
        except (sqlite3.DatabaseError, schema.ForeignDatabase) as error:
            self.close()
            raise DatabaseError(f"the queue database {self._path} cannot be used: {error}") from error

    def has_room(self, octets: int) -> bool:
        """Return whether the disk has room for a message of this many octets, for its write-ahead log, and for RESERVE.

        RESERVE is kept for what is to be recorded about messages already acknowledged. False also while a commit that found the
        disk full is being retried.
        """
        disk = os.statvfs(self._path.parent)
        return not self._full and disk.f_bavail * disk.f_frsize >= 2 * octets + RESERVE

    def write(self, statement: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement in the open transaction, or in a new one if none is open, and return its cursor.

        Nothing is on disk yet: `commit` waits for that; otherwise the transaction is committed COMMIT_DELAY seconds after its
        first statement. Raises DatabaseError if the database is closed or a commit has failed for good.
        """
        if self._commit_timer is None:
            self._require_connection().execute("BEGIN IMMEDIATE")
            self._commit_timer = asyncio.get_running_loop().call_later(COMMIT_DELAY, self._commit_transaction)
        cursor = self._execute(statement, parameters)
        self._written.append((statement, parameters))
        return cursor

    def write_autocommit(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a single statement: commit it at once if no transaction is open, else write it in the open one, as `write` does.

        To commit it at once takes a third of the time of a transaction and its timer. If that fails, the statement is written in
        a new transaction. The caller does not learn when it is on disk. Raises DatabaseError as `write` does.
        """
        if self._commit_timer is None:
            with suppress(sqlite3.Error):  # the disk is full, or worse: a transaction retries or reports it
                self._execute(statement, parameters)
                return
        self.write(statement, parameters)

    def _execute(self, statement: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        """Execute a statement that writes, drop the cached rows of all queries, and return the cursor."""
        self._cache.clear()
        return self._require_connection().execute(statement, parameters)

    def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return all rows of a query, which sees uncommitted statements too. Raises DatabaseError as `write` does."""
        return self._require_connection().execute(statement, parameters).fetchall()

    def read_cached(self, statement: str, parameters: Sequence[Any]) -> list[sqlite3.Row]:
        """Return all rows of a query; they are cached until anything is written.

        Every session makes the same few queries, mostly with the same result. `parameters` must be hashable, and callers must not
        change the returned list. Raises DatabaseError as `write` does.
        """
        rows = self._cache.get((statement, parameters))
        if rows is None:
            rows = self._cache[statement, parameters] = self.read(statement, parameters)
        return rows

    async def commit(self) -> None:
        """Wait until everything written so far is on disk; while the disk is full, without limit.

        Returns at once if no transaction is open: nothing was written since the last commit, or the database is closed. Raises
        DatabaseError if this commit or an earlier one fails for good, and CancelledError if the database is closed meanwhile.
        """
        if self._broken is not None:
            raise self._broken
        if self._commit_timer is not None:
            if self._committed is None:
                loop = asyncio.get_running_loop()
                self._committed = loop.create_future()
                if not self._full and self._refusable is None:  # else a commit is scheduled already
                    loop.call_soon(self._commit_transaction)
            await asyncio.shield(self._committed)

    async def commit_if_room(self) -> None:
        """Wait until everything written so far is on disk, as `commit` does, but raise NoRoom if the disk is full.

        The statements stay in the open transaction then: the caller has to write others that undo its own.
        """
        if self._broken is not None:
            raise self._broken
        if self._full:
            raise self._no_room_error()
        if self._commit_timer is not None:
            if self._refusable is None:
                loop = asyncio.get_running_loop()
                self._refusable = loop.create_future()
                if self._committed is None:  # else `commit` has scheduled it
                    loop.call_soon(self._commit_transaction)
            await asyncio.shield(self._refusable)

    def _no_room_error(self) -> NoRoom:
        """Return the exception for callers of `commit_if_room`."""
        return NoRoom(f"the queue database {self._path} has no room")

    def close(self) -> None:
        """Close at once without a commit, as a kill would, and cancel the callers that wait for one; do nothing if it is closed."""
        connection, self._connection = self._connection, None
        for future in self._end_transaction():
            future.cancel()
        self._written.clear()
        self._cache.clear()
        self._full = False
        if connection is not None:
            connection.close()

    def _require_connection(self) -> sqlite3.Connection:
        """Return the open connection. Raises DatabaseError if the database is closed or a commit has failed for good."""
        if self._broken is not None:
            raise self._broken
        if self._connection is None:
            raise DatabaseError(f"the queue database {self._path} is closed")
        return self._connection

    def _end_transaction(self) -> list[asyncio.Future[None]]:
        """Mark the transaction as ended, stop its timer, and return the futures of those that wait in `commit` and `commit_if_room`.

        There are two at most. The caller of this method commits or rolls back, and sets the futures.
        """
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        waiting = [future for future in (self._committed, self._refusable) if future is not None]
        self._committed = self._refusable = None
        return waiting

    def _commit_transaction(self) -> None:
        """Commit the open transaction and wake the callers that wait for it; on a full disk keep it open and retry later.

        After any other failure the callers get DatabaseError, and so does every later statement, query and commit. Does nothing if
        no transaction is open.
        """
        if self._connection is None or self._commit_timer is None:
            return
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                self._restart_transaction(self._connection)
                return
            waiting = self._end_transaction()
            # the state in memory is ahead of that on disk: from now on every use fails
            self._broken = DatabaseError(f"the queue database {self._path} could not commit: {error}")
            self._connection.rollback()
            self._cache.clear()
            for future in waiting:
                future.set_exception(self._broken)
            return
        waiting = self._end_transaction()
        self._full = False
        self._written.clear()
        for future in waiting:
            future.set_result(None)

    def _restart_transaction(self, connection: sqlite3.Connection) -> None:
        """Replace a transaction that found the disk full with a new one of the same statements, and retry the commit later.

        Callers of `commit_if_room` get NoRoom; callers of `commit` go on waiting.
        """
        self._full = True
        committed, refusable = self._committed, self._refusable
        self._refusable = None
        self._end_transaction()
        if refusable is not None:
            refusable.set_exception(self._no_room_error())
            refusable.exception()  # marks it as retrieved: the callers may all be cancelled
        connection.rollback()
        connection.execute("BEGIN IMMEDIATE")
        for statement, parameters in self._written:
            connection.execute(statement, parameters)
        self._committed = committed
        self._commit_timer = asyncio.get_running_loop().call_later(FULL_DISK_RETRY, self._commit_transaction)
