"""A queue database on a full disk: commits wait until there is room, so no unstored message is acknowledged (RL-ACK-01)."""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.reference.message import Envelope, Recipient
from conformance.reference.receive.acceptance import MessageOrigin
from conformance.reference.replies import NO_ROOM
from conformance.reference.storage import database as module
from conformance.reference.storage import schema
from conformance.reference.storage.database import RESERVE, Database
from conformance.reference.storage.identity import Identity
from tests.reference.hosts import CONTENT, add_primary, configured, lose_uncommitted, open_host, places


class FullDisk:
    """A connection whose commits fail while `full` is set, as SQLite's do: the transaction is rolled back.

    A statement outside of a transaction commits by itself.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.full = True
        self.refused = 0
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        alone = not self._connection.in_transaction and not statement.startswith(("BEGIN", "SELECT"))
        if (statement == "COMMIT" or alone) and self.full:
            self.refused += 1
            self._connection.rollback()
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._connection.execute(statement, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_commit_on_a_full_disk_waits_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FULL_DISK_RETRY", 0.001)

    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            before = add_primary(host)
            await host.db.commit()
            disk = host.db._connection = FullDisk(host.db._connection)
            host.messages.drop(before.id)
            one = add_primary(host, content=b"Message-ID: <full@test>\r\n\r\nfull\r\n")
            waiting = asyncio.create_task(host.db.commit())
            while disk.refused < 2:
                await asyncio.sleep(0.001)
            assert not waiting.done()
            assert not host.db.has_room(0)
            two = add_primary(host)
            late = asyncio.create_task(host.db.commit())
            assert [m.id for m in host.messages.held_as("primary")] == [one.id, two.id], (
                "uncommitted messages are visible"
            )
            disk.full = False
            await asyncio.gather(waiting, late)
            assert host.db.has_room(0)
            host.db.close()
            host.db.open()
            assert [m.id for m in host.messages.held_as("primary")] == [one.id, two.id]
            assert host.messages.content(one.id).endswith(b"full\r\n")

    asyncio.run(steps())


def test_a_write_to_a_full_disk_is_lost_when_the_node_is_killed(tmp_path: Path) -> None:
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            kept = add_primary(host)
            await host.db.commit()
            disk = host.db._connection = FullDisk(host.db._connection)
            add_primary(host)
            waiting = asyncio.create_task(host.db.commit())
            while not disk.refused:
                await asyncio.sleep(0)
            host.db.close()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            host.db.open()
            assert [message.id for message in host.messages.held_as("primary")] == [kept.id]
            assert host.db.has_room(0)

    asyncio.run(steps())


def test_a_message_that_finds_the_disk_full_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FULL_DISK_RETRY", 0.001)
    envelope = Envelope("alice@outside.test", (Recipient("victor@outside.test"),))
    origin = MessageOrigin("outside.test", "127.0.0.1", from_organisation=False, deadline=float("inf"))

    async def steps() -> None:
        async with open_host(tmp_path, configured("single-server")) as (host, _):
            await host.db.commit()
            disk = host.db._connection = FullDisk(host.db._connection)
            assert await host.acceptance.accept(envelope, CONTENT, origin) == NO_ROOM
            assert await host.acceptance.accept(envelope, CONTENT, origin) == NO_ROOM, "and while it is known"
            disk.full = False
            await host.db.commit()
            lose_uncommitted(host)
            assert places(host) == []
            assert host.delivery._processing == set()
            assert (await host.acceptance.accept(envelope, CONTENT, origin)).positive, "there is room now"
            assert places(host) == ["primary"]

    asyncio.run(steps())


def test_room_for_a_message_includes_its_log_and_the_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = RESERVE + 2000

    class Disk:
        f_bavail, f_frsize = free // 4, 4

    database = Database(tmp_path / "queue.db")
    database.open()
    monkeypatch.setattr(os, "statvfs", lambda path: Disk)
    assert (database.has_room(1000), database.has_room(1001)) == (True, False)
    database.close()


def test_an_empty_database_file_is_initialised_once(tmp_path: Path) -> None:
    """A node that is killed while it makes the database leaves an empty file."""
    (tmp_path / "queue.db").touch()
    database = Database(tmp_path / "queue.db")
    database.open()
    database.close()
    database.open()  # making the tables again would fail
    assert database.read("SELECT * FROM node") == []
    database.close()


def test_a_database_without_an_id_gets_one(tmp_path: Path) -> None:
    """A node may be killed after it made the tables and before it stored the id."""

    async def named() -> tuple[str, str]:
        database = Database(tmp_path / "queue.db")
        database.open()
        identity = Identity(database, directory=tmp_path, seed=1, name="mbx1", now=1.0)
        await database.commit()
        database.close()
        return identity.database, identity.new_id()

    connection = sqlite3.connect(tmp_path / "queue.db", isolation_level=None)
    schema.prepare(connection)
    assert connection.execute("SELECT * FROM node").fetchall() == []
    connection.close()
    first, second = asyncio.run(named()), asyncio.run(named())
    assert first[0]
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_an_autocommitted_write_on_a_full_disk_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FULL_DISK_RETRY", 0.001)

    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            await host.db.commit()
            disk = host.db._connection = FullDisk(host.db._connection)
            host.shadows.set_contact("mbx2", 1.0, alone=True)
            late = asyncio.create_task(host.db.commit())
            while disk.refused < 3:
                await asyncio.sleep(0.001)
            assert not late.done()
            disk.full = False
            await late
            host.db.close()
            host.db.open()
            assert [tuple(row) for row in host.db.read("SELECT server, at FROM contact")] == [("mbx2", 1.0)]

    asyncio.run(steps())
