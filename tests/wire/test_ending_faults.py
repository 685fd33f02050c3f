"""Faults that end a session or one direction of it: which octets have passed, and how each side sees the end."""

import asyncio

import pytest

from conformance.history.events import Closed, Command, Connected, ConnectFailed, Content, FaultFired, Reply
from tests.wire.peers import BODY, World, run, send_message


@pytest.mark.parametrize(("does", "how"), [("drop", "fin"), ("reset", "reset")])
def test_a_session_ended_before_a_command_does_not_forward_it(does: str, how: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="RCPT")
        client = await world.connect_greeted()
        await client.exchange(b"MAIL FROM:<x@y>\r\n", b"MAIL\r\n")
        client.write(b"RCPT TO:<z@y>\r\n")
        assert await client.wait_closed() == how
        assert await world.server.wait_closed() == how
        assert world.server.octets == b"MAIL FROM:<x@y>\r\n"
        assert [e.verb for e in world.events(Command)] == ["MAIL"]
        assert world.detail == "before RCPT: RCPT TO:<z@y>"
        closed = world.events(Closed)[0]
        assert (closed.by, closed.how) == ("link", how)

    run(test)


@pytest.mark.parametrize(("does", "how"), [("drop", "fin"), ("reset", "reset")])
def test_a_session_ended_after_the_dot_withholds_the_reply_to_a_stored_message(does: str, how: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="dot", when="after")
        client = await world.connect_greeted()
        sending = asyncio.ensure_future(send_message(client))
        assert await client.wait_closed() == how
        sending.cancel()
        assert await world.server.wait_closed() == how
        assert world.server.octets.endswith(BODY + b".\r\n")
        assert b"stored" not in client.octets
        assert len(world.events(Content)) == 1
        assert "CONTENT" not in [e.to for e in world.events(Reply)]
        assert world.detail == "after dot: 250 2.0.0 stored"

    run(test)


@pytest.mark.parametrize(("does", "how"), [("drop", "fin"), ("reset", "reset")])
def test_a_session_ended_before_the_dot_has_forwarded_the_body_alone(does: str, how: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="dot")
        client = await world.connect_greeted()
        sending = asyncio.ensure_future(send_message(client))
        assert await world.server.wait_closed() == how
        assert await client.wait_closed() == how
        sending.cancel()
        assert world.server.octets.endswith(b"DATA\r\n" + BODY)
        assert not world.events(Content)

    run(test)


@pytest.mark.parametrize("offset", [0, 1, 8, 13, len(BODY) - 1, len(BODY)])
@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_a_session_cut_in_the_body_forwards_exactly_the_octets_before_the_offset(offset: int, pieces: int) -> None:
    async def test(world: World) -> None:
        world.arm("cut", at="body", offset=offset)
        client = await world.connect_greeted()
        await client.exchange(b"DATA\r\n", b"354 ")
        whole = BODY + b".\r\n"
        for at in range(0, len(whole), max(1, len(whole) // pieces)):
            client.write(whole[at : at + max(1, len(whole) // pieces)])
            await asyncio.sleep(0)
        assert await world.server.wait_closed() == "fin"
        assert world.server.octets == b"DATA\r\n" + BODY[:offset]
        assert not world.events(Content)
        assert world.detail.startswith(f"at octet {offset} of the body")

    run(test)


@pytest.mark.parametrize("offset", [0, 7, 16])
def test_a_session_cut_in_a_command_forwards_the_octets_before_the_offset(offset: int) -> None:
    async def test(world: World) -> None:
        world.arm("cut", at="MAIL", offset=offset)
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\n")
        assert await world.server.wait_closed() == "fin"
        assert world.server.octets == b"MAIL FROM:<x@y>\r"[:offset]

    run(test)


def test_a_half_close_towards_the_server_still_forwards_its_reply() -> None:
    async def test(world: World) -> None:
        world.arm("half-close", at="MAIL")
        client = await world.connect_greeted()
        client.write(b"NOOP\r\nMAIL FROM:<x@y>\r\nRSET\r\n")
        assert await world.server.wait_closed() == "fin"
        assert world.server.octets == b"NOOP\r\n"
        world.server.write(b"421 4.4.2 you left\r\n")
        await client.wait_for(b"you left\r\n")
        assert client.closed_with is None

    run(test)


def test_a_half_close_towards_the_client_still_forwards_its_commands() -> None:
    async def test(world: World) -> None:
        world.arm("half-close", at="MAIL", when="after")
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\n")
        assert await client.wait_closed() == "fin"
        assert client.octets == b"220 mini\r\n"
        client.write(b"RSET\r\nNOOP\r\n")
        await world.server.wait_for(b"RSET\r\nNOOP\r\n")
        await world.wait_round_trip()
        assert client.octets == b"220 mini\r\n"
        assert world.server.closed_with is None

    run(test)


@pytest.mark.parametrize(("does", "how"), [("refuse", "reset"), ("reset", "reset"), ("drop", "fin")])
def test_refused_connections_fail_and_no_server_is_dialled(does: str, how: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="connect")
        client = await world.connect()
        assert await client.wait_closed() == how
        assert not world.served
        assert world.events(ConnectFailed)[0].reason == "fault f"
        assert not world.events(Connected)
        assert world.events(FaultFired)[0].session is None
        await world.connect_greeted()
        assert len(world.served) == 1, "the server has accepted the second connection only"

    run(test)


def test_mute_at_connect_sends_nothing_until_the_client_leaves() -> None:
    async def test(world: World) -> None:
        world.arm("mute", at="connect")
        client = await world.connect()
        client.write(b"EHLO a\r\n")
        await world.wait_for_event(FaultFired)
        await world.wait_round_trip()
        assert client.octets == b""
        assert client.closed_with is None
        client.transport.write_eof()
        assert await client.wait_closed() == "fin"
        assert client.octets == b""
        assert [(e.session, e.by) for e in world.events(Closed) if e.session == "s1"] == [("s1", "client")]

    run(test)


def test_the_end_of_a_muted_session_brings_no_unfinished_line() -> None:
    async def test(world: World) -> None:
        world.arm("mute", at="MAIL")
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\n")
        await world.wait_for_event(FaultFired)
        before = world.server.octets
        client.write(b"RCPT TO:<secret")
        await world.wait_round_trip()
        client.transport.write_eof()
        assert await world.server.wait_closed() == "fin"
        assert world.server.octets == before
        world.server.write(b"42")
        world.server.transport.close()
        assert await client.wait_closed() == "fin"
        assert client.octets == b"220 mini\r\n"

    run(test)


def test_healing_resets_a_muted_session() -> None:
    async def test(world: World) -> None:
        world.arm("mute", at="MAIL")
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\n")
        await world.wait_for_event(FaultFired)
        world.server.write(b"250 unheard\r\n")
        await world.wait_round_trip()
        assert client.octets == b"220 mini\r\n"
        assert (client.closed_with, world.server.closed_with) == (None, None)
        world.links.heal("f")
        assert await client.wait_closed() == "reset"
        assert await world.server.wait_closed() == "reset"

    run(test)
