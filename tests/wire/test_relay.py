"""One session without faults: every octet is forwarded unchanged, and every unit recorded."""

import asyncio
import hashlib

import pytest

from conformance.history.events import Closed, Command, Content, Event, Reply
from conformance.wire.endpoint import Endpoint
from conformance.wire.lines import TEXT
from tests.wire.peers import World, run

MESSAGE = b"Message-ID: <1@x>\r\nReceived: from y\r\n\r\n..dot\r\n"


def test_a_session_is_recorded_from_end_to_end() -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        await client.exchange(b"EHLO a\r\n", b"250 2.0.0 EHLO\r\n")
        await client.exchange(b"MAIL FROM:<x@y>\r\nRCPT TO:<z@y>\r\nDATA\r\n", b"354 go on\r\n")
        await client.exchange(MESSAGE + b".\r\n", b"250 2.0.0 stored\r\n")
        client.write(b"QUIT\r\n")
        assert await client.wait_closed() == "fin"
        client.transport.close()
        await world.wait_for_event(Closed)
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
def test_an_event_is_recorded_in_the_loop_turn_in_which_its_octets_are_written(
    monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    order: list[str] = []
    write = Endpoint.write

    def noting(end: Endpoint, octets: bytes) -> None:
        order.append(f"passed {octets[:4].decode()}")
        write(end, octets)
        asyncio.get_running_loop().call_soon(order.append, "and nothing between")

    def note(event: Event) -> None:
        if isinstance(event, Command | Reply | Content):
            what = event.line[:4] if isinstance(event, Command) else event.code if isinstance(event, Reply) else "dot"
            order.append(f"recorded {what}")
            asyncio.get_running_loop().call_soon(order.append, "and nothing between")

    async def test(world: World) -> None:
        world.recorder.subscribe(note)
        if watched:
            world.arm("drop", at="RSET")
        client = await world.connect_greeted()
        await client.exchange(b"NOOP\r\n", b"250 2.0.0 NOOP")
        await client.exchange(b"DATA\r\n", b"354 ")
        await client.exchange(b".\r\n", b"stored")

    monkeypatch.setattr(Endpoint, "write", noting)
    run(test)
    pairs = [("recorded 220", "passed 220 "), ("recorded NOOP", "passed NOOP"), ("recorded 250", "passed 250 ")]
    pairs += [("recorded DATA", "passed DATA"), ("recorded 354", "passed 354 ")]
    pairs += [("recorded dot", "passed .\r\n"), ("recorded 250", "passed 250 ")]
    nothing = ("and nothing between",) * 2  # neither behind what was recorded nor behind what was passed on
    assert order[:28] == [word for pair in pairs for word in (*(pair if watched else reversed(pair)), *nothing)]


def test_an_unfinished_line_is_forwarded_at_once() -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        client.write(b"NO")
        await world.server.wait_for(b"NO")
        assert not world.events(Command)
        await client.exchange(b"OP\r\n", b"250 2.0.0 NOOP")
        assert world.server.octets == b"NOOP\r\n"
        world.server.write(b"42")
        await client.wait_for(b"250 2.0.0 NOOP\r\n42")
        assert [reply.to for reply in world.events(Reply)] == ["GREETING", "NOOP"]
        world.server.write(b"1 bye\r\n")
        await client.wait_for(b"250 2.0.0 NOOP\r\n421 bye\r\n")
        assert world.events(Reply)[-1].code == 421

    run(test)


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_half_close_is_forwarded_and_the_other_direction_continues(who: str) -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        one, other = (client, world.server) if who == "client" else (world.server, client)
        one.transport.write_eof()
        assert await other.wait_closed() == "fin"
        other.write(b"still here")  # no whole line, which a MiniServer would answer
        await one.wait_for(b"still here")
        other.transport.close()
        assert await one.wait_closed() == "fin"
        one.transport.close()
        closed = await world.wait_for_event(Closed)
        assert (closed.by, closed.how) == (who, "fin")

    run(test)


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_reset_is_forwarded_as_a_reset(who: str) -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        one, other = (client, world.server) if who == "client" else (world.server, client)
        one.close_with_rst()
        assert await other.wait_closed() == "reset"
        closed = await world.wait_for_event(Closed)
        assert (closed.by, closed.how) == (who, "reset")

    run(test)


def test_a_large_content_passes_whole_though_the_server_reads_late(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        await client.exchange(b"DATA\r\n", b"354 ")
        world.server.transport.pause_reading()
        (relay,) = world.relays
        stopped = asyncio.Event()
        monkeypatch.setattr(relay.client, "hold_reading", lambda reason: (hold(reason), stopped.set()))
        hold = type(relay.client).hold_reading.__get__(relay.client)
        content = b"".join(b"%070d\r\n" % number for number in range(200_000))
        client.write(content)
        client.write(b".\r\n")
        await stopped.wait()
        assert not world.events(Content)
        world.server.transport.resume_reading()
        await client.wait_for(b"stored")
        assert world.events(Content)[0].digest.sha256 == hashlib.sha256(content).hexdigest()
        assert world.server.octets == b"DATA\r\n" + content + b".\r\n"

    run(test)


def test_after_starttls_octets_are_forwarded_and_not_recorded() -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        client.write(b"STARTTLS\r\n")
        await client.wait_for(b"250 ")  # a MiniServer says 250: no TLS
        assert not next(iter(world.relays)).parser.secured
        server = world.server
        client.write(b"STARTTLS\r\n")
        server._rest = b""
        server.data_received = lambda data: server.write(b"220 go\r\n" if data == b"STARTTLS\r\n" else data)  # type: ignore[method-assign]
        await client.wait_for(b"220 go\r\n")
        await client.exchange(b"\x16\x03\x01MAIL FROM:<x>\r\n", b"\x16\x03\x01MAIL FROM:<x>\r\n")
        client.transport.close()
        assert await server.wait_closed() == "fin"
        server.transport.close()
        assert (await world.wait_for_event(Closed)).how == "secured"
        assert [e.verb for e in world.events(Command)] == ["STARTTLS", "STARTTLS"]
        assert [(e.to, e.code) for e in world.events(Reply)] == [
            ("GREETING", 220),
            ("STARTTLS", 250),
            ("STARTTLS", 220),
        ]

    run(test)


def test_garbage_is_forwarded_whole_and_recorded_shortened() -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        garbage = b"\x00\xff" * 50_000
        await client.exchange(garbage + b"\r\n", b"250 2.0.0 \x00\xff")
        assert world.server.octets == garbage + b"\r\n"
        command = world.events(Command)[0]
        shortened = "\x00\\xff" * (TEXT // 2) + "..."
        assert (command.verb, command.line) == ("", shortened)
        received = client.octets
        world.server.write(garbage + b"\r\n")
        await client.wait_for(garbage + b"\r\n")
        assert client.octets == received + garbage + b"\r\n"
        reply = world.events(Reply)[-1]
        assert (reply.code, reply.lines) == (0, (shortened,))

    run(test)


STUFFED = b"..a\r\nb.\r\n..\r\n.\r\n"


@pytest.mark.parametrize(
    ("reads", "content"),
    [
        *(((STUFFED[:at], STUFFED[at:]), b".a\r\nb.\r\n.\r\n") for at in range(1, len(STUFFED))),
        (tuple(bytes([octet]) for octet in STUFFED), b".a\r\nb.\r\n.\r\n"),
        ((b"..hidden", b"\r\n.\r\n"), b".hidden\r\n"),
        ((b"ab", b".c\r\n..d\r\n.\r\n"), b"ab.c\r\n.d\r\n"),
        ((b".", b".\r\n.\r\n"), b".\r\n"),
        ((b"a\r\n.", b".\r\n.\r", b"\n"), b"a\r\n.\r\n"),
    ],
)
def test_dot_stuffing_is_removed_however_the_reads_are_cut(reads: tuple[bytes, ...], content: bytes) -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        await client.exchange(b"DATA\r\n", b"354 ")
        for number, octets in enumerate(reads, 1):
            client.write(octets)
            await world.server.wait_for(b"DATA\r\n" + b"".join(reads[:number]))
        await client.wait_for(b"stored")
        assert world.events(Content)[0].digest.sha256 == hashlib.sha256(content).hexdigest()

    run(test)


@pytest.mark.parametrize("command", [b"RSET", b"MAIL FROM:<x@y>", b"EHLO a", b"HELO a", b"LHLO a"])
def test_an_aborted_content_is_no_part_of_the_next(command: bytes) -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        await client.exchange(b"BDAT 6\r\nabcd\r\n" + command + b"\r\n", command[:4] + b"\r\n")
        await client.exchange(b"DATA\r\n", b"354 ")
        await client.exchange(b"x\r\n.\r\n", b"stored")
        await client.exchange(b"BDAT 6\r\nabcd\r\nNOOP\r\n", b"NOOP\r\n")  # which aborts nothing
        await client.exchange(b"BDAT 3 LAST\r\ny\r\n", b"250 2.0.0 y\r\n")
        contents = (b"x\r\n", b"abcd\r\ny\r\n")
        assert [e.digest.sha256 for e in world.events(Content)] == [hashlib.sha256(c).hexdigest() for c in contents]

    run(test)
