"""Discard status on the primary: which server gets which discards, once, and for how long (SR-MNT-04, -05, -12, SR-WIR-04, -05)."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from conformance.reference.host import Host
from conformance.reference.message import Message
from tests.reference.hosts import HandClock, add_primary, lose_uncommitted, open_host, open_session, run_with_host


def processed(host: Host, *holders: str) -> Message:
    message = add_primary(host)
    for holder in holders:
        host.discards.add_holder(message.id, holder, message.shadow_id)
    host.discard_status.queue_notifications(message)
    return message


def discarded_ids(lines: list[str]) -> list[str]:
    return [line.split()[-1] for line in lines if " discard " in line]


run = partial(run_with_host, topology="three-servers-one-dag")


def test_each_server_gets_the_discards_of_its_own_shadows_only(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        two, three = processed(host, "mbx2"), processed(host, "mbx3")
        assert discarded_ids((await host.discard_status.answer_query("mbx2", 10))[0]) == [two.shadow_id]
        assert discarded_ids((await host.discard_status.answer_query("mbx3", 10))[0]) == [three.shadow_id]
        assert discarded_ids((await host.discard_status.answer_query("mbx4", 10))[0]) == []

    run(tmp_path, steps)


def test_the_number_that_is_left_does_not_count_what_another_session_has_not_confirmed(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        for _ in range(6):
            processed(host, "mbx2")
        _, first = await host.discard_status.answer_query("mbx2", 2)
        _, second = await host.discard_status.answer_query("mbx2", 3)
        host.discard_status.release_unread(first)  # the first session was lost; the second has not confirmed its three
        lines, again = await host.discard_status.answer_query("mbx2", 1)
        assert [event.id for event in again] == [first[0].id]
        assert lines[-1] == "250 2.0.0 end 2", "the other one of the first session, and the sixth"
        assert len(second) == 3

    run(tmp_path, steps)


def test_a_message_without_a_shadow_queues_no_discard(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        processed(host)
        assert list(host.discards.all_notifications()) == []
        shadowed = processed(host, "mbx2")
        assert [event.shadow_id for event in host.discards.all_notifications()] == [shadowed.shadow_id]

    run(tmp_path, steps)


@pytest.mark.parametrize(("number", "most"), [(5, 2), (4, 2), (3, 1), (1, 100), (0, 7)])
def test_pages_have_each_discard_once_and_the_number_that_is_left(tmp_path: Path, number: int, most: int):
    async def steps(host: Host, clock: HandClock) -> None:
        expected = [processed(host, "mbx2").shadow_id for _ in range(number)]
        received: list[str] = []
        while True:
            lines, events = await host.discard_status.answer_query("mbx2", most)
            received += discarded_ids(lines)
            assert len(events) <= most
            assert lines[-1] == f"250 2.0.0 end {number - len(received)}"
            host.discard_status.confirm_read(events)
            if len(received) == number:
                break
        assert received == expected
        assert list(host.discards.all_notifications()) == []

    run(tmp_path, steps)


def test_unread_discards_are_sent_again_but_not_in_two_sessions_at_once(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        message = processed(host, "mbx2")
        _, first = await host.discard_status.answer_query("mbx2", 10)
        lines, second = await host.discard_status.answer_query("mbx2", 10)  # another session, at the same time
        assert (second, lines[-1]) == ([], "250 2.0.0 end 0")
        host.discard_status.release_unread(first)
        assert discarded_ids((await host.discard_status.answer_query("mbx2", 10))[0]) == [message.shadow_id]

    run(tmp_path, steps)


def test_discards_of_a_query_that_is_cancelled_as_it_waits_for_the_disk_are_sent_again(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        message = processed(host, "mbx2")
        query = asyncio.create_task(host.discard_status.answer_query("mbx2", 10))
        await asyncio.sleep(0)
        assert not query.done()
        assert (await host.discard_status.answer_query("mbx2", 10))[1] == [], "the query that waits has it"
        query.cancel()  # as the session does when it is lost
        with pytest.raises(asyncio.CancelledError):
            await query
        assert discarded_ids((await host.discard_status.answer_query("mbx2", 10))[0]) == [message.shadow_id]

    run(tmp_path, steps)


def test_events_survive_a_kill_of_the_primary(tmp_path: Path):
    async def steps() -> None:
        async with open_host(tmp_path) as (host, _):
            expected = [processed(host, "mbx2").shadow_id for _ in range(2)]
            await host.db.commit()
            await host.discard_status.answer_query("mbx2", 10)
            lose_uncommitted(host)
        async with open_host(tmp_path) as (host, _):
            assert discarded_ids((await host.discard_status.answer_query("mbx2", 10))[0]) == expected

    asyncio.run(steps())


@pytest.mark.parametrize("interval", [172800, 3600])
def test_events_are_deleted_after_the_auto_discard_interval_and_not_before(tmp_path: Path, interval: int):
    async def steps(host: Host, clock: HandClock) -> None:
        began = clock.now()
        processed(host, "mbx2")
        clock.advance(1)
        processed(host, "mbx2")
        assert host.discard_status._alarm.due == began + interval
        clock.advance(interval - 2)
        left = []
        for _ in range(3):
            host.discard_status.drop_expired()
            left.append(len(list(host.discards.all_notifications())))
            clock.advance(1)
            assert host.discard_status._alarm.due == (None, began + interval + 1, began + interval)[left[-1]]
        assert left == [2, 1, 0]

    run(tmp_path, steps, ShadowMessageAutoDiscardInterval=interval)


@pytest.mark.parametrize(
    "line",
    [
        b"EHLO mbx2", b"HELO mbx2", b"STARTTLS", b"AUTH PLAIN", b"MAIL FROM:<>", b"RCPT TO:<bob@corp.test>", b"DATA",
        b"BDAT 0 LAST", b"RSET", b"NOOP", b"VRFY bob", b"HELP", b"XSHADOWREQUEST mbx2 db", b"XSHADOW mbx2 db",
        b"XQDISCARD mbx2 1", b"WHAT", b"", b"\xff", b"NOOP " + b"x" * 2000, b"QUIT",
    ],
)  # fmt: skip
def test_any_further_line_of_the_asking_server_shows_that_it_read_the_discards(tmp_path: Path, line: bytes):
    async def steps(host: Host, clock: HandClock) -> None:
        processed(host, "mbx2")
        async with open_session(host, "transport") as (reader, writer):
            writer.write(b"EHLO mbx2\r\nXQDISCARD mbx2 1\r\n")
            assert b"discard " in await reader.readuntil(b" end 0\r\n")
            assert list(host.discards.all_notifications()) != []
            writer.write(line + b"\r\n")
            await reader.readline()
            left = list(host.discards.all_notifications())
        assert left == []

    run_with_host(tmp_path, steps)
