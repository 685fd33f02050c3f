"""The sender: every way a transmission can end is an outcome, and every octet is as it was asked for."""

import asyncio
import base64
from collections.abc import Callable

import pytest

from conformance.wire.client import Identity
from conformance.wire.link import RecordedSession
from conformance.wire.sender import Recipient, Sender, SendResult, Transmission
from tests.wire.scripted_server import scripted

ONE = Transmission("a@x", (Recipient("b@x"),), b"A: b\r\n\r\n.dot\r\n")
EHLO = (b"220 x\r\n", b"250-x\r\n250 SIZE 1000\r\n")
GROUPS = (b"220 x\r\n", b"250-x\r\n250-PIPELINING\r\n250 SIZE 1000\r\n")
ACCEPTED = (*EHLO, b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n", b"", b"", b"", b"250 2.6.0 stored\r\n")


def run(
    turns: tuple[bytes | None, ...],
    transmission: Transmission = ONE,
    identity: Identity | None = None,
    limit: Callable[[float], float] = lambda seconds: seconds,
) -> tuple[SendResult, list[bytes]]:
    async def main() -> tuple[SendResult, list[bytes]]:
        async with asyncio.timeout(10), scripted(*turns) as (address, heard):
            sender = Sender(address, identity, duration=limit)
            outcome = await sender.send(transmission)
            await sender.quit()
            return outcome, heard

    return asyncio.run(main())


def test_a_message_is_handed_over() -> None:
    outcome, heard = run(ACCEPTED)
    assert outcome == SendResult(
        "answered", code=250, enhanced="2.6.0", text="2.6.0 stored", accepted=("b@x",), dot_sent=True
    )
    assert heard[:8] == [
        b"EHLO outside.test\r\n",
        b"MAIL FROM:<a@x> SIZE=14\r\n",
        b"RCPT TO:<b@x>\r\n",
        b"DATA\r\n",
        b"A: b\r\n",
        b"\r\n",
        b"..dot\r\n",
        b".\r\n",
    ]


@pytest.mark.parametrize(
    ("turns", "code", "accepted", "refused"),
    [
        ((b"554 5.3.2 no\r\n",), 554, (), ()),
        ((b"421 4.3.2 no\r\n", None), 421, (), ()),
        ((b"220 x\r\n", b"502 no\r\n", b"502 no\r\n"), 502, (), ()),
        ((*EHLO, b"451 4.3.0 no\r\n", b"250 ok\r\n"), 451, (), ()),
        ((*EHLO, b"250 ok\r\n", b"550 5.1.1 no\r\n", b"250 ok\r\n"), 550, (), ("b@x",)),
        ((*EHLO, b"250 ok\r\n", b"421 4.4.2 bye\r\n", None), 421, (), ()),
        ((*EHLO, b"250 ok\r\n", b"250 ok\r\n", b"452 4.3.1 no\r\n", b"250 ok\r\n"), 452, ("b@x",), ()),
    ],
)
def test_refusals(
    turns: tuple[bytes | None, ...], code: int, accepted: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    outcome, _ = run(turns)
    assert (outcome.outcome, outcome.code, outcome.dot_sent) == ("answered", code, False)
    assert (outcome.accepted, outcome.refused) == (accepted, refused)


@pytest.mark.parametrize(
    ("turns", "words", "dot"),
    [
        ((None,), "the server ended the session", False),
        ((b"what?\r\n",), "no reply: 'what?'", False),
        ((b"2" * 100_000,), "a line of a reply has no end", False),
        ((b"220-x\r\n" * 1001,), "a reply of more than 1000 lines", False),
        ((*EHLO, b"250 o", None), "the server ended the session amid a line", False),
        ((*ACCEPTED[:-1], b"", None), "the server ended the session", True),
    ],
)
def test_losses(turns: tuple[bytes | None, ...], words: str, dot: bool) -> None:
    outcome, _ = run(turns)
    assert (outcome.outcome, outcome.code, outcome.dot_sent) == ("lost", None, dot)
    assert outcome.text == words


def test_nobody_there_is_a_loss() -> None:
    outcome = asyncio.run(Sender(("127.0.0.1", 1)).send(ONE))
    assert (outcome.outcome, outcome.text) == ("lost", "no connection: Connection refused")


def test_without_a_connection_there_is_no_session() -> None:
    async def main() -> None:
        async with asyncio.timeout(10), scripted(*ACCEPTED) as (address, _):
            sender = Sender(address, session_behind=lambda port, dialled: RecordedSession("s1", "a"))
            assert (await sender.send(ONE)).session == "s1"
            await sender.close()
        assert (await sender.send(ONE)).session is None

    asyncio.run(main())


@pytest.mark.parametrize(
    ("turns", "least"), [((b"",), 300), ((*EHLO, b""), 300), ((*EHLO, *ACCEPTED[2:4], b""), 120), (ACCEPTED[:-1], 600)]
)
def test_silence_is_waited_for_a_little_longer_than_the_rfc_says(turns: tuple[bytes | None, ...], least: float) -> None:
    limit = least + 5
    asked: list[float] = []

    def duration(seconds: float) -> float:
        asked.append(seconds)
        return 0.2 if seconds == limit and len(asked) >= _waits_before(turns) else 10.0

    outcome, _ = run(turns, limit=duration)
    assert (outcome.outcome, outcome.text) == ("lost", "silent for too long")
    assert asked[-1] == limit


def _waits_before(turns: tuple[bytes | None, ...]) -> int:
    """How often the sender has asked for a limit when it reaches the silent turn: to connect, to write, to read."""
    return {1: 2, 3: 6, 5: 10, 8: 13}[len(turns)]


@pytest.mark.parametrize(("where", "last", "dot"), [("before-dot", b"..dot\r\n", False), ("at-dot", b".\r\n", True)])
def test_abandoned_on_purpose(where: str, last: bytes, dot: bool) -> None:
    async def main() -> None:
        turns, left = (*ACCEPTED[:5], b"", b"", b"", b""), asyncio.Event()
        async with asyncio.timeout(10), scripted(*turns, left=left) as (address, heard):
            transmission = Transmission("a@x", (Recipient("b@x"),), ONE.content, abandon=where)  # type: ignore[arg-type]
            outcome = await Sender(address).send(transmission)
            assert (outcome.outcome, outcome.dot_sent, outcome.code) == ("abandoned", dot, None)
            await left.wait()
            assert heard[-1] == last

    asyncio.run(main())


def test_after_the_reply_it_leaves_without_quit() -> None:
    transmission = Transmission("a@x", (Recipient("b@x"),), ONE.content, abandon="after-reply")
    outcome, heard = run(ACCEPTED, transmission)
    assert (outcome.outcome, outcome.code) == ("answered", 250)
    assert b"QUIT\r\n" not in heard


def test_pipelined_the_envelope_is_one_group() -> None:
    turns = (*GROUPS, b"250 ok\r\n250 ok\r\n550 no\r\n354 go\r\n", b"", b"", b"", b"", b"", b"", b"250 stored\r\n")
    transmission = Transmission("a@x", (Recipient("b@x"), Recipient("c@x")), ONE.content, pipelining=True)
    outcome, heard = run(turns, transmission)
    assert (outcome.code, outcome.accepted, outcome.refused) == (250, ("b@x",), ("c@x",))
    assert heard[1:5] == [b"MAIL FROM:<a@x> SIZE=14\r\n", b"RCPT TO:<b@x>\r\n", b"RCPT TO:<c@x>\r\n", b"DATA\r\n"]


def test_pipelined_and_refused_the_first_refusal_counts() -> None:
    turns = (*GROUPS, b"451 4.3.0 no\r\n503 no\r\n503 no\r\n", b"", b"", b"250 ok\r\n", b"221 bye\r\n")
    outcome, heard = run(turns, Transmission("a@x", (Recipient("b@x"),), ONE.content, pipelining=True))
    assert outcome.code == 451
    assert heard[2:4] == [b"RCPT TO:<b@x>\r\n", b"DATA\r\n"]


def test_a_server_that_does_not_offer_it_is_sent_one_command_at_a_time() -> None:
    turns = (*EHLO, b"451 4.3.0 no\r\n", b"250 ok\r\n", b"221 bye\r\n")
    outcome, heard = run(turns, Transmission("a@x", (Recipient("b@x"),), ONE.content, pipelining=True))
    assert outcome.code == 451
    assert heard[1:3] == [b"MAIL FROM:<a@x> SIZE=14\r\n", b"RSET\r\n"]


def test_parameters_stand_in_the_lines() -> None:
    transmission = Transmission(
        "", (Recipient("b@x", ("NOTIFY=NEVER",)),), b"A: \xc3\xa4\r\n", parameters=("RET=HDRS", "ENVID=q1")
    )
    _, heard = run((b"220 x\r\n", b"250-x\r\n250-SIZE\r\n250 8BITMIME\r\n", *ACCEPTED[2:6], ACCEPTED[-1]), transmission)
    assert heard[1:3] == [
        b"MAIL FROM:<> SIZE=7 RET=HDRS ENVID=q1 BODY=8BITMIME\r\n",
        b"RCPT TO:<b@x> NOTIFY=NEVER\r\n",
    ]


@pytest.mark.parametrize("offered", [True, False])
def test_xshadow_is_used_where_it_is_offered_only(offered: bool) -> None:
    ehlo = b"250-x\r\n250 XSHADOW\r\n" if offered else b"250 x\r\n"
    more = (b"250 2.0.0 x db-x\r\n",) if offered else ()
    turns = (b"220 x\r\n", ehlo, *more, *ACCEPTED[2:], b"250 2.0.0 end 0\r\n", b"221 bye\r\n")
    _, heard = run(turns, identity=Identity(ehlo="hub9", offers_xshadow=True, database="db-9"))
    assert (b"XSHADOW hub9 db-9\r\n" in heard) == offered
    assert (b"MAIL FROM:<a@x> XSHADOW=db-9-1\r\n" in heard) == offered
    assert (b"XQDISCARD hub9 100\r\n" in heard) == offered


def test_authentication() -> None:
    both = base64.b64encode(b"\0u\0p")
    _, heard = run((*EHLO, b"235 ok\r\n", *ACCEPTED[2:]), identity=Identity(user="u", secret="p"))
    assert heard[1] == b"AUTH PLAIN " + both + b"\r\n"
    turns = (*EHLO, b"334 VXNlcg==\r\n", b"334 UGFzcw==\r\n", b"535 5.7.8 no\r\n")
    outcome, heard = run(turns, identity=Identity(user="u", secret="p", mechanism="LOGIN"))
    assert outcome.code == 535
    assert heard[1:4] == [b"AUTH LOGIN\r\n", b"dQ==\r\n", b"cA==\r\n"]
    assert "'p'" not in repr(Identity(user="u", secret="p"))


def test_a_session_that_the_server_ended_is_not_used_for_the_next_message() -> None:
    async def main() -> None:
        async with asyncio.timeout(10), scripted(*ACCEPTED, None) as (address, _):
            sender = Sender(address)
            assert (await sender.send(ONE)).code == 250
            reader = sender._client._reader
            assert reader is not None
            assert await reader.read() == b""
            assert not sender.usable
        outcome = await sender.send(ONE)
        assert outcome.text == "no connection: Connection refused"

    asyncio.run(main())


def test_a_refused_session_is_not_used_for_the_next_message() -> None:
    async def main() -> None:
        async with asyncio.timeout(10), scripted(b"554 5.3.2 no\r\n") as (address, _):
            sender = Sender(address)
            assert (await sender.send(ONE)).code == 554
            assert not sender.usable

    asyncio.run(main())


@pytest.mark.parametrize("at", ["MAIL", "dot"])
def test_a_session_that_a_server_refuses_with_421_is_the_server_s_to_close(at: str) -> None:
    closed_first: list[str] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 x\r\n")
        async for line in reader:
            if line.startswith(b"MAIL" if at == "MAIL" else b".\r"):
                writer.write(b"421 4.4.2 too old\r\n")
                await asyncio.sleep(0.1)
                closed_first.append("client" if reader.at_eof() else "server")
                break
            writer.write(b"354 go\r\n" if line.startswith(b"DATA") else b"250 ok\r\n" if line[4:5] == b" " else b"")
        writer.close()
        over.set()

    async def main() -> SendResult:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        outcome = await Sender(server.sockets[0].getsockname()).send(ONE)
        await over.wait()
        server.close()
        await asyncio.sleep(0)
        return outcome

    assert asyncio.run(main()).code == 421
    assert closed_first == ["server"]
