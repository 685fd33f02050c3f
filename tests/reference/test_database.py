"""The queue database: what is committed before a reply survives a kill, and a file that is not intact is refused (SR-CRE-04)."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.reference.storage.database import COMMIT_DELAY, Database, DatabaseError
from conformance.reference.storage.identity import Identity
from tests.reference.hosts import add_primary, lose_uncommitted, open_host, places, shadow


def opened(path: Path) -> Database:
    database = Database(path)
    database.open()
    return database


def test_only_committed_messages_survive_a_kill(tmp_path: Path):
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            first = add_primary(host)
            await host.db.commit()
            add_primary(host)
            lose_uncommitted(host)
            assert [message.id for message in host.messages.held_as("primary")] == [first.id]

    asyncio.run(steps())


def test_writers_in_the_same_iteration_of_the_loop_share_one_commit(tmp_path: Path):
    async def steps() -> int:
        async with open_host(tmp_path) as (host, _):
            await host.db.commit()
            commits = []
            host.db._connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)

            async def writer() -> None:
                add_primary(host)
                await host.db.commit()

            await asyncio.gather(*(writer() for _ in range(50)))
            host.db._connection.set_trace_callback(None)
            lose_uncommitted(host)
            assert places(host) == ["primary"] * 50
            return len(commits)

    assert asyncio.run(steps()) == 1


def test_statements_without_an_await_between_them_are_committed_together_or_not_at_all(tmp_path: Path):
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            message = add_primary(host)
            await host.db.commit()
            for committed in (False, True):
                host.messages.move(message.id, "safety-net", host.now())
                host.discards.queue_notification("mbx2", message.shadow_id, host.now())
                if committed:
                    await host.db.commit()
                lose_uncommitted(host)
                assert places(host) == ["safety-net" if committed else "primary"]
                assert len(list(host.discards.all_notifications())) == committed

    asyncio.run(steps())


def test_cached_rows_are_read_again_after_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            read = host.db.read
            monkeypatch.setattr(
                host.db, "read", lambda query, given=(): (asked.append(given[0]), read(query, given))[1]
            )

            def contact(server: str) -> list[tuple[float]]:
                rows = host.db.read_cached("SELECT at FROM contact WHERE server = ?", (server,))
                return [tuple(row) for row in rows]

            assert [contact("mbx1"), contact("mbx1"), contact("mbx2")] == [[], [], []]
            assert asked == ["mbx1", "mbx2"]
            host.db.write("INSERT OR REPLACE INTO contact (server, at) VALUES (?, ?)", ("mbx1", 5.0))
            assert [contact("mbx1"), contact("mbx2")] == [[(5.0,)], []]
            await host.db.commit()
            host.db.write_autocommit("INSERT OR REPLACE INTO contact (server, at) VALUES (?, ?)", ("mbx1", 6.0))
            assert contact("mbx1") == [(6.0,)]
            assert asked == ["mbx1", "mbx2", "mbx1", "mbx2", "mbx1"]

    asyncio.run(steps())


def test_a_failed_commit_is_raised_to_every_waiter_and_refuses_later_writes(tmp_path: Path):
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            await host.db.commit()
            host.db.write("PRAGMA defer_foreign_keys = ON")
            host.db.write("INSERT INTO content (message, octets) VALUES (4711, x'00')")
            waiters = (host.db.commit(), host.db.commit_if_room(), host.db.commit())
            results = await asyncio.wait_for(asyncio.gather(*waiters, return_exceptions=True), 10)
            assert [type(result) for result in results] == [DatabaseError] * 3
            assert all("could not commit" in str(result) for result in results)
            with pytest.raises(DatabaseError, match="could not commit"):
                add_primary(host)
            with pytest.raises(DatabaseError, match="could not commit"):
                host.shadows.set_contact("mbx2", 1.0, alone=True)
            host.db.close()
            host.db = opened(tmp_path / "queue.db")

    asyncio.run(steps())


def test_after_a_failed_commit_that_no_task_waited_for_nothing_counts_as_written_and_nothing_is_read(tmp_path: Path):
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            await host.db.commit()
            query = ("SELECT at FROM contact WHERE server = ?", ("mbx1",))
            host.db.write("PRAGMA defer_foreign_keys = ON")
            host.db.write("INSERT INTO content (message, octets) VALUES (4711, x'00')")
            assert host.db.read_cached(*query) == []
            host.db._commit_transaction()  # as its timer does
            for wait in (host.db.commit, host.db.commit_if_room):
                with pytest.raises(DatabaseError, match="could not commit"):
                    await wait()
            for read in (host.db.read, host.db.read_cached):
                with pytest.raises(DatabaseError, match="could not commit"):
                    read(*query)
            host.db.close()
            host.db = opened(tmp_path / "queue.db")

    asyncio.run(steps())


def test_an_open_database_is_locked_against_others(tmp_path: Path):
    first = opened(tmp_path / "queue.db")
    other = sqlite3.connect(tmp_path / "queue.db", timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("SELECT * FROM contact")
    first.close()
    assert other.execute("SELECT * FROM contact").fetchall() == []
    other.close()


@pytest.mark.parametrize(
    ("exists", "spoil", "message"),
    [
        (False, lambda path: path.write_bytes(b"this is no database at all" * 100), "cannot be used"),
        (False, lambda path: execute(path, "CREATE TABLE mine (x)"), "not a queue database"),
        (True, lambda path: execute(path, "PRAGMA user_version = 999"), "schema version is 999"),
        (True, lambda path: zero_pages(path), "cannot be used"),
    ],
    ids=["no-database", "of-another-program", "another-version", "damaged"],
)
def test_a_foreign_or_damaged_database_is_refused_with_its_path(
    tmp_path: Path, exists: bool, spoil: Callable[[Path], object], message: str
):
    path = tmp_path / "queue.db"
    if exists:
        opened(path).close()
    spoil(path)
    with pytest.raises(DatabaseError, match=message) as refused:
        opened(path)
    assert str(path) in str(refused.value)


def execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def zero_pages(path: Path) -> None:
    execute(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    octets = bytearray(path.read_bytes())
    octets[4096:16384] = bytes(12288)
    path.write_bytes(octets)


def test_a_wiped_database_gets_another_id_and_a_kept_one_keeps_its_id(tmp_path: Path):
    async def identities(times: int, *, wipe: bool) -> list[str]:
        found = []
        for _ in range(times):
            path = tmp_path / "queue.db"
            if wipe:
                for file in tmp_path.glob("queue.db*"):  # noqa: ASYNC240  # the node is down
                    file.unlink()
            database = Database(path)
            database.open()
            found.append(Identity(database, directory=tmp_path, seed=1, name="mbx1", now=1.0).database)
            await database.commit()
            database.close()
        return found

    assert len(set(asyncio.run(identities(3, wipe=True)))) == 3
    assert len(set(asyncio.run(identities(3, wipe=False)))) == 1


def test_a_message_id_that_was_lost_in_a_kill_is_not_used_again(tmp_path: Path):
    async def steps() -> list[str]:
        given = []
        for _ in range(3):
            async with open_host(tmp_path) as (host, _):
                given += [add_primary(host).message_id, host.identity.new_id()]
                lose_uncommitted(host)
                assert places(host) == [], "nothing on disk has the id"
        return given

    given = asyncio.run(steps())
    assert len(set(given)) == len(given)


def test_deleting_a_message_deletes_its_content_and_recipients(tmp_path: Path):
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            add_primary(host, "bob@corp.test", "eve@corp.test")
            kept = shadow(host, "mbx2", "s-1")
            for message in tuple(host.messages.held_as("primary")):
                host.messages.drop(message.id)
            assert places(host) == ["shadow"]
            assert [row[0] for row in host.db.read("SELECT message FROM content")] == [kept.id]
            assert [row[0] for row in host.db.read("SELECT DISTINCT message FROM recipient")] == [kept.id]

    asyncio.run(steps())


def test_a_write_that_no_task_waits_for_is_committed_after_the_delay(tmp_path: Path):
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            await host.db.commit()
            add_primary(host)
            await asyncio.sleep(0)
            lose_uncommitted(host)
            assert places(host) == []
            add_primary(host)
            await asyncio.sleep(COMMIT_DELAY * 2)  # the delay itself is tested
            lose_uncommitted(host)
            assert places(host) == ["primary"]

    asyncio.run(steps())


def contact(path: Path) -> list[tuple[str, float]]:
    database = opened(path / "queue.db")
    found = [(row[0], row[1]) for row in database.read("SELECT server, at FROM contact")]
    database.close()
    return found


def test_an_autocommitted_write_survives_a_kill_unless_a_transaction_is_open(tmp_path: Path):
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            await host.db.commit()
            host.shadows.set_contact("mbx2", 1.0, alone=True)
            add_primary(host)
            host.shadows.set_contact("mbx2", 2.0, alone=True)
            host.db.close()
            assert contact(tmp_path) == [("mbx2", 1.0)]
            host.db.open()

    asyncio.run(steps())
