"""Links that nobody breaks: everything passes as it is, and is recorded before it does."""

import asyncio
import hashlib
import socket

import pytest

from conformance.history.events import Closed, Command, Connected, ConnectFailed, Content, Event, Reply
from conformance.nodes.ports import PortLeases
from conformance.wire.end import End
from conformance.wire.link import Link
from tests.wire.peers import Peer, World, run

MESSAGE = b"Message-ID: <1@x>\r\nReceived: from y\r\n\r\n..dot\r\n"


async def hand_over(client: Peer) -> None:
    await client.ask(b"EHLO a\r\n", b"250 2.0.0 EHLO\r\n")
    await client.ask(b"MAIL FROM:<x@y>\r\nRCPT TO:<z@y>\r\nDATA\r\n", b"354 go on\r\n")
    await client.ask(MESSAGE + b".\r\n", b"250 2.0.0 stored\r\n")


def test_a_session_is_recorded_from_end_to_end() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        await hand_over(client)
        client.say(b"QUIT\r\n")
        assert await client.left() == "fin"
        client.transport.close()
        await world.event(Closed)
        kinds = [
            (event.kind, getattr(event, "verb", getattr(event, "to", "")), getattr(event, "code", 0))
            for event in world.recorder.events
        ]
        assert kinds == [
            ("connected", "", 0),
            ("reply", "GREETING", 220),
            ("command", "EHLO", 0),
            ("reply", "EHLO", 250),
            ("command", "MAIL", 0),
            ("command", "RCPT", 0),
            ("command", "DATA", 0),
            ("reply", "MAIL", 250),
            ("reply", "RCPT", 250),
            ("reply", "DATA", 354),
            ("content", "", 0),
            ("reply", "CONTENT", 250),
            ("command", "QUIT", 0),
            ("reply", "QUIT", 221),
            ("closed", "", 0),
        ]
        assert world.events(Closed)[0].by == "server"
        digest = world.events(Content)[0].digest
        content = MESSAGE.replace(b"..dot", b".dot")
        assert digest.sha256 == hashlib.sha256(content).hexdigest()
        assert digest.stable_sha256 == hashlib.sha256(content.replace(b"Received: from y\r\n", b"")).hexdigest()
        assert digest.message_id == "1@x"

    run(test)


@pytest.mark.parametrize("watched", [False, True])
def test_an_event_is_recorded_in_the_turn_in_which_its_octets_pass(
    monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    order: list[str] = []
    write = End.write

    def noting(end: End, octets: bytes) -> None:
        order.append(f"passed {octets[:4].decode()}")
        write(end, octets)
        asyncio.get_running_loop().call_soon(order.append, "and nothing between")

    def note(event: Event) -> None:
        if isinstance(event, Command | Reply):
            order.append(f"recorded {event.line[:4] if isinstance(event, Command) else event.code}")

    async def test(world: World) -> None:
        world.recorder.subscribe(note)
        if watched:
            world.arm("drop", at="RSET")
        client = await world.greeted()
        await client.ask(b"NOOP\r\n", b"250 2.0.0 NOOP")

    monkeypatch.setattr(End, "write", noting)
    run(test)
    pairs = [("recorded 220", "passed 220 "), ("recorded NOOP", "passed NOOP"), ("recorded 250", "passed 250 ")]
    assert order[:9] == [
        word for pair in pairs for word in (*(pair if watched else reversed(pair)), "and nothing between")
    ]


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
            world.links.origin(*(peer.transport.get_extra_info(name)[1] for name in names))
            for peer, names in ((client, ("sockname", "peername")), (world.server, ("peername", "sockname")))
        ]
        assert [(o.session, o.client) for o in origins if o] == [("s1", "a"), ("s1", "a")]
        assert world.links.origin(1, 2) is None

    run(test)


def test_an_unfinished_line_is_passed_at_once() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        client.say(b"NO")
        await world.server.until(b"NO")
        assert not world.events(Command)
        await client.ask(b"OP\r\n", b"250 2.0.0 NOOP")
        assert world.server.octets == b"NOOP\r\n"

    run(test)


def test_a_half_close_is_passed_on_and_the_other_direction_goes_on() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        client.transport.write_eof()
        assert await world.server.left() == "fin"
        world.server.say(b"421 4.4.2 still here\r\n")
        await client.until(b"still here\r\n")
        world.server.transport.close()
        assert await client.left() == "fin"
        client.transport.close()
        closed = await world.event(Closed)
        assert (closed.by, closed.how) == ("client", "fin")

    run(test)


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_reset_is_passed_on_as_a_reset(who: str) -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        one, other = (client, world.server) if who == "client" else (world.server, client)
        one.leave_with_reset()
        assert await other.left() == "reset"
        closed = await world.event(Closed)
        assert (closed.by, closed.how) == (who, "reset")

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


def test_large_contents_pass_whole_although_the_server_reads_late(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        await client.ask(b"DATA\r\n", b"354 ")
        world.server.transport.pause_reading()
        (relay,) = world.links.active
        stopped = asyncio.Event()
        monkeypatch.setattr(relay.client, "hold_reading", lambda reason: (hold(reason), stopped.set()))
        hold = type(relay.client).hold_reading.__get__(relay.client)
        content = b"x" * 70 + b"\r\n"
        client.say(content * 200_000)
        client.say(b".\r\n")
        await stopped.wait()
        assert not world.events(Content)
        world.server.transport.resume_reading()
        await client.until(b"stored")
        assert world.events(Content)[0].digest.size == 200_000 * 72

    run(test)


def test_after_starttls_octets_pass_and_nothing_is_recorded() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        client.say(b"STARTTLS\r\n")
        await client.until(b"250 ")  # a MiniServer says 250: no TLS
        assert not next(iter(world.links.active)).conversation.secured
        server = world.server
        client.say(b"STARTTLS\r\n")
        server._rest = b""
        server.data_received = lambda data: server.say(b"220 go\r\n" if data == b"STARTTLS\r\n" else data)  # type: ignore[method-assign]
        await client.until(b"220 go\r\n")
        await client.ask(b"\x16\x03\x01MAIL FROM:<x>\r\n", b"\x16\x03\x01MAIL FROM:<x>\r\n")
        client.transport.close()
        assert await server.left() == "fin"
        server.transport.close()
        assert (await world.event(Closed)).how == "secured"
        assert [e.verb for e in world.events(Command)] == ["STARTTLS", "STARTTLS"]

    run(test)


def test_garbage_passes_and_is_recorded_within_bounds() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        garbage = b"\x00\xff" * 50_000
        await client.ask(garbage + b"\r\n", b"250 2.0.0 \x00\xff")
        assert world.server.octets == garbage + b"\r\n"
        command = world.events(Command)[0]
        assert command.verb == ""
        assert len(command.line) < 20_000

    run(test)


def test_closing_resets_every_session_and_frees_the_ports() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        address = world.links.address("a", "b", "smtp")
        await world.links.close()
        assert await client.left() == "reset"
        assert world.links.active == ()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

    run(test)


def test_closing_ends_also_what_a_fault_left_half_open() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="NOOP")
        client = await world.greeted()
        (relay,) = world.links.active
        client.say(b"NOOP\r\n")
        assert await client.left() == "fin"
        assert await world.server.left() == "fin"
        assert world.links.active == ()
        assert not relay.client.closed
        await world.links.close()
        assert relay.client.closed
        assert relay.server.closed

    run(test)


def test_a_session_that_both_have_left_is_forgotten() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="NOOP", when="after")
        client = await world.greeted()
        (relay,) = world.links.active
        client.say(b"NOOP\r\n")
        client.transport.write_eof()
        assert await client.left() == "fin"
        assert await world.server.left() == "fin"
        world.server.transport.close()
        await world.beat()
        assert relay.client.closed
        assert relay.server.closed

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
        origins = [world.links.origin(port, world.links.address("a", server, "smtp")[1]) for server in "bc"]
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
        assert world.links.origin(port, door) is not None
        link.target = None
        again = await dial(link)
        assert await again.left() == "reset"
        assert world.links.origin(port, door) is None

    try:
        run(test)
    finally:
        leases.release()


@pytest.mark.parametrize(
    ("reads", "content"),
    [
        ((b"..hidden", b"\r\n.\r\n"), b".hidden\r\n"),
        ((b"ab", b".c\r\n..d\r\n.\r\n"), b"ab.c\r\n.d\r\n"),
        ((b".", b".\r\n.\r\n"), b".\r\n"),
        ((b"a\r\n.", b".\r\n.\r", b"\n"), b"a\r\n.\r\n"),
    ],
)
def test_dots_are_taken_away_however_they_arrive(reads: tuple[bytes, ...], content: bytes) -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        await client.ask(b"DATA\r\n", b"354 ")
        for number, octets in enumerate(reads, 1):
            client.say(octets)
            await world.server.until(b"DATA\r\n" + b"".join(reads[:number]))
        await client.until(b"stored")
        assert world.events(Content)[0].digest.sha256 == hashlib.sha256(content).hexdigest()

    run(test)


def test_a_content_given_up_is_no_part_of_the_next() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        await client.ask(b"BDAT 6\r\nabcd\r\nRSET\r\n", b"RSET\r\n")
        await client.ask(b"DATA\r\n", b"354 ")
        await client.ask(b"x\r\n.\r\n", b"stored")
        assert [e.digest.size for e in world.events(Content)] == [3]

    run(test)


def test_quiet_means_nothing_is_owed() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        assert world.links.quiet
        await client.ask(b"DATA\r\n", b"354 ")
        assert not world.links.quiet
        await client.ask(b".\r\n", b"stored")
        assert world.links.quiet

    run(test)


def test_a_link_is_laid_once_and_between_known_doors() -> None:
    async def test(world: World) -> None:
        with pytest.raises(ValueError, match="a -> b smtp"):
            await world.links.open("a", "b", "smtp", None)
        with pytest.raises(ValueError, match="pop3"):
            await world.links.open("a", "b", "pop3", None)
        with pytest.raises(KeyError, match="no link a -> d smtp"):
            world.links.address("a", "d", "smtp")

    run(test)
