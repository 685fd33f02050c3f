"""The queue database: transactions and group commit.

Statements run at once, inline on the loop, in one open transaction that is committed in the loop's next turn, once
for everybody who wrote or waits. So a group of statements without an `await` in between is atomic, many messages
share one commit, and what `durable()` returned from survives a kill.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.reference.storage import schema


class DatabaseError(Exception):
    """The queue database cannot be used: it is damaged, foreign, of another version, or in use."""


class Database:
    """One node's SQLite file, in write-ahead mode with a sync at every commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._committed: asyncio.Future[None] | None = None

    def open(self) -> bool:
        """Open the file, and make it where there is none; return whether it is new.

        Raises DatabaseError when it cannot be used.
        """
        new = not self._path.exists()
        try:
            self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._connection.row_factory = sqlite3.Row
            schema.prepare(self._connection, new=new)
        except (sqlite3.DatabaseError, schema.ForeignDatabase) as error:
            self.close()
            raise DatabaseError(f"the queue database {self._path} cannot be used: {error}") from error
        return new

    def write(self, statement: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement in the open transaction; the loop's next turn commits it."""
        connection = self._usable()
        if self._committed is None:
            connection.execute("BEGIN IMMEDIATE")
            loop = asyncio.get_running_loop()
            self._committed = loop.create_future()
            loop.call_soon(self._commit, self._committed)
        return connection.execute(statement, parameters)

    def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return all rows of a query; what was written and is not committed yet is seen."""
        return self._usable().execute(statement, parameters).fetchall()

    async def durable(self) -> None:
        """Return when all that was written so far is on disk. Raises DatabaseError when it could not be."""
        if self._committed is not None:
            await asyncio.shield(self._committed)

    def close(self) -> None:
        """Close at once: what is not committed is rolled back, as a kill would."""
        connection, self._connection = self._connection, None
        committed, self._committed = self._committed, None
        if committed is not None and not committed.done():
            committed.cancel()
        if connection is not None:
            connection.close()

    def _usable(self) -> sqlite3.Connection:
        if self._connection is None:
            raise DatabaseError(f"the queue database {self._path} is closed")
        return self._connection

    def _commit(self, committed: asyncio.Future[None]) -> None:
        if committed.cancelled() or self._connection is None:
            return
        self._committed = None
        try:
            self._connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._connection.rollback()
            committed.set_exception(DatabaseError(f"the queue database could not commit: {error}"))
        else:
            committed.set_result(None)
