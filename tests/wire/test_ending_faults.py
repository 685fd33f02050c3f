"""Faults that end a session, or one direction of it: what has passed by then, what has not, and how each side is left."""

import asyncio

import pytest

from conformance.history.events import Closed, Command, Connected, ConnectFailed, Content, FaultFired, Reply
from tests.wire.peers import BODY, World, run, send


@pytest.mark.parametrize(("does", "how"), [("drop", "fin"), ("reset", "reset")])
def test_before_a_command_the_server_never_hears_it(does: str, how: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="RCPT")
        client = await world.greeted()
        await client.ask(b"MAIL FROM:<x@y>\r\n", b"MAIL\r\n")
        client.say(b"RCPT TO:<z@y>\r\n")
        assert await client.left() == how
        assert await world.server.left() == how
        assert world.server.octets == b"MAIL FROM:<x@y>\r\n"
        assert [e.verb for e in world.events(Command)] == ["MAIL"]
        assert world.detail == "before RCPT: RCPT TO:<z@y>"
        closed = world.events(Closed)[0]
        assert (closed.by, closed.how) == ("link", how)

    run(test)


@pytest.mark.parametrize(("does", "how"), [("drop", "fin"), ("reset", "reset")])
def test_after_the_dot_the_message_is_stored_and_nobody_is_told(does: str, how: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="dot", when="after")
        client = await world.greeted()
        sending = asyncio.ensure_future(send(client))
        assert await client.left() == how
        sending.cancel()
        assert world.server.octets.endswith(BODY + b".\r\n")
        assert b"stored" not in client.octets
        assert len(world.events(Content)) == 1
        assert "CONTENT" not in [e.to for e in world.events(Reply)]
        assert world.detail == "after dot: 250 2.0.0 stored"

    run(test)


def test_before_the_dot_the_body_has_passed_and_the_dot_has_not() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="dot")
        client = await world.greeted()
        sending = asyncio.ensure_future(send(client))
        assert await world.server.left() == "fin"
        sending.cancel()
        assert world.server.octets.endswith(b"DATA\r\n" + BODY)
        assert not world.events(Content)

    run(test)


@pytest.mark.parametrize("offset", [0, 1, 8, 13, len(BODY) - 1, len(BODY)])
@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_in_the_body_exactly_so_many_octets_pass(offset: int, pieces: int) -> None:
    async def test(world: World) -> None:
        world.arm("cut", at="body", offset=offset)
        client = await world.greeted()
        await client.ask(b"DATA\r\n", b"354 ")
        whole = BODY + b".\r\n"
        for at in range(0, len(whole), max(1, len(whole) // pieces)):
            client.say(whole[at : at + max(1, len(whole) // pieces)])
            await asyncio.sleep(0)
        assert await world.server.left() == "fin"
        assert world.server.octets == b"DATA\r\n" + BODY[:offset]
        assert not world.events(Content)
        assert world.detail.startswith(f"at octet {offset} of the body")

    run(test)


def test_a_command_can_be_cut() -> None:
    async def test(world: World) -> None:
        world.arm("cut", at="MAIL", offset=7)
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        assert await world.server.left() == "fin"
        assert world.server.octets == b"MAIL FR"

    run(test)


def test_half_closed_towards_the_server_its_reply_still_comes() -> None:
    async def test(world: World) -> None:
        world.arm("half-close", at="MAIL")
        client = await world.greeted()
        client.say(b"NOOP\r\nMAIL FROM:<x@y>\r\nRSET\r\n")
        assert await world.server.left() == "fin"
        assert world.server.octets == b"NOOP\r\n"
        world.server.say(b"421 4.4.2 you left\r\n")
        await client.until(b"you left\r\n")
        assert client.how is None

    run(test)


def test_half_closed_towards_the_client_it_can_still_talk() -> None:
    async def test(world: World) -> None:
        world.arm("half-close", at="MAIL", when="after")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        assert await client.left() == "fin"
        assert client.octets == b"220 mini\r\n"
        client.say(b"RSET\r\n")
        await world.server.until(b"RSET\r\n")
        assert world.server.how is None

    run(test)


@pytest.mark.parametrize(("does", "how"), [("refuse", "reset"), ("reset", "reset"), ("drop", "fin")])
def test_refused_connections_fail_and_no_server_is_dialled(does: str, how: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="connect")
        client = await world.client()
        assert await client.left() == how
        assert not world.served
        assert world.events(ConnectFailed)[0].reason == "fault f"
        assert not world.events(Connected)
        assert world.events(FaultFired)[0].session is None
        await world.greeted()

    run(test)


def test_mute_at_connect_says_nothing_until_the_client_goes() -> None:
    async def test(world: World) -> None:
        world.arm("mute", at="connect")
        client = await world.client()
        client.say(b"EHLO a\r\n")
        await world.event(FaultFired)
        await world.beat()
        assert client.octets == b""
        assert client.how is None
        client.transport.write_eof()
        assert await client.left() == "fin"
        assert [(e.session, e.by) for e in world.events(Closed) if e.session == "s1"] == [("s1", "client")]

    run(test)


def test_healed_a_mute_session_is_reset() -> None:
    async def test(world: World) -> None:
        world.arm("mute", at="MAIL")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        await world.event(FaultFired)
        world.server.say(b"250 unheard\r\n")
        await world.beat()
        assert client.octets == b"220 mini\r\n"
        world.links.heal("f")
        assert await client.left() == "reset"
        assert await world.server.left() == "reset"

    run(test)
