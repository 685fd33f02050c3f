"""Duplicate detection: both properties, per mailbox, within the window (SR-DUP-01 to SR-DUP-05, SR-DUP-07)."""

import asyncio
from pathlib import Path

import pytest

from conformance.reference.host import Host
from tests.reference.hosts import CONTENT, HandClock, lose_uncommitted, open_host, run_ready_tasks, run_with_host

BOB = "bob@corp.test"
DAY = 86400.0


async def may_be_delivered(host: Host, content: bytes = CONTENT, mailbox: str = BOB) -> bool:
    """Return whether a message may be delivered to a mailbox now; if so, record that it was."""
    key = host.duplicates.key_of(mailbox, content)
    if key is None:
        return True
    if not await host.duplicates.claim_delivery(key):
        return False
    host.duplicates.end_delivery(key, delivered=True)
    return True


def test_the_same_message_may_be_delivered_once_to_each_mailbox(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        assert await may_be_delivered(host)
        assert not await may_be_delivered(host)
        assert not await may_be_delivered(host, mailbox="BOB@corp.test")
        assert await may_be_delivered(host, mailbox="eve@corp.test")
        assert not await may_be_delivered(host, mailbox="eve@corp.test")

    run_with_host(tmp_path, steps)


@pytest.mark.parametrize(
    ("change", "again", "always"),
    [
        ((b"<one@test>", b"<two@test>"), True, False),
        ((b"<one@test>", b"<ONE@test>"), True, False),
        ((b"10:00:00 +0000", b"10:00:01 +0000"), True, False),
        ((b"10:00:00 +0000", b"11:00:00 +0100"), False, False),
        ((b"<one@test>", b"one@test"), False, False),
        ((b"hello", b"good-bye"), False, False),
        ((b"Message-ID: <one@test>\r\n", b""), True, True),
        ((b"Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n", b""), True, True),
        ((b"Sat, 21 Nov 2026 10:00:00 +0000", b"the day before yesterday"), True, True),
    ],
    ids=["id", "id-in-capitals", "time", "zone", "brackets", "body", "no-id", "no-time", "unreadable-time"],
)
def test_which_messages_are_duplicates(tmp_path: Path, change: tuple[bytes, bytes], again: bool, always: bool):
    async def steps(host: Host, clock: HandClock) -> None:
        assert await may_be_delivered(host)
        changed = CONTENT.replace(*change)
        assert changed != CONTENT
        assert [await may_be_delivered(host, changed) for _ in range(2)] == [again, always]

    run_with_host(tmp_path, steps)


@pytest.mark.parametrize(
    ("window", "effective"), [(3600, 3600), (60, 60), (49 * DAY, 49 * DAY), (49 * DAY + 1, DAY), (366 * DAY, DAY)]
)
def test_a_duplicate_may_be_delivered_again_after_the_window(tmp_path: Path, window: float, effective: float):
    async def steps(host: Host, clock: HandClock) -> None:
        assert await may_be_delivered(host)
        clock.advance(effective - 1)
        assert not await may_be_delivered(host)
        clock.advance(1)
        assert await may_be_delivered(host)

    run_with_host(tmp_path, steps, DuplicateTrackingWindow=window)


@pytest.mark.parametrize("first_succeeds", [True, False])
def test_a_concurrent_duplicate_waits_for_the_first_delivery(tmp_path: Path, first_succeeds: bool):
    async def steps(host: Host, clock: HandClock) -> None:
        key = host.duplicates.key_of(BOB, CONTENT)
        assert key is not None
        assert await host.duplicates.claim_delivery(key)
        others = [asyncio.create_task(host.duplicates.claim_delivery(key)) for _ in range(3)]
        await run_ready_tasks()
        assert not any(other.done() for other in others)
        host.duplicates.end_delivery(key, delivered=first_succeeds)
        await run_ready_tasks()
        if not first_succeeds:  # one of the others delivers, and the rest wait for that one
            assert sum(other.done() for other in others) == 1
            host.duplicates.end_delivery(key, delivered=True)
        assert sorted(await asyncio.gather(*others)) == [False, False, not first_succeeds]

    run_with_host(tmp_path, steps)


def test_clean_up_removes_expired_entries_and_no_others(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        await may_be_delivered(host)
        clock.advance(2)
        two = CONTENT.replace(b"<one@test>", b"<two@test>")
        await may_be_delivered(host, two)
        clock.advance(3599)  # one second beside the window, on both sides
        assert host.delivered.count() == 2
        host.duplicates.clean_up()
        assert host.delivered.count() == 1
        assert not await may_be_delivered(host, two), "the entry of the second message is kept"
        clock.advance(3000)
        host.duplicates.clean_up()
        assert host.delivered.count() == 0

    run_with_host(tmp_path, steps)


def test_a_committed_delivery_is_remembered_after_a_kill(tmp_path: Path):
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            assert await may_be_delivered(host)
            await host.db.commit()
            lose_uncommitted(host)
        async with open_host(tmp_path) as (host, _):
            assert not await may_be_delivered(host)

    asyncio.run(steps())
