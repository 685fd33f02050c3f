"""Discard status, the primary's side: to whom what is told, once, and for how long (SR-MNT-04, -05, -12, SR-WIR-04, -05)."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from conformance.reference.host import Host
from conformance.reference.message import Message
from tests.reference.furnished import HandClock, furnished, live, stored


def processed(host: Host, *holders: str, acknowledged: bool = True) -> Message:
    message = stored(host)
    for holder in holders:
        host.discards.add_holder(message.id, holder, message.shadow_id, acknowledged=acknowledged)
    host.discard_status.queue_notifications(message)
    return message


def told(lines: list[str]) -> list[str]:
    return [line.split()[-1] for line in lines if " discard " in line]


run = partial(live, topology="three-servers-one-dag")


def test_each_server_is_told_of_its_own_shadows_only(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        two, three = processed(host, "mbx2"), processed(host, "mbx3")
        assert told((await host.discard_status.answer_query("mbx2", 10))[0]) == [two.shadow_id]
        assert told((await host.discard_status.answer_query("mbx3", 10))[0]) == [three.shadow_id]
        assert told((await host.discard_status.answer_query("mbx4", 10))[0]) == []

    run(tmp_path, life)


def test_a_message_without_a_shadow_has_nothing_to_tell(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        processed(host)
        assert list(host.discards.all_events()) == []

    run(tmp_path, life)


def test_a_server_whose_reply_was_lost_is_told_too_for_it_may_hold_a_copy(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        message = processed(host, "mbx2", acknowledged=False)
        assert told((await host.discard_status.answer_query("mbx2", 10))[0]) == [message.shadow_id]

    run(tmp_path, life)


@pytest.mark.parametrize(("number", "most"), [(5, 2), (4, 2), (3, 1), (1, 100), (0, 7)])
def test_portions_tell_everything_once_and_say_how_much_is_left(tmp_path: Path, number: int, most: int):
    async def life(host: Host, clock: HandClock) -> None:
        expected = [processed(host, "mbx2").shadow_id for _ in range(number)]
        heard: list[str] = []
        while True:
            lines, events = await host.discard_status.answer_query("mbx2", most)
            heard += told(lines)
            assert len(events) <= most
            assert lines[-1] == f"250 2.0.0 end {number - len(heard)}"
            host.discard_status.confirm_read(events)
            if len(heard) == number:
                break
        assert heard == expected
        assert list(host.discards.all_events()) == []

    run(tmp_path, life)


def test_what_was_not_heard_is_told_again_and_what_is_being_told_is_not_told_twice(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        message = processed(host, "mbx2")
        _, first = await host.discard_status.answer_query("mbx2", 10)
        lines, second = await host.discard_status.answer_query("mbx2", 10)  # another session, at the same time
        assert (second, lines[-1]) == ([], "250 2.0.0 end 0")
        host.discard_status.release_unread(first)
        assert told((await host.discard_status.answer_query("mbx2", 10))[0]) == [message.shadow_id]

    run(tmp_path, life)


def test_events_survive_a_kill_of_the_primary(tmp_path: Path):
    async def life() -> None:
        async with furnished(tmp_path) as (host, _):
            message = processed(host, "mbx2")
            await host.discard_status.answer_query("mbx2", 10)  # told, and not heard
        async with furnished(tmp_path) as (host, _):
            assert told((await host.discard_status.answer_query("mbx2", 10))[0]) == [message.shadow_id]

    asyncio.run(life())


@pytest.mark.parametrize("interval", [172800, 3600])
def test_events_are_deleted_after_the_auto_discard_interval_and_not_before(tmp_path: Path, interval: int):
    async def life(host: Host, clock: HandClock) -> None:
        processed(host, "mbx2")
        clock.advance(interval - 1)
        host.discard_status.drop_expired()
        assert len(list(host.discards.all_events())) == 1
        clock.advance(1)
        host.discard_status.drop_expired()
        assert list(host.discards.all_events()) == []

    run(tmp_path, life, ShadowMessageAutoDiscardInterval=interval)
