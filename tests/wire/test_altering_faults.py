"""Faults that change octets: garble, replace, answer."""

from functools import partial
from typing import cast

import pytest

from conformance.history.events import Command, Connected, Content, FaultFired, Reply
from conformance.wire.faults import altering
from conformance.wire.faults.handlers import FaultContext
from conformance.wire.units import CommandLine, ContentPart, PendingReply, WholeReply
from tests.wire.peers import BODY, Peer, World, run, send_message


def test_a_garbled_command_is_recorded_as_the_server_gets_it() -> None:
    async def test(world: World) -> None:
        world.arm("garble", at="MAIL")
        client = await world.connect_greeted()
        await client.exchange(b"MAIL FROM:<x@y>\r\n", b"250 2.0.0 ")
        garbled = bytes(o ^ 0x80 for o in b"MAIL FROM:<x@y>")
        assert world.server.octets == garbled + b"\r\n"
        command = world.events(Command)[0]
        assert (command.verb, command.line) == ("", garbled.decode("utf-8", "backslashreplace"))
        assert world.detail == "before MAIL: MAIL FROM:<x@y>"

    run(test)


def test_a_garbled_auth_line_is_recorded_redacted() -> None:
    async def test(world: World) -> None:
        world.arm("garble", at="AUTH")
        client = await world.connect_greeted()
        await client.exchange(b"AUTH PLAIN c2VjcmV0\r\n", b"250 2.0.0 ")
        assert world.server.octets == bytes(o ^ 0x80 for o in b"AUTH PLAIN c2VjcmV0") + b"\r\n"
        assert [command.line for command in world.events(Command)] == ["AUTH PLAIN (redacted)"]
        assert world.detail == "before AUTH: AUTH PLAIN (redacted)"

    run(test)


def test_a_garbled_reply_to_auth_is_recorded_without_its_text() -> None:
    async def test(world: World) -> None:
        world.arm("garble", at="AUTH", when="after")
        client = await world.connect_greeted()
        await client.exchange(b"AUTH PLAIN c2VjcmV0\r\n", bytes(o ^ 0x80 for o in b"250 2.0.0 AUTH") + b"\r\n")
        assert world.events(Reply)[-1].lines == ("(redacted)",), "a server may repeat what it was sent"

    run(test)


def test_a_garbled_reply_has_no_code() -> None:
    async def test(world: World) -> None:
        world.arm("garble", at="MAIL", when="after")
        client = await world.connect_greeted()
        await client.exchange(b"MAIL FROM:<x@y>\r\n", bytes(o ^ 0x80 for o in b"250 2.0.0 MAIL") + b"\r\n")
        await client.exchange(b"RSET\r\n", b"250 2.0.0 RSET\r\n")
        assert [(e.to, e.code, e.enhanced) for e in world.events(Reply)] == [
            ("GREETING", 220, None),
            ("MAIL", 0, None),
            ("RSET", 250, "2.0.0"),
        ]

    run(test)


def test_a_garbled_body_differs_in_one_octet_and_so_does_its_digest() -> None:
    async def test(world: World) -> None:
        await send_message(await world.connect_greeted())
        world.arm("garble", at="body", offset=10)
        await send_message(await world.connect_greeted())
        clean, garbled = (peer.octets.partition(b"DATA\r\n")[2] for peer in world.served)
        assert [n for n, (one, other) in enumerate(zip(clean, garbled, strict=True)) if one != other] == [10]
        one, other = (event.digest for event in world.events(Content))
        assert one.body_sha256 != other.body_sha256

    run(test)


@pytest.mark.parametrize("stuffed", [True, False], ids=["after DATA", "in a chunk"])
def test_a_garbled_part_has_added_dots_only_if_it_had_them_before(stuffed: bool) -> None:
    part = altering._garble(cast(FaultContext, None), ContentPart(b"ab\r\n..c\r\n", stuffed), 0)
    assert isinstance(part, ContentPart)
    assert (part.raw, part.stuffed) == (bytes([ord("a") ^ 0x80]) + b"b\r\n..c\r\n", stuffed)


@pytest.mark.parametrize("does", ["replace", "answer"])
def test_a_replaced_reply_is_sent_and_recorded_in_place_of_the_servers(does: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="MAIL", when="after", reply="451 4.4.0 Message failed to be made redundant")
        client = await world.connect_greeted()
        await client.exchange(b"MAIL FROM:<x@y>\r\n", b"451 4.4.0 Message failed to be made redundant\r\n")
        await client.exchange(b"RSET\r\n", b"RSET\r\n")
        replies = b"451 4.4.0 Message failed to be made redundant\r\n250 2.0.0 RSET\r\n"
        assert client.octets == b"220 mini\r\n" + replies
        assert world.server.octets == b"MAIL FROM:<x@y>\r\nRSET\r\n"
        _, reply, _ = world.events(Reply)
        assert (reply.to, reply.code, reply.enhanced) == ("MAIL", 451, "4.4.0")
        assert reply.lines == ("4.4.0 Message failed to be made redundant",)
        assert world.detail == "after MAIL: 250 2.0.0 MAIL"

    run(test)


def test_a_replaced_reply_to_data_resets_the_server_unless_it_too_is_354() -> None:
    async def test(world: World) -> None:
        world.arm("replace", at="DATA", reply="354 say it")
        agreeing = await world.connect_greeted()
        await agreeing.exchange(b"DATA\r\n", b"354 say it\r\n")
        await agreeing.exchange(BODY + b".\r\n", b"250 2.0.0 stored\r\n")
        assert (world.server.octets, world.server.closed_with) == (b"DATA\r\n" + BODY + b".\r\n", None)
        world.arm("replace", at="DATA", reply="452 4.3.1 no room")
        client = await world.connect_greeted()
        await client.exchange(b"DATA\r\n", b"452 4.3.1 no room\r\n")
        assert await world.server.wait_closed() == "reset"
        await client.exchange(b"RSET\r\n", b"421 4.3.2 ")
        assert await client.wait_closed() == "fin"

    run(test)


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"RCPT TO:<z@y>", b"450 4.2.1 busy"),
        (b"DATA", b"452 4.3.1 no room"),
        (b"STARTTLS", b"454 4.7.0 not now"),
        (b"AUTH PLAIN", b"535 5.7.8 no"),
    ],
)
def test_a_command_that_the_link_answers_does_not_reach_the_server(line: bytes, reply: bytes) -> None:
    async def test(world: World) -> None:
        verb = line.split()[0].decode()
        world.arm("answer", at=verb, reply=reply.decode())
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\n" + line + b"\r\nRSET\r\n")
        await world.wait_round_trip()
        assert world.server.octets == b"MAIL FROM:<x@y>\r\nRSET\r\n"
        await client.wait_for(b"RSET\r\n")
        assert client.octets == b"220 mini\r\n250 2.0.0 MAIL\r\n" + reply + b"\r\n250 2.0.0 RSET\r\n"
        answers = [("MAIL", 250), (verb, int(reply[:3])), ("RSET", 250)]
        assert [(e.to, e.code) for e in world.events(Reply) if e.session == "s1"][1:] == answers

    run(test)


@pytest.mark.parametrize(
    ("line", "reply"),
    [(b"DATA", b"354 go on"), (b"STARTTLS", b"220 go on"), (b"AUTH LOGIN", b"334 go on")],
)
def test_a_command_that_the_link_tells_to_go_on_does_not_reach_the_server(line: bytes, reply: bytes) -> None:
    async def test(world: World) -> None:
        world.arm("answer", at=line.split()[0].decode(), reply=reply.decode())
        client = await world.connect_greeted()
        await client.exchange(b"MAIL FROM:<x@y>\r\n", b"MAIL\r\n")
        client.write(line + b"\r\n")
        await world.wait_round_trip()
        assert world.server.octets == b"MAIL FROM:<x@y>\r\n"
        await client.wait_for(reply + b"\r\n")
        assert await world.server.wait_closed() == "reset"

    run(test)


def test_a_content_that_the_link_asked_for_does_not_reach_the_server() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="DATA", reply="354 go ahead")
        client = await world.connect_greeted()
        await client.exchange(b"DATA\r\n", b"354 go ahead\r\n")
        assert await world.server.wait_closed() == "reset"
        await client.exchange(BODY + b".\r\n", b"421 4.3.2 ")
        assert await client.wait_closed() == "fin"
        assert world.server.octets == b""
        assert not world.events(Content)

    run(test)


def test_tls_that_the_link_agreed_to_ends_the_session() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="STARTTLS", reply="220 go ahead")
        client = await world.connect_greeted()
        await client.exchange(b"STARTTLS\r\n", b"220 go ahead\r\n")
        client.write(b"\x16\x03\x01\x02\x00")
        assert await client.wait_closed() == "fin"
        assert world.server.octets == b""

    run(test)


def test_what_was_forwarded_before_the_fault_was_armed_is_not_garbled() -> None:
    line = CommandLine(b"NOOP x\r\n", "NOOP", "NOOP x", PendingReply("NOOP"))
    reply = WholeReply(b"250 ok\r\n", "NOOP", 250, None, ("ok",), None)
    part = ContentPart(b"ab\r\n", stuffed=True)
    for unit in (line, reply, part):
        garbled = altering._garble(cast(FaultContext, None), unit, 1)
        assert isinstance(garbled, type(unit))
        assert garbled.raw[:1] == unit.raw[:1]
        assert garbled.raw[1] == unit.raw[1] ^ 0x80


@pytest.mark.parametrize("when", ["before", "after"])
def test_of_a_line_amid_which_the_fault_is_armed_the_rest_is_garbled_and_recorded_so(when: str) -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        server = world.server
        server.data_received = partial(Peer.data_received, server)  # type: ignore[method-assign]  # it answers nothing
        if when == "before":
            one, other, line = client, server, b"NOOP x\r\n"
        else:
            one, other, line = server, client, b"250 ok\r\n"
            client.write(b"NOOP\r\n")
            await server.wait_for(b"NOOP\r\n")
        received = other.octets
        one.write(line[:2])
        await other.wait_for(received + line[:2])
        world.arm("garble", at="NOOP", when=when)
        one.write(line[2:])
        await other._until(lambda: other.octets.endswith(b"\r\n"))
        whole = line[:2] + bytes(octet ^ 0x80 for octet in line[2:-2])
        assert other.octets == received + whole + b"\r\n"
        recorded = (
            [event.line for event in world.events(Command)] if when == "before" else world.events(Reply)[-1].lines
        )
        assert list(recorded) == [whole.decode("utf-8", "backslashreplace")]

    run(test)


@pytest.mark.parametrize("does", ["replace", "answer"])
def test_a_reply_of_which_octets_have_passed_is_not_replaced_but_the_next_one(does: str) -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        server = world.server
        answers = iter((b"250-one\r\n25", b"250 three\r\n"))
        server.data_received = lambda data: server.write(next(answers))  # type: ignore[method-assign]
        await client.exchange(b"NOOP\r\n", b"250-one\r\n25")
        world.arm(does, at="NOOP", when="after", reply="451 4.3.0 no")
        server.write(b"0 two\r\n")
        await client.wait_for(b"220 mini\r\n250-one\r\n250 two\r\n")
        assert not world.events(FaultFired)
        await client.exchange(b"NOOP\r\n", b"\r\n")
        assert client.octets == b"220 mini\r\n250-one\r\n250 two\r\n451 4.3.0 no\r\n"
        assert [(e.code, e.lines) for e in world.events(Reply)][1:] == [(250, ("one", "two")), (451, ("4.3.0 no",))]
        assert world.detail == "after NOOP: 250 three"

    run(test)


def test_a_command_of_which_octets_have_passed_is_not_answered_by_the_link_but_the_next_one() -> None:
    async def test(world: World) -> None:
        client = await world.connect_greeted()
        client.write(b"NO")
        await world.server.wait_for(b"NO")
        world.arm("answer", at="NOOP", reply="451 4.3.0 no")
        await client.exchange(b"OP\r\n", b"250 2.0.0 NOOP\r\n")
        await client.exchange(b"NOOP\r\n", b"451 4.3.0 no\r\n")
        assert world.server.octets == b"NOOP\r\n"

    run(test)


def test_a_dot_that_the_link_answers_does_not_reach_the_server() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="dot", reply="250 2.0.0 a lie")
        client = await world.connect_greeted()
        await client.exchange(b"DATA\r\n", b"354 ")
        await client.exchange(BODY + b".\r\n", b"250 2.0.0 a lie\r\n")
        assert await world.server.wait_closed() == "reset"
        assert world.server.octets == b"DATA\r\n" + BODY
        assert not world.events(Content)
        await client.exchange(b"QUIT\r\n", b"221 ")
        assert await client.wait_closed() == "fin"

    run(test)


@pytest.mark.parametrize("does", ["replace", "answer"])
def test_the_greeting_can_be_replaced(does: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="greeting", reply="554 5.3.2 not today")
        client = await world.connect()
        assert await client.wait_for(b"\r\n") == b"554 5.3.2 not today\r\n"
        await client.exchange(b"NOOP\r\n", b"NOOP\r\n")
        assert client.octets == b"554 5.3.2 not today\r\n250 2.0.0 NOOP\r\n"

    run(test)


def test_a_connection_that_the_link_answers_does_not_reach_the_server() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="connect", reply="421-4.3.2 one\n421 4.3.2 two")
        client = await world.connect()
        assert await client.wait_for(b"two\r\n") == b"421-4.3.2 one\r\n421 4.3.2 two\r\n"
        await client.exchange(b"QUIT\r\n", b"221 ")
        assert await client.wait_closed() == "fin"
        assert client.octets.startswith(b"421-4.3.2 one\r\n421 4.3.2 two\r\n221 ")
        await world.wait_round_trip()
        assert not world.served
        assert world.events(Connected)[0].n < world.events(FaultFired)[0].n < world.events(Reply)[0].n
        await world.connect_greeted()
        assert len(world.served) == 1, "the next connection, which the link does not answer, reaches it"

    run(test)


@pytest.mark.parametrize(
    "said", [b"BDAT 12 LAST\r\nMAIL FROM:\r\n", b"BDAT 0 LAST\r\n", b"BDAT 12\r\nMAIL FROM:\r\n", b"BDAT many\r\n"]
)
@pytest.mark.parametrize("read_by_read", [False, True])
def test_a_chunk_that_the_link_answers_does_not_reach_the_server(said: bytes, read_by_read: bool) -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="BDAT", reply="452 4.3.1 no room")
        client = await world.connect_greeted()
        octets = said + b"RSET\r\n"
        for line in octets.splitlines(keepends=True) if read_by_read else [octets]:
            client.write(line)
            await world.wait_round_trip()
        await client.wait_for(b"RSET\r\n")
        assert client.octets == b"220 mini\r\n452 4.3.1 no room\r\n250 2.0.0 RSET\r\n"
        assert world.server.octets == b"RSET\r\n"
        assert not world.events(Content)
        assert [e.line for e in world.events(Command) if e.session == "s1"] == [said.split(b"\r")[0].decode(), "RSET"]
        await client.exchange(b"NOOP\r\n", b"NOOP\r\n")  # the next reply is the server's to the next command

    run(test)


def test_each_recipient_of_a_last_chunk_gets_the_reply_of_the_link() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="BDAT", reply="452 4.3.1 no room")
        client = await world.connect_greeted()
        await client.exchange(
            b"LHLO a\r\nMAIL FROM:<x@y>\r\nRCPT TO:<p@y>\r\nRCPT TO:<q@y>\r\n", b"RCPT\r\n250 2.0.0 RCPT\r\n"
        )
        await client.exchange(b"BDAT 3 LAST\r\nabcRSET\r\n", b"RSET\r\n")
        assert client.octets.endswith(b"RCPT\r\n452 4.3.1 no room\r\n452 4.3.1 no room\r\n250 2.0.0 RSET\r\n")
        assert world.server.octets.endswith(b"RCPT TO:<q@y>\r\nRSET\r\n")
        assert [e.recipient for e in world.events(Reply) if e.to == "CONTENT"] == ["p@y", "q@y"]

    run(test)
