"""Partitions and frozen parties: nothing comes through, and what is late is not lost."""

from typing import Any

import pytest

from conformance.history.events import Closed, Command, Connected, ConnectFailed, FaultArmed, FaultFired
from conformance.scenarios.steps.breaking import Partition
from tests.wire.peers import World, run


def cut(world: World, **fields: Any) -> None:
    world.links.partition(Partition.model_validate({"as": "p", "between": ["a", "b"], **fields}))


def test_refused_existing_sessions_are_reset_and_new_ones_too() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        cut(world)
        assert await client.left() == "reset"
        assert await world.server.left() == "reset"
        again = await world.client()
        assert await again.left() == "reset"
        assert world.events(ConnectFailed)[0].reason == "partition p"
        assert [(e.action, e.detail) for e in world.events(FaultFired)] == [
            ("partition-refuse", "cut while open"),
            ("partition-refuse", "at connect"),
        ]
        await world.beat()
        world.links.heal("p")
        await world.greeted()
        assert [e.healed for e in world.events(FaultArmed)] == [False, True]

    run(test)


def test_a_connection_that_is_being_made_fails_too() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="connect")
        client = await world.client()
        await world.event(FaultFired)
        cut(world)
        assert await client.left() == "reset"
        assert [e.reason for e in world.events(ConnectFailed)] == ["partition p"]
        world.links.heal("all")
        await world.beat()
        assert not world.served

    run(test)


def test_in_a_black_hole_octets_are_late_not_lost() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        cut(world, how="blackhole")
        client.say(b"NOOP\r\n")
        world.server.say(b"421 unasked\r\n")
        new = await world.client()
        await world.beat()
        assert world.server.octets == b""
        assert client.octets == b"220 mini\r\n"
        assert new.octets == b""
        assert len(world.served) == 1
        assert not [e for e in world.events(Command) if e.session == "s1"]
        world.links.heal("p")
        await client.until(b"NOOP\r\n")
        await new.until(b"220 mini\r\n")
        assert world.server.how is None

    run(test)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_client_that_gives_up_in_a_black_hole_has_dialled_in_vain(how: str) -> None:
    async def test(world: World) -> None:
        cut(world, how="blackhole")
        client = await world.client()
        await world.event(FaultFired)
        if how == "reset":
            client.leave_with_reset()
        else:
            client.transport.close()
        failed = await world.event(ConnectFailed)
        assert (failed.server, failed.reason) == ("b", "the client gave up (partition p)")
        world.links.heal("p")
        await world.beat()
        assert [e.server for e in world.events(Connected)] == ["c"]
        assert not world.served

    run(test)


@pytest.mark.parametrize(("one_way", "cut_too"), [(True, False), (False, True)])
def test_one_way_cuts_only_what_the_first_dial(one_way: bool, cut_too: bool) -> None:
    async def test(world: World) -> None:
        await world.links.open("b", "a", "smtp", world.links.link("a", "b", "smtp").target)
        cut(world, **{"one-way": one_way})
        links = world.events(FaultArmed)[0].links
        assert links == (("a -> b smtp", "b -> a smtp") if cut_too else ("a -> b smtp",))

    run(test)


def test_nothing_to_cut_is_an_error() -> None:
    async def test(world: World) -> None:
        with pytest.raises(ValueError, match="partition p concerns no link"):
            cut(world, between=["b", "c"])

    run(test)


@pytest.mark.parametrize("party", ["a", "b"])
def test_a_frozen_party_hears_and_says_nothing_until_it_thaws(party: str) -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        world.links.freeze(party, True)
        client.say(b"NOOP\r\n")
        new = await world.client()
        if party == "b":
            await world.beat()
        assert world.server.octets == b""
        assert new.octets == b""
        world.links.freeze(party, False)
        await client.until(b"NOOP\r\n")
        await new.until(b"220 mini\r\n")
        assert not world.events(FaultArmed)
        assert not world.events(Closed) or party == "b"

    run(test)
