"""Moments: what is to be done is done when the n-th unit of its kind has passed, or before it does."""

import asyncio
from typing import Any

import pytest

from conformance.history.events import Content, Reply
from conformance.scenarios.steps.nodes import Moment
from tests.wire.peers import World, run


def moment(**fields: Any) -> Moment:
    return Moment.model_validate({"from": "a", "to": "b", **fields})


@pytest.mark.parametrize(("after", "last"), [("NOOP", b"250 2.0.0 NOOP\r\n"), ("greeting", b"220 mini\r\n")])
def test_after_a_reply_has_passed(after: str, last: bytes) -> None:
    async def test(world: World) -> None:
        came = asyncio.Event()

        async def do() -> None:
            came.set()

        world.links.run_at_moment(moment(after=after), do)
        client = await world.greeted()
        client.say(b"NOOP\r\n")
        await came.wait()
        await client.until(last)
        assert world.events(Reply)[-1].to in ("GREETING", "NOOP")

    run(test)


def test_when_it_has_arrived_it_passes_only_when_all_is_done() -> None:
    async def test(world: World) -> None:
        may_end, began = asyncio.Event(), asyncio.Event()

        async def do() -> None:
            began.set()
            await may_end.wait()

        world.links.run_at_moment(moment(after="NOOP", nth=2, arrived=True), do)
        client = await world.greeted()
        await client.ask(b"NOOP\r\n", b"NOOP\r\n")
        client.say(b"NOOP\r\n")
        await began.wait()
        await world.beat()
        assert client.octets.count(b"NOOP") == 1
        may_end.set()
        await client.until(b"NOOP\r\n250 2.0.0 NOOP\r\n")

    run(test)


def test_killed_between_the_acknowledgement_and_its_passing_on() -> None:
    async def test(world: World) -> None:
        async def kill() -> None:
            world.server.leave_with_reset()
            await asyncio.sleep(0)

        world.links.run_at_moment(moment(after="dot", arrived=True), kill)
        client = await world.greeted()
        await client.ask(b"DATA\r\n", b"354 ")
        client.say(b"\r\nx\r\n.\r\n")
        await world.server.until(b"x\r\n.\r\n")
        assert await client.left() == "reset"
        assert len(world.events(Content)) == 1

    run(test)


def test_the_final_dot_is_a_moment_of_its_own() -> None:
    async def test(world: World) -> None:
        seen: list[int] = []

        async def do() -> None:
            seen.append(len(world.events(Content)))

        world.links.run_at_moment(moment(after="content"), do)
        client = await world.greeted()
        await client.ask(b"DATA\r\n", b"354 ")
        await client.ask(b"x\r\n.\r\n", b"stored")
        assert seen == [1]

    run(test)


def test_what_fails_at_a_moment_is_raised_at_the_end() -> None:
    async def test(world: World) -> None:
        async def do() -> None:
            raise LookupError("no such node")

        world.links.run_at_moment(moment(after="greeting"), do)
        await world.greeted()
        await world.beat()
        with pytest.raises(LookupError, match="no such node"):
            await world.links.close()

    run(test)
