"""Links: opening them, changing their target, finding the session of a connection, and closing them."""

import asyncio
import gc
import socket
import weakref

import pytest

from conformance.history.events import Closed, Connected, ConnectFailed, FaultFired
from conformance.nodes.places import PortLeases
from conformance.wire.link import Link, RecordedSession
from tests.wire.peers import Peer, World, run


def test_a_link_is_opened_once_and_for_a_known_listener() -> None:
    async def test(world: World) -> None:
        opened = list(world.links)
        with pytest.raises(ValueError, match="a -> b smtp"):
            await world.links.open("a", "b", "smtp", None)
        with pytest.raises(ValueError, match="pop3"):
            await world.links.open("a", "b", "pop3", None)
        assert list(world.links) == opened
        with pytest.raises(KeyError, match="no link a -> d smtp"):
            world.links.address("a", "d", "smtp")

    run(test)


@pytest.mark.parametrize("target", [None, ("127.0.0.1", 1)])
def test_an_unreachable_server_resets_the_client(target: tuple[str, int] | None) -> None:
    async def test(world: World) -> None:
        world.links.link("a", "b", "smtp").target = target
        client = await world.connect()
        assert await client.wait_closed() == "reset"
        failed = await world.wait_for_event(ConnectFailed)
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
        client = await world.connect()
        assert await client.wait_closed() == "reset"
        link.target = target
        await world.connect_greeted()
        assert (len(world.served), len(world.served_c)) == (1, 0)
        link.target = world.links.link("a", "c", "smtp").target
        await world.connect_greeted()
        assert (len(world.served), len(world.served_c)) == (1, 1)

    run(test)


def test_sessions_are_named_in_order_over_all_links() -> None:
    async def test(world: World) -> None:
        await world.connect_greeted()
        await world.wait_round_trip("a")
        await world.wait_round_trip("d")
        await world.connect_greeted()
        assert [(e.session, e.client, e.server) for e in world.events(Connected)] == [
            ("s1", "a", "b"),
            ("s2", "a", "c"),
            ("s3", "d", "c"),
            ("s4", "a", "b"),
        ]

    run(test)


def test_both_outer_ports_lead_to_the_session() -> None:
    async def test(world: World) -> None:
        clients = [await world.connect_greeted(), await world.connect("c", client="d")]
        await clients[1].wait_for(b"220 mini\r\n")
        ends = [(client, ("sockname", "peername")) for client in clients]
        ends += [(server, ("peername", "sockname")) for server in (*world.served, *world.served_c)]
        origins = [
            world.links.session_behind(*(peer.transport.get_extra_info(name)[1] for name in names))
            for peer, names in ends
        ]
        assert [(o.session, o.client) for o in origins if o] == [("s1", "a"), ("s2", "d")] * 2
        assert world.links.session_behind(1, 2) is None

    run(test)


def test_sessions_from_one_port_to_two_listeners_are_distinguished() -> None:
    """Under load the kernel gives one local port to connections to different listeners."""

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
            await client.wait_for(b"220 mini\r\n")
        origins = [world.links.session_behind(port, world.links.address("a", server, "smtp")[1]) for server in "bc"]
        assert [o.session for o in origins if o] == ["s1", "s2"]

    run(test)


def _session(found: RecordedSession | None) -> str | None:
    return found.session if found else None


def test_a_reused_port_belongs_to_its_latest_session() -> None:
    leases = PortLeases()  # below the ephemeral range: no other socket takes it between the two connections
    port = leases.lease()

    async def dial(link: Link) -> Peer:
        loop = asyncio.get_running_loop()
        dialling = socket.socket()
        # a connection of an earlier lease of the port may still be in TIME_WAIT
        dialling.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        dialling.setblocking(False)
        dialling.bind(("127.0.0.1", port))
        await loop.sock_connect(dialling, link.address)
        _, peer = await loop.create_connection(Peer, sock=dialling)
        return peer

    async def test(world: World) -> None:
        link = world.links.link("a", "b", "smtp")
        client = await dial(link)
        await client.wait_for(b"220 mini\r\n")
        client.close_with_rst()
        await world.wait_for_event(Closed)
        listening = world.links.address("a", "b", "smtp")[1]
        assert _session(world.links.session_behind(port, listening)) == "s1"
        target, link.target = link.target, None
        again = await dial(link)
        assert await again.wait_closed() == "reset"
        assert world.links.session_behind(port, listening) is None, "the latest connection has no session"
        link.target = target
        third = await dial(link)
        world.clients.append(third)
        await third.wait_for(b"220 mini\r\n")
        assert _session(world.links.session_behind(port, listening)) == world.events(Connected)[-1].session != "s1"

    try:
        run(test)
    finally:
        leases.release()


@pytest.mark.parametrize("ended_by", ["server", "link"])
def test_a_session_that_both_peers_have_closed_is_freed(ended_by: str) -> None:
    async def test(world: World) -> None:
        if ended_by == "link":
            world.arm("drop", at="NOOP", when="after")
        client = await world.connect_greeted()
        (relay,) = map(weakref.ref, world.relays)
        if ended_by == "link":
            client.write(b"NOOP\r\n")
            client.transport.write_eof()
            assert await world.server.wait_closed() == "fin"
            last = world.server
        else:
            client.write(b"QUIT\r\n")
            last = client
        assert await client.wait_closed() == "fin"
        await world.wait_round_trip()
        assert relay() is not None, "one peer has not closed yet"
        last.transport.close()
        await world.wait_round_trip()
        assert relay() is None, "no reference is left, not even in a cycle"

    gc.disable()  # the collector would free a cycle
    try:
        run(test)
    finally:
        gc.enable()


def test_closing_resets_every_session_and_frees_the_ports() -> None:
    async def test(world: World) -> None:
        clients = [await world.connect_greeted() for _ in range(2)]
        clients.append(await world.connect("c", client="d"))
        await clients[-1].wait_for(b"220 mini\r\n")
        world.arm("stall", at="connect")
        clients.append(await world.connect())  # its server is not dialled
        await world.wait_for_event(FaultFired)
        addresses = [world.links.address(*pair, "smtp") for pair in ("ab", "ac", "dc")]
        assert len(world.relays) == 4
        await world.links.close()
        for peer in (*clients, *world.served, *world.served_c):
            assert await peer.wait_closed() == "reset"
        assert world.relays == ()
        assert not world.events(ConnectFailed), "the links have closed: the server was not out of reach"
        for address in addresses:
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*address)

    run(test)


def test_closing_ends_connections_that_a_fault_left_half_open() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="NOOP")
        client = await world.connect_greeted()
        (relay,) = world.relays
        client.write(b"NOOP\r\n")
        assert await client.wait_closed() == "fin"
        assert await world.server.wait_closed() == "fin"
        assert world.relays == ()
        assert (relay.client.closed, relay.server.closed) == (False, False)
        await world.links.close()
        assert relay.client.closed
        assert relay.server.closed

    run(test)
