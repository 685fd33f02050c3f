"""One session that nobody breaks: everything passes as it is, and is recorded as it does."""

import asyncio
import hashlib

import pytest

from conformance.history.events import Closed, Command, Content, Event, Reply
from conformance.wire.endpoint import Endpoint
from tests.wire.peers import World, run

MESSAGE = b"Message-ID: <1@x>\r\nReceived: from y\r\n\r\n..dot\r\n"


def test_a_session_is_recorded_from_end_to_end() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        await client.ask(b"EHLO a\r\n", b"250 2.0.0 EHLO\r\n")
        await client.ask(b"MAIL FROM:<x@y>\r\nRCPT TO:<z@y>\r\nDATA\r\n", b"354 go on\r\n")
        await client.ask(MESSAGE + b".\r\n", b"250 2.0.0 stored\r\n")
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
    write = Endpoint.write

    def noting(end: Endpoint, octets: bytes) -> None:
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

    monkeypatch.setattr(Endpoint, "write", noting)
    run(test)
    pairs = [("recorded 220", "passed 220 "), ("recorded NOOP", "passed NOOP"), ("recorded 250", "passed 250 ")]
    assert order[:9] == [
        word for pair in pairs for word in (*(pair if watched else reversed(pair)), "and nothing between")
    ]


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


def test_large_contents_pass_whole_although_the_server_reads_late(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        await client.ask(b"DATA\r\n", b"354 ")
        world.server.transport.pause_reading()
        (relay,) = world.relays
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
        assert not next(iter(world.relays)).parser.secured
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
