"""Faults that change when octets pass, and in what pieces: stall, delay, throttle, split, merge."""

import asyncio
import time

import pytest

from conformance.history.events import Closed, Command, Content, FaultArmed, FaultFired, Reply
from tests.wire.peers import BODY, World, run, send_message


def test_a_stall_holds_one_direction_until_it_is_healed() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="MAIL", times=None)
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\nRSET\r\n")
        await world.wait_for_event(FaultFired)
        world.server.write(b"250 unasked\r\n")
        await client.wait_for(b"unasked\r\n")
        await world.wait_round_trip()
        assert world.server.octets == b""
        assert [e.verb for e in world.events(Command) if e.session == "s1"] == []
        world.links.heal("f")
        await client.wait_for(b"RSET\r\n")
        assert world.server.octets == b"MAIL FROM:<x@y>\r\nRSET\r\n"
        assert [e.healed for e in world.events(FaultArmed)] == [False, True]
        received = client.octets
        world.arm("stall", at="MAIL", when="after")  # holds the other direction
        client.write(b"MAIL FROM:<z@y>\r\nNOOP\r\n")
        await world.server.wait_for(b"MAIL FROM:<z@y>\r\nNOOP\r\n")
        await world.wait_round_trip()
        assert (len(world.events(FaultFired)), client.octets) == (2, received)
        world.links.heal("f")
        await client.wait_for(received + b"250 2.0.0 MAIL\r\n250 2.0.0 NOOP\r\n")

    run(test)


@pytest.mark.parametrize("when", ["before", "after"])
def test_fin_after_a_stalled_unit_is_forwarded_after_it(when: str) -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="MAIL", when=when)
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\n")
        if when == "after":
            await world.wait_for_event(FaultFired)
        one, other = (client, world.server) if when == "before" else (world.server, client)
        one.transport.write_eof()
        await world.wait_for_event(FaultFired)
        await world.wait_round_trip()
        assert other.closed_with is None
        world.links.heal("all")
        assert await other.wait_closed() == "fin"
        assert world.server.octets == b"MAIL FROM:<x@y>\r\n"
        await client.wait_for(b"220 mini\r\n250 2.0.0 MAIL\r\n")

    run(test)


def test_a_reply_to_a_client_that_has_reset_is_not_recorded() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="MAIL")
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\n")
        await world.wait_for_event(FaultFired)
        client.close_with_rst()
        await world.wait_round_trip()
        world.server.write(b"250 unheard\r\n")
        await world.wait_round_trip()
        world.links.heal("f")
        assert await world.server.wait_closed() == "reset"
        assert [e.lines for e in world.events(Reply) if e.session == "s1"] == [("mini",)]

    run(test)


@pytest.mark.parametrize("does", ["stall", "delay"])
def test_a_delay_lasts_for_documented_seconds(does: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="MAIL", when="after", lasting="5m")
        world.convert_duration = lambda seconds: seconds / 1000
        client = await world.connect_greeted()
        began = time.monotonic()
        await client.exchange(b"MAIL FROM:<x@y>\r\n", b"MAIL\r\n")
        assert world.requested_waits == [300.0]
        assert time.monotonic() - began >= 0.29
        assert world.detail == "after MAIL: 250 2.0.0 MAIL"

    run(test)


@pytest.mark.long
def test_a_stall_stops_reading_from_a_client_that_floods() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="body", offset=10)
        client = await world.connect_greeted()
        await client.exchange(b"DATA\r\n", b"354 ")
        client.write(b"y" * 30_000_000)
        await world.wait_for_event(FaultFired)
        (relay,) = (relay for relay in world.relays if relay.pair.server == "b")
        reading = relay.client._transport
        assert reading is not None
        while reading.is_reading():
            await asyncio.sleep(0)
        await world.wait_round_trip()
        assert not reading.is_reading()
        assert relay.to_server._queued < 1_000_000
        assert world.server.octets == b"DATA\r\n" + b"y" * 10
        world.links.heal("f")
        await client.exchange(b"\r\n.\r\n", b"stored")
        assert world.events(Content)[0].digest.size == 30_000_002

    run(test)


def test_a_throttled_content_arrives_whole_in_small_pieces() -> None:
    async def test(world: World) -> None:
        world.arm("throttle", at="DATA", rate=100)
        client = await world.connect_greeted()
        await send_message(client)
        assert world.server.octets.endswith(b"DATA\r\n" + BODY + b".\r\n")
        assert world.requested_waits == [0.01]
        body = world.server.reads[2:]
        assert max(map(len, body)) <= 10

    run(test)


@pytest.mark.parametrize(("at", "greeted"), [("RSET", b"220 mini\r\n"), ("connect", b"2")])
def test_healing_a_throttle_restores_the_speed(at: str, greeted: bytes) -> None:
    async def test(world: World) -> None:
        world.arm("throttle", at=at, rate=10)
        world.convert_duration = lambda seconds: 3600.0
        client = await world.connect()
        await client.wait_for(greeted)
        client.write(b"RSET\r\nNOOP\r\n")
        await world.server.wait_for(b"R")
        await world.wait_round_trip()
        assert (world.server.octets, client.octets) == (b"R", greeted)
        world.links.heal("f")
        await client.wait_for(b"NOOP\r\n")
        await client.exchange(b"RSET\r\n", b"250 2.0.0 RSET\r\n")
        assert world.server.octets == b"RSET\r\nNOOP\r\nRSET\r\n"

    run(test)


def test_a_split_command_arrives_in_single_octets() -> None:
    async def test(world: World) -> None:
        world.arm("split", at="MAIL", times=None)
        client = await world.connect_greeted()
        split = b"MAIL FROM:<x@y>\r\n"
        await client.exchange(b"NOOP\r\n" + split + b"RSET\r\n", b"RSET\r\n")
        assert world.server.octets == b"NOOP\r\n" + split + b"RSET\r\n"
        # the first octet may come with NOOP, and the last one with RSET
        assert split[1:-1] in b"".join(read for read in world.server.reads if len(read) == 1)
        assert world.server.reads[-1].endswith(b"RSET\r\n")

    run(test)


def test_a_merged_command_arrives_with_the_next_one() -> None:
    async def test(world: World) -> None:
        world.arm("merge", at="MAIL", lasting="1h")
        client = await world.connect_greeted()
        world.convert_duration = lambda seconds: seconds
        client.write(b"MAIL FROM:<x@y>\r\n")
        await world.wait_for_event(FaultFired)
        await world.wait_round_trip()
        assert world.server.reads == []
        assert [e.verb for e in world.events(Command) if e.session == "s1"] == []
        await client.exchange(b"RSET\r\n", b"RSET\r\n")
        assert world.server.reads == [b"MAIL FROM:<x@y>\r\nRSET\r\n"]
        assert [e.verb for e in world.events(Command) if e.session == "s1"] == ["MAIL", "RSET"]

    run(test)


def test_a_merged_reply_that_the_client_does_not_wait_for_is_not_recorded() -> None:
    async def test(world: World) -> None:
        world.arm("merge", at="RSET", when="after", lasting="1h", times=2)
        client = await world.connect_greeted()
        world.convert_duration = lambda seconds: seconds
        client.write(b"RSET\r\n")
        await world.wait_for_event(FaultFired)
        client.close_with_rst()
        await world.wait_for_event(Closed)
        assert [e.to for e in world.events(Reply)] == ["GREETING"]
        patient = await world.connect_greeted()
        await patient.exchange(b"RSET\r\nNOOP\r\n", b"NOOP\r\n")
        assert len(world.events(FaultFired)) == 2
        world.links.heal("f")  # which forwards what is still kept
        assert [(e.session, e.to) for e in world.events(Reply)][1:] == [
            ("s2", "GREETING"),
            ("s2", "RSET"),
            ("s2", "NOOP"),
        ]

    run(test)


@pytest.mark.parametrize(("lasting", "wait"), [("3s", 3.0), (None, 1.0)])
def test_a_merged_command_that_none_follows_arrives_after_the_wait(lasting: str | None, wait: float) -> None:
    async def test(world: World) -> None:
        world.arm("merge", at="MAIL", lasting=lasting)
        world.convert_duration = lambda seconds: seconds / 10
        client = await world.connect_greeted()
        began = time.monotonic()
        await client.exchange(b"MAIL FROM:<x@y>\r\n", b"MAIL\r\n")
        assert world.requested_waits == [wait]
        assert time.monotonic() - began >= wait / 10 - 0.01

    run(test)


def test_healing_a_merge_forwards_what_it_keeps() -> None:
    async def test(world: World) -> None:
        world.arm("merge", at="MAIL", lasting="1h")
        world.convert_duration = lambda seconds: seconds
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\n")
        await world.wait_for_event(FaultFired)
        await world.wait_round_trip()
        assert world.server.reads == []
        world.links.heal("f")
        await client.wait_for(b"250 2.0.0 MAIL\r\n")

    run(test)


@pytest.mark.parametrize("does", ["stall", "delay"])
def test_each_connection_that_a_fault_holds_is_held_for_the_whole_time(does: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="connect", lasting="5m", times=2)
        world.convert_duration = lambda seconds: 0.05
        first = await world.connect()
        await world.wait_for_event(FaultFired)
        world.convert_duration = lambda seconds: 3600.0
        second = await world.connect()
        await first.wait_for(b"220 mini\r\n")
        await world.wait_round_trip()
        assert (len(world.events(FaultFired)), len(world.served), second.octets) == (2, 1, b"")
        assert world.requested_waits == [300.0, 300.0]
        world.links.heal("f")
        await second.wait_for(b"220 mini\r\n")

    run(test)
