"""Two faults in one session, and replies to AUTH that the server does not know of."""

import asyncio

import pytest

from conformance.history.events import Command, FaultFired
from conformance.scenarios.steps.breaking import Fault
from tests.wire.peers import BODY, MiniServer, World, run


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
    ("at", "slower", "how"), [("connect", 1, "fin"), ("MAIL", 1_000_000, "fin"), ("MAIL", 1_000_000, "reset")]
)
def test_the_end_of_a_muted_client_passes_though_it_was_throttled(at: str, slower: int, how: str) -> None:
    async def test(world: World) -> None:
        world.convert_duration = lambda seconds: seconds * slower
        arm(world, "slow", does="throttle", at=at, rate=2000)
        arm(world, "quiet", does="mute", at="MAIL", when="after")
        client = await world.connect()
        await client.wait_for(b"220 mini\r\n")
        client.write(b"MAIL FROM:<x@y>\r\n")
        await world.server.wait_for(b"MAIL")
        if how == "reset":
            while len(world.events(FaultFired)) < 2:  # RST before that discards the reply, and nothing is muted
                await asyncio.sleep(0)
            client.close_with_rst()
        else:
            client.transport.write_eof()
        assert await world.server.wait_closed() == how
        await world.wait_round_trip()
        assert [event.fault for event in world.events(FaultFired)] == ["slow", "quiet"]
        assert client.octets == b"220 mini\r\n"

    run(test)


@pytest.mark.parametrize(
    "first",
    [{"does": "delay", "lasting": 1}, {"does": "stall", "lasting": 1}, {"does": "garble"}, {"does": "split"},
     {"does": "throttle", "rate": 50}],
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
