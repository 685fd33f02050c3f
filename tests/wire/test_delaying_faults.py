"""Faults that change when octets pass, and in what pieces: stalled, delayed, throttled, split and merged."""

import pytest

from conformance.history.events import Command, Content, FaultArmed, FaultFired, Reply
from tests.wire.peers import BODY, World, run, send


def test_stalled_until_healed_and_in_one_direction_only() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="MAIL", times=None)
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\nRSET\r\n")
        await world.event(FaultFired)
        world.server.say(b"250 unasked\r\n")
        await client.until(b"unasked\r\n")
        await world.beat()
        assert world.server.octets == b""
        assert [e.verb for e in world.events(Command) if e.session == "s1"] == []
        world.links.heal("f")
        await client.until(b"RSET\r\n")
        assert world.server.octets == b"MAIL FROM:<x@y>\r\nRSET\r\n"
        assert [e.healed for e in world.events(FaultArmed)] == [False, True]

    run(test)


def test_what_leaves_behind_a_stall_is_passed_on_after_it() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="MAIL")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        client.transport.write_eof()
        await world.event(FaultFired)
        await world.beat()
        assert world.server.how is None
        world.links.heal("all")
        assert await world.server.left() == "fin"
        assert world.server.octets == b"MAIL FROM:<x@y>\r\n"

    run(test)


def test_what_is_said_to_a_client_that_reset_is_not_recorded() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="MAIL")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        await world.event(FaultFired)
        client.leave_with_reset()
        await world.beat()
        world.server.say(b"250 to nobody\r\n")
        await world.beat()
        assert [e.lines for e in world.events(Reply) if e.session == "s1"] == [("mini",)]
        world.links.heal("f")
        assert await world.server.left() == "reset"

    run(test)


@pytest.mark.parametrize("does", ["stall", "delay"])
def test_delayed_for_documented_seconds(does: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="MAIL", when="after", lasting="5m")
        client = await world.greeted()
        await client.ask(b"MAIL FROM:<x@y>\r\n", b"MAIL\r\n")
        assert world.asked_to_wait == [300.0]
        assert world.detail == "after MAIL: 250 2.0.0 MAIL"

    run(test)


def test_a_stalled_flood_stops_the_client() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="body", offset=10)
        client = await world.greeted()
        await client.ask(b"DATA\r\n", b"354 ")
        client.say(b"y" * 30_000_000)
        await world.event(FaultFired)
        await world.beat()
        (relay,) = (relay for relay in world.relays if relay.pair.server == "b")
        assert relay.to_server._queued < 1_000_000
        assert world.server.octets == b"DATA\r\n" + b"y" * 10
        world.links.heal("f")
        await client.ask(b"\r\n.\r\n", b"stored")
        assert world.events(Content)[0].digest.size == 30_000_002

    run(test)


def test_throttled_to_a_rate_it_all_arrives_in_small_pieces() -> None:
    async def test(world: World) -> None:
        world.arm("throttle", at="DATA", rate=100)
        client = await world.greeted()
        await send(client)
        assert world.server.octets.endswith(b"DATA\r\n" + BODY + b".\r\n")
        assert world.asked_to_wait == [0.01]
        body = world.server.reads[2:]
        assert max(map(len, body)) <= 10

    run(test)


def test_healed_a_throttled_lane_is_as_fast_as_before() -> None:
    async def test(world: World) -> None:
        world.arm("throttle", at="RSET", rate=10)
        client = await world.greeted()
        world.waits = lambda seconds: 3600.0
        client.say(b"RSET\r\nNOOP\r\n")
        await world.server.until(b"R")
        await world.beat()
        assert world.server.octets == b"R"
        world.links.heal("f")
        await client.until(b"NOOP\r\n")
        client.say(b"RSET\r\n")
        await world.server.until(b"NOOP\r\nRSET\r\n")

    run(test)


def test_split_into_single_octets() -> None:
    async def test(world: World) -> None:
        world.arm("split", at="MAIL", times=None)
        client = await world.greeted()
        await client.ask(b"NOOP\r\nMAIL FROM:<x@y>\r\nRSET\r\n", b"RSET\r\n")
        assert world.server.octets == b"NOOP\r\nMAIL FROM:<x@y>\r\nRSET\r\n"
        assert max(map(len, world.server.reads[1:-1])) == 1
        assert world.server.reads[-1].endswith(b"RSET\r\n")

    run(test)


def test_merged_with_what_follows() -> None:
    async def test(world: World) -> None:
        world.arm("merge", at="MAIL", lasting="1h")
        client = await world.greeted()
        world.waits = lambda seconds: seconds
        client.say(b"MAIL FROM:<x@y>\r\n")
        await world.event(FaultFired)
        await world.beat()
        assert world.server.reads == []
        await client.ask(b"RSET\r\n", b"RSET\r\n")
        assert world.server.reads == [b"MAIL FROM:<x@y>\r\nRSET\r\n"]

    run(test)


def test_merged_with_nothing_it_passes_in_the_end() -> None:
    async def test(world: World) -> None:
        world.arm("merge", at="MAIL", lasting="3s")
        client = await world.greeted()
        await client.ask(b"MAIL FROM:<x@y>\r\n", b"MAIL\r\n")
        assert world.asked_to_wait == [3.0]

    run(test)
