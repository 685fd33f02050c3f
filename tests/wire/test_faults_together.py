"""Two faults in one session, and replies to AUTH that the server does not know of."""

import asyncio

import pytest

from conformance.history.events import Command, Content, FaultFired, Reply
from conformance.scenarios.steps.breaking import Fault
from tests.wire.peers import BODY, MiniServer, World, run, send_message


def arm(world: World, name: str, **fields: object) -> None:
    world.links.arm(Fault.model_validate({"as": name, "from": "a", "to": "b", **fields}))


MAIL = b"MAIL FROM:<alice@outside.test> SIZE=296\r\n"


class AuthServer(MiniServer):
    """A MiniServer that asks for a response to AUTH."""

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"AUTH"):
            self.reads.append(data)
            self.write(b"334 VXNlcm5hbWU6\r\n")
        else:
            super().data_received(data)


@pytest.mark.parametrize(
    ("server", "fault", "ended"),
    [
        (AuthServer, {"does": "replace", "when": "after", "reply": "535 5.7.8 refused"}, True),
        (MiniServer, {"does": "replace", "when": "after", "reply": "334 VXNlcm5hbWU6"}, True),
        (AuthServer, {"does": "answer", "reply": "334 VXNlcm5hbWU6"}, True),
        (AuthServer, {"does": "answer", "reply": "535 5.7.8 refused"}, False),
    ],
)
def test_after_a_reply_to_auth_that_the_server_does_not_know_of_a_line_is_a_secret_only_behind_334(
    monkeypatch: pytest.MonkeyPatch, server: type[MiniServer], fault: dict[str, str], ended: bool
) -> None:
    monkeypatch.setattr("tests.wire.peers.MiniServer", server)

    async def test(world: World) -> None:
        arm(world, "f", at="AUTH", **fault)
        client = await world.connect_greeted()
        await client.exchange(b"AUTH LOGIN\r\n", fault["reply"].encode() + b"\r\n")
        line, said = MAIL, MAIL.decode().rstrip()
        if fault["reply"].startswith("334"):
            line, said = b"c2VjcmV0\r\n", "(redacted)"
        await client.exchange(line, b"421 " if ended else b"250 2.0.0 MAIL\r\n")
        if ended:
            assert await client.wait_closed() == "fin"
        other = await world.connect_greeted()
        await other.exchange(MAIL, b"250 2.0.0 MAIL\r\n")
        assert [command.line for command in world.events(Command)] == ["AUTH LOGIN", said, MAIL.decode().rstrip()]
        assert "c2VjcmV0" not in str(world.recorder.events)

    run(test)


@pytest.mark.parametrize(
    ("fault", "reply"),
    [
        ({"does": "answer", "at": "DATA", "reply": "354 go on"}, b"354 go on\r\n"),
        (
            {"does": "replace", "at": "DATA", "when": "after", "reply": "451 4.3.0 a rather long text, later"},
            b"451 4.3.0 a rather long text, later\r\n",
        ),
    ],
)
def test_a_throttled_client_gets_the_whole_substitute_of_a_reply(fault: dict[str, str], reply: bytes) -> None:
    async def test(world: World) -> None:
        world.convert_duration = lambda seconds: seconds / 50
        arm(world, "slow", does="throttle", at="connect", rate=20)  # two octets at a time
        arm(world, "substitute", **fault)
        client = await world.connect()
        await client.wait_for(b"220 mini\r\n")
        await client.exchange(b"MAIL FROM:<x@y>\r\n", b"250 2.0.0 MAIL\r\n")
        await client.exchange(b"DATA\r\n", reply)
        assert await world.server.wait_closed() == "reset"
        assert client.octets == b"220 mini\r\n250 2.0.0 MAIL\r\n" + reply
        assert [event.fault for event in world.events(FaultFired)] == ["slow", "substitute"]

    run(test)


@pytest.mark.parametrize(
    ("at", "slower", "how", "ends_before"),
    [
        ("connect", 1, "fin", False),
        ("MAIL", 1_000_000, "fin", False),
        ("MAIL", 1_000_000, "fin", True),
        ("MAIL", 1_000_000, "reset", False),
    ],
)
def test_the_end_of_a_muted_client_passes_though_it_was_throttled(
    at: str, slower: int, how: str, ends_before: bool
) -> None:
    async def test(world: World) -> None:
        world.convert_duration = lambda seconds: seconds * slower
        arm(world, "slow", does="throttle", at=at, rate=2000)
        arm(world, "quiet", does="mute", at="MAIL", when="after")
        client = await world.connect()
        await client.wait_for(b"220 mini\r\n")
        client.write(b"MAIL FROM:<x@y>\r\n")
        if ends_before:  # its end waits behind what is throttled when it is muted
            client.transport.write_eof()
        await world.server.wait_for(b"MAIL")
        if how == "reset":
            while len(world.events(FaultFired)) < 2:  # RST before that discards the reply, and nothing is muted
                await asyncio.sleep(0)
            client.close_with_rst()
        elif not ends_before:
            client.transport.write_eof()
        assert await world.server.wait_closed() == how
        await world.wait_round_trip()
        assert [event.fault for event in world.events(FaultFired)] == ["slow", "quiet"]
        assert client.octets == b"220 mini\r\n"

    run(test)


@pytest.mark.parametrize(
    "first",
    [{"does": "delay", "lasting": 1}, {"does": "stall", "lasting": 1}, {"does": "garble"}, {"does": "split"},
     {"does": "throttle", "rate": 50}, {"does": "merge", "lasting": 1}],
    ids=lambda fields: fields["does"],
)  # fmt: skip
def test_a_fault_at_a_later_offset_of_a_content_acts_behind_an_earlier_one(first: dict[str, object]) -> None:
    async def test(world: World) -> None:
        arm(world, "one", at="body", offset=3, **first)
        arm(world, "two", at="body", offset=12, does="drop")
        client = await world.connect_greeted()
        await client.exchange(b"MAIL FROM:<x@y>\r\n", b"250 2.0.0 MAIL\r\n")
        await client.exchange(b"DATA\r\n", b"354 ")
        client.write(BODY + b".\r\n")
        assert await world.server.wait_closed() == "fin"
        assert [event.fault for event in world.events(FaultFired)] == ["one", "two"]
        assert len(world.server.octets.partition(b"DATA\r\n")[2]) == 12

    run(test)


@pytest.mark.parametrize("merge_at", [0, 3])
@pytest.mark.parametrize("cut_at", [12, len(BODY)])
@pytest.mark.parametrize("reads", [(20,), (5, 15), (9, 3, 8)])
def test_a_fault_at_a_later_offset_of_a_content_counts_what_is_merged(
    merge_at: int, cut_at: int, reads: tuple[int, ...]
) -> None:
    async def test(world: World) -> None:
        arm(world, "merging", does="merge", at="body", offset=merge_at, times=None, lasting="1h")
        world.convert_duration = lambda seconds: seconds
        client = await world.connect_greeted()
        await send_message(client)
        arm(world, "cutting", does="cut", at="body", offset=cut_at)
        await client.exchange(b"DATA\r\n", b"354 ")
        rest = BODY
        for size in reads:
            client.write(rest[:size] + (b".\r\n" if size == len(rest) else b""))
            rest = rest[size:]
            await world.wait_round_trip()
        assert await world.server.wait_closed() == "fin"
        assert [event.fault for event in world.events(FaultFired)] == ["merging", "merging", "cutting"]
        assert world.server.octets.rpartition(b"DATA\r\n")[2] == BODY[:cut_at]
        assert len(world.events(Content)) == 1

    run(test)


def test_each_of_several_contents_that_are_merged_whole_is_counted() -> None:
    async def test(world: World) -> None:
        for place in ("body", "dot", "MAIL", "RCPT", "BDAT"):
            arm(world, f"merging-{place.lower()}", does="merge", at=place, times=None, lasting="1h")
        arm(world, "cutting", does="cut", at="body", offset=2)
        world.convert_duration = lambda seconds: seconds
        client = await world.connect_greeted()
        whole = b"MAIL FROM:<x@y>\r\nRCPT TO:<z@y>\r\nBDAT 1 LAST\r\na"
        aborted = b"BDAT 1\r\nbMAIL FROM:<x@y>\r\n"
        client.write(whole + aborted + b"BDAT 3 LAST\r\nghi")
        assert await world.server.wait_closed() == "fin"
        assert world.server.reads == [whole + aborted + b"BDAT 3 LAST\r\ngh"]
        assert [event.fault for event in world.events(FaultFired)].count("merging-body") == 3

    run(test)


@pytest.mark.parametrize("does", ["cut", "drop", "half-close", "reset", "mute"])
@pytest.mark.parametrize("slow", [False, True])
def test_a_command_merged_with_one_at_which_the_session_ends_passes_before_it(does: str, slow: bool) -> None:
    async def test(world: World) -> None:
        if slow:
            arm(world, "slow", does="throttle", at="EHLO", rate=100)
        arm(world, "merging", does="merge", at="MAIL", lasting="1h")
        arm(world, "ending", does=does, at="RCPT")
        client = await world.connect_greeted()
        await client.exchange(b"EHLO a\r\n", b"EHLO\r\n")
        world.convert_duration = lambda seconds: seconds
        client.write(b"MAIL FROM:<x@y>\r\nRCPT TO:<z@y>\r\n")
        if does == "mute":
            await world.server.wait_for(b"<x@y>\r\n")
        else:
            assert await world.server.wait_closed() == ("reset" if does == "reset" else "fin")
        assert world.server.octets == b"EHLO a\r\nMAIL FROM:<x@y>\r\n" + (b"RCPT TO" if does == "cut" else b"")
        assert [e.verb for e in world.events(Command) if e.session == "s1"] == ["EHLO", "MAIL"]

    run(test)


def test_a_reply_merged_with_one_that_is_cut_passes_before_it() -> None:
    async def test(world: World) -> None:
        arm(world, "merging", does="merge", at="MAIL", when="after", lasting="1h")
        arm(world, "cutting", does="cut", at="RCPT", when="after", offset=5)
        world.convert_duration = lambda seconds: seconds
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\nRCPT TO:<z@y>\r\n")
        assert await client.wait_closed() == "fin"
        assert client.octets == b"220 mini\r\n250 2.0.0 MAIL\r\n250 2"
        assert [e.to for e in world.events(Reply)] == ["GREETING", "MAIL"]

    run(test)


@pytest.mark.parametrize(("at", "reply"), [("RCPT", "450 4.2.1 busy"), ("DATA", "354 go on"), ("dot", "250 a lie")])
def test_what_is_merged_with_a_unit_that_the_link_answers_passes_before_it(at: str, reply: str) -> None:
    async def test(world: World) -> None:
        said = b"MAIL FROM:<x@y>\r\nRCPT TO:<z@y>\r\nDATA\r\n"
        arm(world, "merging", does="merge", at={"RCPT": "MAIL", "DATA": "RCPT", "dot": "body"}[at], lasting="1h")
        arm(world, "answering", does="answer", at=at, reply=reply)
        client = await world.connect_greeted()
        world.convert_duration = lambda seconds: seconds
        await client.exchange(said, b"354 go on\r\n")
        if at == "dot":
            await client.exchange(BODY + b".\r\n", b"250 a lie\r\n")
        passed = {"RCPT": said.replace(b"RCPT TO:<z@y>\r\n", b""), "DATA": said[:-6], "dot": said + BODY}[at]
        await world.server.wait_for(passed)
        assert world.server.octets == passed
        assert [e.verb for e in world.events(Command)] == ["MAIL", "RCPT", "DATA"]

    run(test)


@pytest.mark.parametrize("first", [{"does": "throttle", "rate": 10}, {"does": "merge", "lasting": "1h"}])
def test_a_reply_kept_back_reaches_the_client_whole_before_a_substitute_for_which_the_server_is_reset(
    first: dict[str, object],
) -> None:
    async def test(world: World) -> None:
        arm(world, "keeping", at="MAIL", when="after", **first)
        arm(world, "substitute", does="answer", at="DATA", reply="354 go on")
        world.convert_duration = lambda seconds: seconds * 3600
        client = await world.connect_greeted()
        client.write(b"MAIL FROM:<x@y>\r\n")
        while not world.events(FaultFired):
            await asyncio.sleep(0)
        await client.exchange(b"DATA\r\n", b"354 go on\r\n")
        assert client.octets == b"220 mini\r\n250 2.0.0 MAIL\r\n354 go on\r\n"
        assert [(e.to, e.code) for e in world.events(Reply)] == [("GREETING", 220), ("MAIL", 250), ("DATA", 354)]
        assert await world.server.wait_closed() == "reset"

    run(test)
