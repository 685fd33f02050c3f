"""Partitions and frozen parties: nothing passes, and what is held is not lost."""

from typing import Any

import pytest

from conformance.history.events import Closed, Command, Connected, ConnectFailed, FaultArmed, FaultFired
from conformance.scenarios.steps.breaking import Partition
from tests.wire.peers import World, run


def partition(world: World, **fields: Any) -> None:
    world.links.partition(Partition.model_validate({"as": "p", "between": ["a", "b"], **fields}))


def test_a_refusing_partition_resets_existing_and_new_connections() -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        partition(world)
        assert await client.wait_closed() == "reset"
        assert await world.server.wait_closed() == "reset"
        again = await world.connect()
        assert await again.wait_closed() == "reset"
        assert world.events(ConnectFailed)[0].reason == "partition p"
        assert [(e.action, e.detail) for e in world.events(FaultFired)] == [
            ("partition-refuse", "cut while open"),
            ("partition-refuse", "at connect"),
        ]
        await world.wait_round_trip()
        world.links.heal("p")
        await world.connect_greeted()
        assert [e.healed for e in world.events(FaultArmed)] == [False, True]

    run(test)


def test_a_partition_refuses_a_connection_that_a_fault_holds() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="connect")
        client = await world.connect()
        await world.wait_for_event(FaultFired)
        partition(world)
        assert await client.wait_closed() == "reset"
        assert [e.reason for e in world.events(ConnectFailed)] == ["partition p"]
        world.links.heal("all")
        await world.wait_round_trip()
        assert not world.served

    run(test)


@pytest.mark.parametrize("held_by", ["black hole", "frozen server", "frozen client"])
def test_a_connection_that_a_fault_holds_is_held_by_what_begins_meanwhile(held_by: str) -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="connect")
        client = await world.connect()
        await world.wait_for_event(FaultFired)
        if held_by == "black hole":
            partition(world, how="blackhole")
        else:
            world.links.freeze("b" if held_by == "frozen server" else "a", True)
        world.links.heal("f")
        await world.wait_round_trip("d")
        assert not world.served
        assert [(e.client, e.server) for e in world.events(Connected)] == [("d", "c")]
        if held_by == "black hole":
            world.links.heal("p")
        else:
            world.links.freeze("b" if held_by == "frozen server" else "a", False)
        await client.wait_for(b"220 mini\r\n")

    run(test)


def test_a_black_hole_delays_octets_and_loses_none() -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        partition(world, how="blackhole")
        client.write(b"NOOP\r\nRS")
        world.server.write(b"421 unasked\r\n")
        new = await world.connect()
        new.write(b"NOOP\r\n")
        await world.wait_round_trip()
        assert world.server.octets == b""
        assert client.octets == b"220 mini\r\n"
        assert new.octets == b""
        assert len(world.served) == 1
        assert not [e for e in world.events(Command) if e.session == "s1"]
        world.links.heal("p")
        await client.wait_for(b"220 mini\r\n421 unasked\r\n250 2.0.0 NOOP\r\n")
        await new.wait_for(b"220 mini\r\n250 2.0.0 NOOP\r\n")
        await world.served[0].wait_for(b"NOOP\r\nRS")
        assert [peer.octets for peer in world.served] == [b"NOOP\r\nRS", b"NOOP\r\n"]
        assert [peer.closed_with for peer in (client, new, *world.served)] == [None] * 4

    run(test)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_client_that_gives_up_in_a_black_hole_has_not_connected(how: str) -> None:
    async def test(world: World) -> None:
        partition(world, how="blackhole")
        client = await world.connect()
        await world.wait_for_event(FaultFired)
        if how == "reset":
            client.close_with_rst()
        else:
            client.transport.close()
        failed = await world.wait_for_event(ConnectFailed)
        assert (failed.server, failed.reason) == ("b", "the client gave up (partition p)")
        world.links.heal("p")
        await world.wait_round_trip()
        assert [e.server for e in world.events(Connected)] == ["c"]
        assert not world.served

    run(test)


@pytest.mark.parametrize(("one_way", "cut_too"), [(True, False), (False, True)])
def test_a_one_way_partition_cuts_only_the_links_of_the_first_party(one_way: bool, cut_too: bool) -> None:
    async def test(world: World) -> None:
        await world.links.open("b", "a", "smtp", world.links.link("a", "b", "smtp").target)
        partition(world, **{"one-way": one_way})
        links = world.events(FaultArmed)[0].links
        assert links == (("a -> b smtp", "b -> a smtp") if cut_too else ("a -> b smtp",))
        assert await (await world.connect()).wait_closed() == "reset"
        back = await world.connect("a", client="b")
        if cut_too:
            assert await back.wait_closed() == "reset"
        else:
            await back.wait_for(b"220 mini\r\n")

    run(test)


@pytest.mark.parametrize("fields", [{"between": ["b", "c"]}, {"between": ["b", "a"], "one-way": True}])
def test_a_partition_that_matches_no_link_is_refused(fields: dict[str, Any]) -> None:
    async def test(world: World) -> None:
        partition(world)
        with pytest.raises(ValueError, match="partition p concerns no link"):
            partition(world, **fields)
        assert [e.healed for e in world.events(FaultArmed)] == [False], "the earlier one of its name stays in force"
        assert await (await world.connect()).wait_closed() == "reset"

    run(test)


@pytest.mark.parametrize("party", ["a", "b"])
def test_a_frozen_party_receives_and_sends_nothing_until_it_thaws(party: str) -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        beside = await world.connect("c")
        await beside.wait_for(b"220 mini\r\n")
        world.links.freeze(party, True)
        client.write(b"NOOP\r\n")
        beside.write(b"NOOP\r\n")
        world.server.write(b"250 unasked\r\n")
        new = await world.connect()
        await world.wait_round_trip("d")
        assert world.server.octets == b""
        assert client.octets == b"220 mini\r\n"
        assert new.octets == b""
        assert len(world.served) == 1, "the new connection does not reach the server"
        assert world.served_c[0].octets == (b"" if party == "a" else b"NOOP\r\n"), "what other parties say passes"
        world.links.freeze(party, False)
        await client.wait_for(b"220 mini\r\n250 unasked\r\n250 2.0.0 NOOP\r\n")
        await new.wait_for(b"220 mini\r\n")
        await beside.wait_for(b"220 mini\r\n250 2.0.0 NOOP\r\n")
        await (await world.connect_greeted()).exchange(b"NOOP\r\n", b"NOOP\r\n")
        assert not world.events(FaultArmed)
        assert not [event for event in world.events(Closed) if event.session == "s1"]

    run(test)
