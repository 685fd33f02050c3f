"""Moments: a function is called when the n-th unit of a kind was forwarded, or (`arrived`) before it is."""

import asyncio
from typing import Any

import pytest

from conformance.history.events import Content, Reply
from conformance.scenarios.steps.nodes import Moment
from tests.wire.peers import World, run


def moment(**fields: Any) -> Moment:
    return Moment.model_validate({"from": "a", "to": "b", **fields})


@pytest.mark.parametrize(
    ("after", "last", "replies"),
    [("NOOP", b"250 2.0.0 NOOP\r\n", ["GREETING", "NOOP"]), ("greeting", b"220 mini\r\n", ["GREETING"])],
)
def test_a_moment_after_a_reply_does_not_hold_the_reply(after: str, last: bytes, replies: list[str]) -> None:
    async def test(world: World) -> None:
        may_end, recorded = asyncio.Event(), list[str]()

        async def do() -> None:
            recorded.extend(event.to for event in world.events(Reply))
            await may_end.wait()
            recorded.append("end")

        world.links.run_at_moment(moment(after=after), do)
        client = await world.connect_greeted()
        client.write(b"NOOP\r\n" * (after == "NOOP"))
        await client.wait_for(last)
        await world.wait_round_trip()
        assert recorded == replies
        may_end.set()
        await world.wait_round_trip()
        assert recorded == [*replies, "end"]

    run(test)


def test_a_moment_at_arrival_holds_the_reply_until_the_function_returns() -> None:
    async def test(world: World) -> None:
        may_end, began = asyncio.Event(), asyncio.Event()

        async def do() -> None:
            began.set()
            await may_end.wait()

        world.links.run_at_moment(moment(after="NOOP", nth=2, arrived=True), do)
        client = await world.connect_greeted()
        await client.exchange(b"NOOP\r\n", b"NOOP\r\n")
        client.write(b"NOOP\r\n")
        await began.wait()
        await world.wait_round_trip()
        assert client.octets.count(b"NOOP") == 1
        may_end.set()
        await client.wait_for(b"NOOP\r\n250 2.0.0 NOOP\r\n")

    run(test)


def test_an_acknowledgement_that_arrived_before_its_server_was_killed_is_forwarded_before_the_reset() -> None:
    async def test(world: World) -> None:
        octets_at_the_kill: list[bytes] = []

        async def kill() -> None:
            world.server.close_with_rst()
            await world.wait_round_trip()
            octets_at_the_kill.append(client.octets)

        world.links.run_at_moment(moment(after="dot", arrived=True), kill)
        client = await world.connect_greeted()
        await client.exchange(b"DATA\r\n", b"354 ")
        before = client.octets
        client.write(b"\r\nx\r\n.\r\n")
        assert await client.wait_closed() == "reset"
        assert octets_at_the_kill == [before]
        assert client.octets == before + b"250 2.0.0 stored\r\n"
        assert len(world.events(Content)) == 1

    run(test)


def test_the_final_dot_is_a_moment_before_its_reply() -> None:
    async def test(world: World) -> None:
        seen: list[tuple[int, str]] = []

        async def do() -> None:
            seen.append((len(world.events(Content)), world.events(Reply)[-1].to))

        world.links.run_at_moment(moment(after="content"), do)
        client = await world.connect_greeted()
        await client.exchange(b"DATA\r\n", b"354 ")
        await client.exchange(b"x\r\n.\r\n", b"stored")
        assert seen == [(1, "DATA")], "the content is recorded, and its reply is not"

    run(test)


def test_an_exception_at_a_moment_is_raised_when_the_links_close() -> None:
    async def test(world: World) -> None:
        async def do() -> None:
            raise LookupError("no such node")

        world.links.run_at_moment(moment(after="greeting"), do)
        await world.connect_greeted()
        await world.wait_round_trip()
        with pytest.raises(LookupError, match="no such node"):
            await world.links.close()

    run(test)
