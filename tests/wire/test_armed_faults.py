"""Arming faults of any kind: at which occurrence they fire, what they leave unchanged, and which are refused."""

from typing import Any

import pytest

from conformance.history.events import FaultArmed, FaultFired
from tests.wire.peers import World, run


def test_nth_counts_over_all_sessions_and_times_limits_the_firings() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="NOOP", reply="500 f", nth=2, times=2, to="*")
        first, second = await world.connect_greeted(), await world.connect("c")
        await second.wait_for(b"220 mini\r\n")
        for n, client in enumerate((first, second, first, second)):
            await client.exchange(b"NOOP\r\n", b"NOOP\r\n" if n in (0, 3) else b"500 f\r\n")
        assert [e.session for e in world.events(FaultFired)] == ["s2", "s1"]

    run(test)


@pytest.mark.parametrize(
    ("operation", "line"),
    [
        ("request-shadow", b"XSHADOWREQUEST a db-1\r\n"),
        ("track-shadow", b"XSHADOW a db-1\r\n"),
        ("shadow-message", b"MAIL FROM:<x@y> XSHADOW=db-1-1\r\n"),
        ("query-discard", b"XQDISCARD a 10\r\n"),
        ("query-discard", b"XQUERYDISCARD a 10\r\n"),
    ],
)
def test_a_fault_at_an_operation_fires_at_its_command(operation: str, line: bytes) -> None:
    async def test(world: World) -> None:
        world.arm("drop", at=operation)
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\nRSET\r\n" + line)
        assert await world.server.wait_closed() == "fin"
        assert world.server.octets == b"MAIL FROM:<x@y>\r\nRSET\r\n"

    run(test)


@pytest.mark.parametrize(
    ("fields", "link"),
    [
        ({"to": "c"}, ("a", "c", "smtp")),
        ({"from": "d", "to": "*"}, ("d", "c", "smtp")),
        ({"listener": "lmtp"}, ("a", "b", "lmtp")),
    ],
    ids=["to another server", "from another client", "to another listener"],
)
def test_a_fault_on_another_link_changes_nothing(fields: dict[str, str], link: tuple[str, str, str]) -> None:
    async def test(world: World) -> None:
        await world.links.open("a", "b", "lmtp", world.links.link("a", "b", "smtp").target)
        world.arm("drop", at="NOOP", **fields)
        client = await world.connect_greeted()
        await client.exchange(b"NOOP\r\n", b"NOOP\r\n")
        world.arm("drop", at="VRFY", **{"as": "own"})  # from now on this link too asks the faults about each unit
        await client.exchange(b"NOOP\r\n", b"NOOP\r\n")
        assert not world.events(FaultFired)
        client_name, server, listener = link
        assert world.events(FaultArmed)[0].links == (f"{client_name} -> {server} {listener}",)
        other = await world.connect(server, client=client_name, listener=listener)
        other.write(b"NOOP\r\n")
        assert await other.wait_closed() == "fin", "on its own link it fires"

    run(test)


@pytest.mark.parametrize("armed", [True, False])
@pytest.mark.parametrize("said_by", ["client", "server"])
def test_an_unfinished_line_before_fin_is_forwarded_once(armed: bool, said_by: str) -> None:
    async def test(world: World) -> None:
        if armed:
            world.arm("drop", at="MAIL")
        client = await world.connect_greeted()
        one, other = (client, world.server) if said_by == "client" else (world.server, client)
        before = other.octets
        one.write(b"NO")
        one.transport.write_eof()
        assert await other.wait_closed() == "fin"
        if armed:
            world.links.heal("f")
        await world.wait_round_trip()
        assert other.octets == before + b"NO"

    run(test)


def test_an_unfinished_line_is_forwarded_as_soon_as_no_fault_is_armed() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="RSET")
        client = await world.connect_greeted()
        client.write(b"NO")
        await world.wait_round_trip()
        world.server.write(b"42")
        await world.wait_round_trip()
        assert (world.server.octets, client.octets) == (b"", b"220 mini\r\n")  # armed: unit by unit
        world.links.heal("f")
        await world.server.wait_for(b"NO")
        await client.wait_for(b"220 mini\r\n42")
        world.server.write(b"1 unasked\r\n")
        await client.wait_for(b"220 mini\r\n421 unasked\r\n")
        await client.exchange(b"OP\r\n", b"NOOP\r\n")
        assert world.server.octets == b"NOOP\r\n"

    run(test)


def test_a_fault_armed_amid_a_line_duplicates_no_octets() -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        client.write(b"NO")
        await world.server.wait_for(b"NO")
        world.server.write(b"42")
        await client.wait_for(b"42")
        world.arm("drop", at="RSET")
        world.server.write(b"1 unasked\r\n")
        await client.wait_for(b"unasked\r\n")
        assert client.octets == b"220 mini\r\n421 unasked\r\n"
        client.write(b"OP\r\nNOOP\r\n")
        await world.server.wait_for(b"NOOP\r\nNOOP\r\n")
        client.write(b"RSET\r\n")
        assert await world.server.wait_closed() == "fin"
        assert world.server.octets == b"NOOP\r\nNOOP\r\n"

    run(test)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"does": "refuse", "at": "MAIL"}, "refuse makes no sense at MAIL"),
        ({"does": "split", "at": "connect"}, "split makes no sense at connect"),
        ({"does": "garble", "at": "dot"}, "a garbled dot ends nothing"),
        ({"does": "stall", "at": "connect", "when": "heard"}, "nothing is heard at connect"),
        ({"does": "drop", "at": "body", "when": "answered"}, "nothing is answered at body"),
        ({"does": "stall", "at": "greeting", "when": "heard"}, "nothing is heard at greeting"),
        ({"does": "garble", "at": "MAIL", "when": "answered"}, "garble comes too late when MAIL was answered"),
        ({"does": "delay", "at": "MAIL"}, "delay needs `lasting`"),
        ({"does": "throttle"}, "throttle needs `rate`"),
        ({"does": "replace", "at": "MAIL"}, "replace needs `reply`"),
        ({"does": "answer", "at": "MAIL"}, "answer needs `reply`"),
        ({"does": "drop", "to": "elsewhere"}, "concerns no link"),
    ],
)
def test_an_invalid_fault_is_refused(fields: dict[str, Any], words: str) -> None:
    async def test(world: World) -> None:
        world.arm("cut", at="NOOP")
        with pytest.raises(ValueError, match=words):
            world.arm(**fields)
        assert [(e.action, e.healed) for e in world.events(FaultArmed)] == [("cut", False)]
        world.links.heal("f")
        last = world.events(FaultArmed)[-1]
        assert (last.action, last.healed) == ("cut", True), "the valid fault of its name was still in force"

    run(test)


def test_only_a_fault_in_force_can_be_healed() -> None:
    async def test(world: World) -> None:
        with pytest.raises(ValueError, match="no fault or partition 'f'"):
            world.links.heal("f")
        world.arm("drop", at="NOOP")
        world.links.heal("f")
        assert [e.healed for e in world.events(FaultArmed)] == [False, True]
        client = await world.connect_greeted()
        await client.exchange(b"NOOP\r\n", b"NOOP\r\n")
        with pytest.raises(ValueError, match="no fault or partition 'f'"):
            world.links.heal("f")

    run(test)


@pytest.mark.parametrize("when", ["before", "heard"])
def test_a_fault_at_the_point_of_another_fires_at_the_next_occurrence(when: str) -> None:
    async def test(world: World) -> None:
        for name in ("first", "second"):
            world.arm("stall", **{"as": name}, at="NOOP", when=when, lasting=1)
        client = await world.connect_greeted()
        for n, fired in enumerate((["first"], ["first", "second"], ["first", "second"]), 1):
            client.write(b"NOOP\r\n")
            await client.wait_for(b"220 mini\r\n" + b"250 2.0.0 NOOP\r\n" * n)
            assert [event.fault for event in world.events(FaultFired)] == fired

    run(test)


@pytest.mark.parametrize("when", ["before", "heard"])
def test_a_fault_counts_the_occurrences_at_which_another_fires(when: str) -> None:
    async def test(world: World) -> None:
        world.arm("stall", **{"as": "first"}, at="NOOP", when=when, lasting=1)
        world.arm("stall", **{"as": "second"}, at="NOOP", when=when, lasting=1, nth=2)
        client = await world.connect_greeted()
        for n, fired in enumerate((["first"], ["first", "second"]), 1):
            client.write(b"NOOP\r\n")
            await client.wait_for(b"220 mini\r\n" + b"250 2.0.0 NOOP\r\n" * n)
            assert [event.fault for event in world.events(FaultFired)] == fired

    run(test)
