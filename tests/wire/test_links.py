"""Links: between whom they are laid, where they lead, which session is whose, and what is left when one is over."""

import asyncio
import socket

import pytest

from conformance.history.events import Closed, Connected, ConnectFailed
from conformance.nodes.places import PortLeases
from conformance.wire.link import Link
from tests.wire.peers import Peer, World, run


def test_a_link_is_laid_once_and_between_known_doors() -> None:
    async def test(world: World) -> None:
        with pytest.raises(ValueError, match="a -> b smtp"):
            await world.links.open("a", "b", "smtp", None)
        with pytest.raises(ValueError, match="pop3"):
            await world.links.open("a", "b", "pop3", None)
        with pytest.raises(KeyError, match="no link a -> d smtp"):
            world.links.address("a", "d", "smtp")

    run(test)


@pytest.mark.parametrize("target", [None, ("127.0.0.1", 1)])
def test_a_server_that_is_down_is_seen_as_a_reset(target: tuple[str, int] | None) -> None:
    async def test(world: World) -> None:
        world.links.link("a", "b", "smtp").target = target
        client = await world.client()
        assert await client.left() == "reset"
        failed = await world.event(ConnectFailed)
        assert (failed.client, failed.server, failed.reason) == (
            "a",
            "b",
            "no address" if target is None else "Connection refused",
        )

    run(test)


def test_a_target_can_change() -> None:
    async def test(world: World) -> None:
        link = world.links.link("a", "b", "smtp")
        target, link.target = link.target, None
        client = await world.client()
        assert await client.left() == "reset"
        link.target = target
        await world.greeted()

    run(test)


def test_sessions_are_named_in_order_over_all_links() -> None:
    async def test(world: World) -> None:
        await world.greeted()
        await world.beat()
        await world.greeted()
        assert [(e.session, e.server) for e in world.events(Connected)] == [("s1", "b"), ("s2", "c"), ("s3", "b")]

    run(test)


def test_both_outer_ports_lead_to_the_session() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        origins = [
            world.links.session_behind(*(peer.transport.get_extra_info(name)[1] for name in names))
            for peer, names in ((client, ("sockname", "peername")), (world.server, ("peername", "sockname")))
        ]
        assert [(o.session, o.client) for o in origins if o] == [("s1", "a"), ("s1", "a")]
        assert world.links.session_behind(1, 2) is None

    run(test)


def test_one_port_may_dial_two_doors() -> None:
    """The kernel does so under load: a port is taken for each pair of ends, not for each connection."""

    async def test(world: World) -> None:
        loop = asyncio.get_running_loop()
        dialling = [socket.socket() for _ in range(2)]
        for sock in dialling:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        dialling[0].bind(("127.0.0.1", 0))
        port = dialling[0].getsockname()[1]
        dialling[1].bind(("127.0.0.1", port))
        for sock, server in zip(dialling, "bc", strict=True):
            await loop.sock_connect(sock, world.links.address("a", server, "smtp"))
            _, client = await loop.create_connection(Peer, sock=sock)
            world.clients.append(client)
            await client.until(b"220 mini\r\n")
        origins = [world.links.session_behind(port, world.links.address("a", server, "smtp")[1]) for server in "bc"]
        assert [o.session for o in origins if o] == ["s1", "s2"]

    run(test)


def test_a_port_is_that_of_its_latest_user() -> None:
    leases = PortLeases()  # below the range that the kernel gives out: nobody else takes it between the two connections
    port = leases.lease()

    async def dial(link: Link) -> Peer:
        connect = asyncio.get_running_loop().create_connection
        _, peer = await connect(Peer, *link.address, local_addr=("127.0.0.1", port))
        return peer

    async def test(world: World) -> None:
        link = world.links.link("a", "b", "smtp")
        client = await dial(link)
        await client.until(b"220 mini\r\n")
        client.leave_with_reset()
        await world.event(Closed)
        door = world.links.address("a", "b", "smtp")[1]
        assert world.links.session_behind(port, door) is not None
        link.target = None
        again = await dial(link)
        assert await again.left() == "reset"
        assert world.links.session_behind(port, door) is None

    try:
        run(test)
    finally:
        leases.release()


def test_a_session_that_both_have_left_is_forgotten() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="NOOP", when="after")
        client = await world.greeted()
        (relay,) = world.relays
        client.say(b"NOOP\r\n")
        client.transport.write_eof()
        assert await client.left() == "fin"
        assert await world.server.left() == "fin"
        world.server.transport.close()
        await world.beat()
        assert relay.client.closed
        assert relay.server.closed

    run(test)


def test_closing_resets_every_session_and_frees_the_ports() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        address = world.links.address("a", "b", "smtp")
        await world.links.close()
        assert await client.left() == "reset"
        assert world.relays == ()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

    run(test)


def test_closing_ends_also_what_a_fault_left_half_open() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="NOOP")
        client = await world.greeted()
        (relay,) = world.relays
        client.say(b"NOOP\r\n")
        assert await client.left() == "fin"
        assert await world.server.left() == "fin"
        assert world.relays == ()
        assert not relay.client.closed
        await world.links.close()
        assert relay.client.closed
        assert relay.server.closed

    run(test)
