"""Every kind of fault does on the wire what it says, seen by plain sockets, and says so exactly when it does."""

import asyncio
from typing import Any

import pytest

from conformance.history.events import (
    Closed,
    Command,
    Connected,
    ConnectFailed,
    Content,
    FaultArmed,
    FaultFired,
    Reply,
)
from tests.wire.peers import Peer, World, run

BODY = b"A: b\r\n\r\n0123456789\r\n"


async def send(client: Peer) -> None:
    """Hand a message over, one command after another, as far as it goes."""
    for line, answer in (
        (b"MAIL FROM:<x@y>\r\n", b"250 2.0.0 MAIL\r\n"),
        (b"RCPT TO:<z@y>\r\n", b"250 2.0.0 RCPT\r\n"),
        (b"DATA\r\n", b"354 go on\r\n"),
        (BODY + b".\r\n", b"250 2.0.0 stored\r\n"),
    ):
        client.say(line)
        await client.until(answer)


def detail(world: World) -> str:
    (fired,) = world.events(FaultFired)
    assert (fired.fault, fired.client, fired.server) == ("f", "a", "b")
    return fired.detail


@pytest.mark.parametrize(("does", "how"), [("drop", "fin"), ("reset", "reset")])
def test_before_a_command_the_server_never_hears_it(does: str, how: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="RCPT")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        await client.until(b"MAIL\r\n")
        client.say(b"RCPT TO:<z@y>\r\n")
        assert await client.left() == how
        assert await world.server.left() == how
        assert world.server.octets == b"MAIL FROM:<x@y>\r\n"
        assert [e.verb for e in world.events(Command)] == ["MAIL"]
        assert detail(world) == "before RCPT: RCPT TO:<z@y>"
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
        assert detail(world) == "after dot: 250 2.0.0 stored"

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
        client.say(b"DATA\r\n")
        await client.until(b"354 ")
        whole = BODY + b".\r\n"
        for at in range(0, len(whole), max(1, len(whole) // pieces)):
            client.say(whole[at : at + max(1, len(whole) // pieces)])
            await asyncio.sleep(0)
        assert await world.server.left() == "fin"
        assert world.server.octets == b"DATA\r\n" + BODY[:offset]
        assert not world.events(Content)
        assert detail(world).startswith(f"at octet {offset} of the body")

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


def test_stalled_until_healed_and_in_one_direction_only() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="MAIL", times=None)
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\nRSET\r\n")
        await world.event(FaultFired)
        world.server.say(b"250 unasked\r\n")
        await client.until(b"unasked\r\n")
        await world.beat()
        assert world.server.octets == b""
        assert [e.verb for e in world.events(Command) if e.session == "s1"] == []
        world.links.heal("f")
        await client.until(b"RSET\r\n")
        assert world.server.octets == b"MAIL FROM:<x@y>\r\nRSET\r\n"
        assert [e.healed for e in world.events(FaultArmed)] == [False, True]

    run(test)


def test_what_leaves_behind_a_stall_is_passed_on_after_it() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="MAIL")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        client.transport.write_eof()
        await world.event(FaultFired)
        await world.beat()
        assert world.server.how is None
        world.links.heal("all")
        assert await world.server.left() == "fin"
        assert world.server.octets == b"MAIL FROM:<x@y>\r\n"

    run(test)


def test_an_unfinished_line_before_the_end_is_passed_once() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="MAIL")
        client = await world.greeted()
        client.say(b"NO")
        client.transport.write_eof()
        assert await world.server.left() == "fin"
        world.links.heal("f")
        await world.beat()
        assert world.server.octets == b"NO"

    run(test)


def test_what_is_said_to_a_client_that_reset_is_not_recorded() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="MAIL")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        await world.event(FaultFired)
        client.leave_with_reset()
        await world.beat()
        world.server.say(b"250 to nobody\r\n")
        await world.beat()
        assert [e.lines for e in world.events(Reply) if e.session == "s1"] == [("mini",)]
        world.links.heal("f")
        assert await world.server.left() == "reset"

    run(test)


@pytest.mark.parametrize("does", ["stall", "delay"])
def test_delayed_for_documented_seconds(does: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="MAIL", when="after", lasting="5m")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        await client.until(b"MAIL\r\n")
        assert world.asked_to_wait == [300.0]
        assert detail(world) == "after MAIL: 250 2.0.0 MAIL"

    run(test)


def test_a_stalled_flood_stops_the_client() -> None:
    async def test(world: World) -> None:
        world.arm("stall", at="body", offset=10)
        client = await world.greeted()
        client.say(b"DATA\r\n")
        await client.until(b"354 ")
        client.say(b"y" * 30_000_000)
        await world.event(FaultFired)
        await world.beat()
        (relay,) = (relay for relay in world.links.active if relay.pair.server == "b")
        assert relay.up._queued < 1_000_000
        assert world.server.octets == b"DATA\r\n" + b"y" * 10
        world.links.heal("f")
        client.say(b"\r\n.\r\n")
        await client.until(b"stored")
        assert world.events(Content)[0].digest.size == 30_000_002

    run(test)


def test_throttled_to_a_rate_it_all_arrives_in_small_pieces() -> None:
    async def test(world: World) -> None:
        world.arm("throttle", at="DATA", rate=100)
        client = await world.greeted()
        await send(client)
        assert world.server.octets.endswith(b"DATA\r\n" + BODY + b".\r\n")
        assert world.asked_to_wait == [0.01]
        body = world.server.reads[2:]
        assert max(map(len, body)) <= 10

    run(test)


def test_healed_a_throttled_lane_is_as_fast_as_before() -> None:
    async def test(world: World) -> None:
        world.arm("throttle", at="RSET", rate=10)
        client = await world.greeted()
        world.links._breaks._duration = lambda seconds: 3600.0
        client.say(b"RSET\r\nNOOP\r\n")
        await world.server.until(b"R")
        await world.beat()
        assert world.server.octets == b"R"
        world.links.heal("f")
        await client.until(b"NOOP\r\n")
        client.say(b"RSET\r\n")
        await world.server.until(b"NOOP\r\nRSET\r\n")

    run(test)


def test_a_garbled_command_is_recorded_as_the_server_gets_it() -> None:
    async def test(world: World) -> None:
        world.arm("garble", at="MAIL")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        await client.until(b"250 2.0.0 ")
        assert world.server.octets == bytes(o ^ 0x80 for o in b"MAIL FROM:<x@y>") + b"\r\n"
        assert world.events(Command)[0].verb == ""
        assert detail(world) == "before MAIL: MAIL FROM:<x@y>"

    run(test)


def test_a_garbled_secret_stays_one() -> None:
    async def test(world: World) -> None:
        world.arm("garble", at="AUTH")
        client = await world.greeted()
        client.say(b"AUTH PLAIN c2VjcmV0\r\n")
        await client.until(b"250 2.0.0 ")
        assert world.events(Command)[0].line == "AUTH PLAIN (redacted)"
        assert detail(world) == "before AUTH: AUTH PLAIN (redacted)"

    run(test)


def test_a_garbled_reply_has_no_code() -> None:
    async def test(world: World) -> None:
        world.arm("garble", at="MAIL", when="after")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        await client.until(bytes(o ^ 0x80 for o in b"250 2.0.0 MAIL") + b"\r\n")
        assert world.events(Reply)[-1].code == 0

    run(test)


def test_a_garbled_body_differs_in_one_octet_and_so_does_its_digest() -> None:
    async def test(world: World) -> None:
        await send(await world.greeted())
        world.arm("garble", at="body", offset=10)
        await send(await world.greeted())
        clean, garbled = (peer.octets.partition(b"DATA\r\n")[2] for peer in world.served)
        assert [n for n in range(len(BODY)) if clean[n] != garbled[n]] == [10]
        one, other = (event.digest for event in world.events(Content))
        assert one.body_sha256 != other.body_sha256

    run(test)


@pytest.mark.parametrize("does", ["replace", "answer"])
def test_a_reply_replaced_is_the_one_recorded(does: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="MAIL", when="after", reply="451 4.4.0 Message failed to be made redundant")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        await client.until(b"451 4.4.0 Message failed to be made redundant\r\n")
        assert world.server.octets == b"MAIL FROM:<x@y>\r\n"
        reply = world.events(Reply)[-1]
        assert (reply.to, reply.code, reply.enhanced) == ("MAIL", 451, "4.4.0")
        assert detail(world) == "after MAIL: 250 2.0.0 MAIL"
        client.say(b"RSET\r\n")
        await client.until(b"RSET\r\n")

    run(test)


def test_replaced_at_data_the_server_waits_for_no_content() -> None:
    async def test(world: World) -> None:
        world.arm("replace", at="DATA", reply="452 4.3.1 no room")
        client = await world.greeted()
        client.say(b"DATA\r\n")
        await client.until(b"452 4.3.1 no room\r\n")
        assert await world.server.left() == "reset"
        client.say(b"RSET\r\n")
        await client.until(b"421 4.3.2 ")
        assert await client.left() == "fin"

    run(test)


def test_answered_for_the_server_does_not_hear_the_command() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="RCPT", reply="450 4.2.1 busy")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\nRCPT TO:<z@y>\r\nRSET\r\n")
        await client.until(b"RSET\r\n")
        assert client.octets == b"220 mini\r\n250 2.0.0 MAIL\r\n450 4.2.1 busy\r\n250 2.0.0 RSET\r\n"
        assert world.server.octets == b"MAIL FROM:<x@y>\r\nRSET\r\n"
        assert [(e.to, e.code) for e in world.events(Reply)][1:] == [("MAIL", 250), ("RCPT", 450), ("RSET", 250)]

    run(test)


def test_answered_for_at_the_dot_nothing_is_stored() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="dot", reply="250 2.0.0 a lie")
        client = await world.greeted()
        client.say(b"DATA\r\n")
        await client.until(b"354 ")
        client.say(BODY + b".\r\n")
        await client.until(b"250 2.0.0 a lie\r\n")
        assert await world.server.left() == "reset"
        assert world.server.octets == b"DATA\r\n" + BODY
        assert not world.events(Content)
        client.say(b"QUIT\r\n")
        await client.until(b"221 ")
        assert await client.left() == "fin"

    run(test)


@pytest.mark.parametrize("does", ["replace", "answer"])
def test_the_greeting_can_be_another(does: str) -> None:
    async def test(world: World) -> None:
        world.arm(does, at="greeting", reply="554 5.3.2 not today")
        client = await world.client()
        assert await client.until(b"\r\n") == b"554 5.3.2 not today\r\n"

    run(test)


def test_answered_at_connect_nobody_is_dialled() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="connect", reply="421-4.3.2 one\n421 4.3.2 two")
        client = await world.client()
        assert await client.until(b"two\r\n") == b"421-4.3.2 one\r\n421 4.3.2 two\r\n"
        client.say(b"QUIT\r\n")
        await client.until(b"221 ")
        assert await client.left() == "fin"
        assert not world.served
        assert world.events(Connected)[0].n < world.events(FaultFired)[0].n < world.events(Reply)[0].n

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


def test_split_into_single_octets() -> None:
    async def test(world: World) -> None:
        world.arm("split", at="MAIL", times=None)
        client = await world.greeted()
        client.say(b"NOOP\r\nMAIL FROM:<x@y>\r\nRSET\r\n")
        await client.until(b"RSET\r\n")
        assert world.server.octets == b"NOOP\r\nMAIL FROM:<x@y>\r\nRSET\r\n"
        assert max(map(len, world.server.reads[1:-1])) == 1
        assert world.server.reads[-1].endswith(b"RSET\r\n")

    run(test)


def test_merged_with_what_follows() -> None:
    async def test(world: World) -> None:
        world.arm("merge", at="MAIL", lasting="1h")
        client = await world.greeted()
        world.links._breaks._duration = lambda seconds: seconds
        client.say(b"MAIL FROM:<x@y>\r\n")
        await world.event(FaultFired)
        await world.beat()
        assert world.server.reads == []
        client.say(b"RSET\r\n")
        await client.until(b"RSET\r\n")
        assert world.server.reads == [b"MAIL FROM:<x@y>\r\nRSET\r\n"]

    run(test)


def test_merged_with_nothing_it_passes_in_the_end() -> None:
    async def test(world: World) -> None:
        world.arm("merge", at="MAIL", lasting="3s")
        client = await world.greeted()
        client.say(b"MAIL FROM:<x@y>\r\n")
        await client.until(b"MAIL\r\n")
        assert world.asked_to_wait == [3.0]

    run(test)


def test_the_nth_occurrence_over_all_sessions_and_so_many_times() -> None:
    async def test(world: World) -> None:
        world.arm("answer", at="NOOP", reply="500 f", nth=2, times=2)
        first, second = await world.greeted(), await world.greeted()
        for n, client in enumerate((first, second, first, second)):
            client.say(b"NOOP\r\n")
            await client.until(b"NOOP\r\n" if n in (0, 3) else b"500 f\r\n")
        assert [e.session for e in world.events(FaultFired)] == ["s2", "s1"]

    run(test)


def test_a_command_is_also_met_by_what_it_means() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="query-discard")
        client = await world.greeted()
        client.say(b"NOOP\r\nXQDISCARD a 10\r\n")
        assert await world.server.left() == "fin"
        assert world.server.octets == b"NOOP\r\n"

    run(test)


def test_a_spent_or_healed_fault_lets_unfinished_lines_pass_at_once_again() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="RSET")
        client = await world.greeted()
        client.say(b"NO")
        await world.beat()
        assert world.server.octets == b""  # armed: unit by unit
        world.links.heal("f")
        await world.server.until(b"NO")
        client.say(b"OP\r\n")
        await client.until(b"NOOP\r\n")
        assert world.server.octets == b"NOOP\r\n"

    run(test)


def test_armed_amid_a_line_nothing_is_passed_twice() -> None:
    async def test(world: World) -> None:
        client = await world.greeted()
        client.say(b"NO")
        await world.server.until(b"NO")
        world.arm("drop", at="RSET")
        client.say(b"OP\r\nNOOP\r\n")
        await world.server.until(b"NOOP\r\nNOOP\r\n")
        client.say(b"RSET\r\n")
        assert await world.server.left() == "fin"
        assert world.server.octets == b"NOOP\r\nNOOP\r\n"

    run(test)


def test_a_fault_on_another_link_changes_nothing() -> None:
    async def test(world: World) -> None:
        world.arm("drop", at="NOOP", to="c")
        client = await world.greeted()
        client.say(b"NOOP\r\n")
        await client.until(b"NOOP\r\n")
        assert not world.events(FaultFired)
        assert world.events(FaultArmed)[0].links == ("a -> c smtp",)

    run(test)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"does": "refuse", "at": "MAIL"}, "refuse makes no sense at MAIL"),
        ({"does": "split", "at": "connect"}, "split makes no sense at connect"),
        ({"does": "garble", "at": "dot"}, "a garbled dot ends nothing"),
        ({"does": "delay", "at": "MAIL"}, "delay needs `lasting`"),
        ({"does": "throttle"}, "throttle needs `rate`"),
        ({"does": "replace", "at": "MAIL"}, "replace needs `reply`"),
        ({"does": "drop", "to": "nobody"}, "concerns no link"),
    ],
)
def test_what_makes_no_sense_is_not_armed(fields: dict[str, Any], words: str) -> None:
    async def test(world: World) -> None:
        with pytest.raises(ValueError, match=words):
            world.arm(**fields)
        assert not world.recorder.events

    run(test)


def test_only_what_is_in_force_can_be_healed() -> None:
    async def test(world: World) -> None:
        with pytest.raises(ValueError, match="no fault or partition 'f'"):
            world.links.heal("f")
        world.links.heal("all")

    run(test)
