"""The sender: the result of every way in which a transmission can end, and the octets that it sends."""

import asyncio
import base64
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance.wire.client import Identity
from conformance.wire.link import RecordedSession
from conformance.wire.sender import Abandon, Recipient, Sender, SendResult, Transmission
from tests.wire.scripted_server import scripted_server

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
        over = asyncio.Event()
        async with asyncio.timeout(10), scripted_server(*turns, over=over) as (address, heard):
            sender = Sender(address, identity, duration=limit)
            outcome = await sender.send(transmission)
            await sender.quit()
            await over.wait()
            return outcome, heard

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("waits_in", "number", "lost"),
    [
        ((asyncio.StreamWriter, "drain"), errno.ENOBUFS, "the session broke:"),
        ((asyncio.StreamReader, "readuntil"), errno.ENOMEM, "the session broke:"),
        ((asyncio.StreamWriter, "start_tls"), errno.ENOMEM, "no TLS:"),
        ((asyncio, "open_connection"), errno.EMFILE, "no connection:"),
    ],
)
def test_what_this_machine_has_run_out_of_is_no_lost_session(
    monkeypatch: pytest.MonkeyPatch, waits_in: tuple[Any, str], number: int, lost: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise OSError(number, "run out")

    async def reset(*_: object, **__: object) -> None:
        raise ConnectionResetError(errno.ECONNRESET, "reset")

    async def main() -> None:
        async with asyncio.timeout(10), scripted_server(*EHLO, b"220 go\r\n") as (address, _):
            sender = Sender(address, Identity(tls=ssl.create_default_context()))
            monkeypatch.setattr(*waits_in, fail)
            with pytest.raises(OSError, match="run out"):
                await sender.send(ONE)
            assert not sender.usable
            monkeypatch.setattr(*waits_in, reset)
            assert (await sender.send(ONE)).text == f"{lost} Connection reset by peer"

    asyncio.run(main())


def test_an_accepted_message_is_sent_octet_for_octet() -> None:
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
    lines = [b"".join(b"%06d" % number for number in range(at, at + 10_000)) + b"\r\n" for at in (0, 10_000, 20_000)]
    long = Transmission("a@x", (Recipient("b@x"),), b"".join(lines))  # more than is written at a time
    _, heard = run((*ACCEPTED[:5], b"", b"", b"", ACCEPTED[-1]), long)
    assert heard[4:8] == [*lines, b".\r\n"]
    _, heard = run(ACCEPTED, replace(ONE, raw=True))
    assert heard[4:8] == [b"A: b\r\n", b"\r\n", b".dot\r\n", b".\r\n"], "without stuffing"


REFUSED_SESSIONS: list[tuple[tuple[bytes | None, ...], Identity | None, int]] = [
    ((b"554 5.3.2 no\r\n",), None, 554),
    ((b"421 4.3.2 no\r\n", None), None, 421),
    ((b"220 x\r\n", b"451 4.3.0 no\r\n"), None, 451),
    ((b"220 x\r\n", b"502 no\r\n", b"502 no\r\n"), None, 502),
    ((*EHLO, b"454 4.7.0 no\r\n"), Identity(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)), 454),
    ((*EHLO, b"535 5.7.8 no\r\n"), Identity(user="u", secret="p"), 535),
    ((EHLO[0], b"250-x\r\n250 XSHADOW\r\n", b"451 no\r\n"), Identity(offers_xshadow=True), 451),
]
"""Replies that refuse a session before any mail, at each step; the identity that takes the step, and the code."""


@pytest.mark.parametrize(
    ("turns", "identity", "code", "accepted", "refused"),
    [
        *((*session, (), ()) for session in REFUSED_SESSIONS),
        ((*EHLO, b"451 4.3.0 no\r\n", b"250 ok\r\n"), None, 451, (), ()),
        ((*EHLO, b"250 ok\r\n", b"550 5.1.1 no\r\n", b"250 ok\r\n"), None, 550, (), ("b@x",)),
        ((*EHLO, b"250 ok\r\n", b"421 4.4.2 bye\r\n", None), None, 421, (), ()),
        ((*EHLO, b"250 ok\r\n", b"250 ok\r\n", b"452 4.3.1 no\r\n", b"250 ok\r\n"), None, 452, ("b@x",), ()),
    ],
)
def test_a_refusal_before_the_content_is_an_answer_with_its_code(
    turns: tuple[bytes | None, ...],
    identity: Identity | None,
    code: int,
    accepted: tuple[str, ...],
    refused: tuple[str, ...],
) -> None:
    outcome, heard = run(turns, identity=identity)
    assert (outcome.outcome, outcome.code, outcome.dot_sent) == ("answered", code, False)
    assert (outcome.accepted, outcome.refused) == (accepted, refused)
    assert b"A: b\r\n" not in heard, "no content is sent"


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
def test_a_lost_session_is_reported_with_its_reason(turns: tuple[bytes | None, ...], words: str, dot: bool) -> None:
    outcome, _ = run(turns)
    assert (outcome.outcome, outcome.code, outcome.dot_sent) == ("lost", None, dot)
    assert outcome.text == words


def test_an_unreachable_server_is_a_lost_session() -> None:
    outcome = asyncio.run(Sender(("127.0.0.1", 1)).send(ONE))
    assert (outcome.outcome, outcome.text) == ("lost", "no connection: Connection refused")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        outcome = asyncio.run(Sender(listening.getsockname(), duration=lambda seconds: 0.0).send(ONE))
    assert (outcome.outcome, outcome.text) == ("lost", "no connection in time")


def test_a_result_names_its_session_unless_the_connection_failed() -> None:
    async def main() -> None:
        asked: list[tuple[int, int]] = []

        def session_behind(port: int, dialled: int) -> RecordedSession:
            asked.append((port, dialled))
            return RecordedSession("s1", "a")

        async with asyncio.timeout(10), scripted_server(*ACCEPTED) as (address, _):
            sender = Sender(address, session_behind=session_behind)
            assert (await sender.send(ONE)).session == "s1"
            writer = sender._client._writer
            assert writer is not None
            assert set(asked) == {(writer.get_extra_info("sockname")[1], address[1])}
            await sender.close()
        lost = await sender.send(ONE)
        assert (lost.session, lost.text) == (None, "no connection: Connection refused")
        for turn in (None, b"554 5.3.2 no\r\n"):  # a session that is lost, and one that is refused
            async with asyncio.timeout(10), scripted_server(turn) as (address, _):
                assert (await Sender(address, session_behind=session_behind).send(ONE)).session == "s1"
        async with asyncio.timeout(10), scripted_server(*ACCEPTED) as (address, _):
            abandoned = await Sender(address, session_behind=session_behind).send(replace(ONE, abandon="before-dot"))
            assert (abandoned.outcome, abandoned.session) == ("abandoned", "s1")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("turns", "least"),
    [
        ((b"",), 300),
        ((EHLO[0], b""), 300),
        ((*EHLO, b""), 300),
        ((*EHLO, ACCEPTED[2], b""), 300),
        ((*EHLO, *ACCEPTED[2:4], b""), 120),
        (ACCEPTED[:-1], 600),
    ],
)
def test_a_silent_server_times_out_five_seconds_after_the_rfc_limit(
    turns: tuple[bytes | None, ...], least: float
) -> None:
    limit = least + 5
    asked: list[float] = []

    def duration(seconds: float) -> float:
        asked.append(seconds)
        return 0.2 if seconds == limit and len(asked) >= _waits_before(turns) else 10.0

    outcome, _ = run(turns, limit=duration)
    assert (outcome.outcome, outcome.text) == ("lost", "silent for too long")
    assert asked[-1] == limit


def _waits_before(turns: tuple[bytes | None, ...]) -> int:
    """Return how many limits (to connect, to write, to read) the sender has asked for when it waits for the silent turn."""
    return {1: 2, 2: 4, 3: 6, 4: 8, 5: 10, 8: 13}[len(turns)]


CHUNKING = (b"220 x\r\n", b"250-x\r\n250 CHUNKING\r\n", b"250 ok\r\n", b"250 ok\r\n")


@pytest.mark.parametrize(
    ("where", "chunks", "last", "dot"),
    [
        ("before-dot", None, b"..dot\r\n", False),
        ("at-dot", None, b".\r\n", True),
        ("before-dot", 8, b"\r\n", False),
        ("at-dot", 8, b".dot\r\n", True),
    ],
)
def test_an_abandoned_transmission_ends_where_it_was_asked_to(
    where: Abandon, chunks: int | None, last: bytes, dot: bool
) -> None:
    async def main() -> None:
        turns, over = (*ACCEPTED[:5], b"", b"", b"", b""), asyncio.Event()
        if chunks is not None:
            turns = (*CHUNKING, b"", b"", b"250 ok\r\n", b"", b"")
        async with asyncio.timeout(10), scripted_server(*turns, over=over) as (address, heard):
            transmission = Transmission("a@x", (Recipient("b@x"),), ONE.content, abandon=where, chunks=chunks)
            outcome = await Sender(address).send(transmission)
            assert (outcome.outcome, outcome.dot_sent, outcome.code) == ("abandoned", dot, None)
            await over.wait()
            assert heard[-1] == last

    asyncio.run(main())


def test_a_transmission_abandoned_after_the_reply_sends_no_quit() -> None:
    transmission = Transmission("a@x", (Recipient("b@x"),), ONE.content, abandon="after-reply")
    outcome, heard = run(ACCEPTED, transmission)
    assert (outcome.outcome, outcome.code) == ("answered", 250)
    assert heard[-1] == b".\r\n"
    assert run(ACCEPTED)[1] == [*heard, b"QUIT\r\n"]


def test_a_pipelined_envelope_is_sent_before_its_first_reply() -> None:
    replies = b"250 ok\r\n250 ok\r\n550 no\r\n354 go\r\n"  # after the last command of the group
    turns = (*GROUPS, b"", b"", b"", replies, b"", b"", b"", b"250 stored\r\n")
    transmission = Transmission("a@x", (Recipient("b@x"), Recipient("c@x")), ONE.content, pipelining=True)
    outcome, heard = run(turns, transmission)
    assert (outcome.code, outcome.accepted, outcome.refused) == (250, ("b@x",), ("c@x",))
    assert heard[1:5] == [b"MAIL FROM:<a@x> SIZE=14\r\n", b"RCPT TO:<b@x>\r\n", b"RCPT TO:<c@x>\r\n", b"DATA\r\n"]


@pytest.mark.parametrize(
    ("replies", "code", "then"),
    [
        (b"451 4.3.0 no\r\n503 no\r\n504 no\r\n503 no\r\n", 451, b"RSET\r\n"),
        (b"250 ok\r\n550 no\r\n551 no\r\n503 no\r\n", 551, b"RSET\r\n"),
        (b"250 ok\r\n550 no\r\n551 no\r\n354 go\r\n", 551, b".\r\n"),  # the server waits for a content
        (b"250 ok\r\n550 no\r\n250 ok\r\n452 no\r\n", 452, b"RSET\r\n"),
        (b"250 ok\r\n250 ok\r\n250 ok\r\n452 no\r\n", 452, b"RSET\r\n"),
        (b"250 ok\r\n250 ok\r\n550 no\r\n452 no\r\n", 452, b"RSET\r\n"),
    ],
)
def test_the_refusal_of_mail_or_of_every_rcpt_or_else_of_data_is_the_result_of_a_pipelined_envelope(
    replies: bytes, code: int, then: bytes
) -> None:
    turns = (*GROUPS, b"", b"", b"", replies, b"250 ok\r\n", b"221 bye\r\n")
    recipients = (Recipient("b@x"), Recipient("c@x"))
    outcome, heard = run(turns, Transmission("a@x", recipients, ONE.content, pipelining=True))
    assert outcome.code == code
    assert heard[2:] == [
        b"RCPT TO:<b@x>\r\n", b"RCPT TO:<c@x>\r\n", b"DATA\r\n", then, b"QUIT\r\n",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "replies", [b"421 4.3.2 bye\r\n", b"250 ok\r\n421 4.3.2 bye\r\n", b"250 ok\r\n250 ok\r\n421 4.3.2 bye\r\n"]
)
def test_421_amid_the_replies_to_a_pipelined_envelope_is_an_answer(replies: bytes) -> None:
    outcome, _ = run((*GROUPS, b"", b"", replies, None), replace(ONE, pipelining=True))
    assert (outcome.outcome, outcome.code, outcome.enhanced) == ("answered", 421, "4.3.2")


def test_a_server_without_pipelining_is_sent_one_command_at_a_time() -> None:
    turns = (*EHLO, b"451 4.3.0 no\r\n", b"250 ok\r\n", b"221 bye\r\n")
    outcome, heard = run(turns, Transmission("a@x", (Recipient("b@x"),), ONE.content, pipelining=True))
    assert outcome.code == 451
    assert heard[1:3] == [b"MAIL FROM:<a@x> SIZE=14\r\n", b"RSET\r\n"]
    turns = (*EHLO, b"250 ok\r\n", b"550 no\r\n", b"250 ok\r\n", b"221 bye\r\n")
    outcome, heard = run(turns, Transmission("a@x", (Recipient("b@x"),), ONE.content, pipelining=True))
    assert (outcome.code, outcome.refused) == (550, ("b@x",))
    assert heard[1:4] == [b"MAIL FROM:<a@x> SIZE=14\r\n", b"RCPT TO:<b@x>\r\n", b"RSET\r\n"]
    turns = (*EHLO, b"250 ok\r\n", b"421 4.4.2 bye\r\n", None)
    recipients = (Recipient("b@x"), Recipient("c@x"))
    _, heard = run(turns, Transmission("a@x", recipients, ONE.content, pipelining=True))
    assert heard[1:] == [b"MAIL FROM:<a@x> SIZE=14\r\n", b"RCPT TO:<b@x>\r\n"], "the other RCPT waits for the reply"


def test_parameters_are_sent_with_mail_and_rcpt() -> None:
    transmission = Transmission(
        "", (Recipient("b@x", ("NOTIFY=NEVER",)),), b"A: \xc3\xa4\r\n", parameters=("RET=HDRS", "ENVID=q1")
    )
    offers = b"250-x\r\n250-SIZE\r\n250-DSN\r\n250 8BITMIME\r\n"
    _, heard = run((b"220 x\r\n", offers, *ACCEPTED[2:6], ACCEPTED[-1]), transmission)
    assert heard[1:3] == [
        b"MAIL FROM:<> SIZE=7 RET=HDRS ENVID=q1 BODY=8BITMIME\r\n",
        b"RCPT TO:<b@x> NOTIFY=NEVER\r\n",
    ]


@pytest.mark.parametrize(
    ("offers", "mail", "rcpt"),
    [
        (b"250 x\r\n", b"", b""),
        (b"250-x\r\n250 DSN\r\n", b" RET=HDRS ENVID=q1", b" NOTIFY=NEVER ORCPT=rfc822;b@x"),
        (b"250-x\r\n250 SMTPUTF8\r\n", b" SMTPUTF8", b""),
        (b"250-x\r\n250 8BITMIME\r\n", b" BODY=8BITMIME", b""),
    ],
)
def test_parameters_of_an_extension_that_is_not_offered_are_left_out(offers: bytes, mail: bytes, rcpt: bytes) -> None:
    recipient = Recipient("b@x", ("NOTIFY=NEVER", "ORCPT=rfc822;b@x"))
    parameters = ("SMTPUTF8", "RET=HDRS", "ENVID=q1")
    transmission = Transmission("a@x", (recipient,), b"A: \xc3\xa4\r\n", parameters=parameters)
    _, heard = run((b"220 x\r\n", offers, *ACCEPTED[2:6], ACCEPTED[-1]), transmission)
    assert heard[1:3] == [b"MAIL FROM:<a@x>" + mail + b"\r\n", b"RCPT TO:<b@x>" + rcpt + b"\r\n"]


@pytest.mark.parametrize(
    ("content", "chunks", "sent"),
    [
        (b"A: b\r\n\r\n.c\r\n", 8, [b"BDAT 8\r\n", b"A: b\r\n", b"\r\n", b"BDAT 4 LAST\r\n", b".c\r\n"]),
        (b".c\r\n.d\r\n", 4, [b"BDAT 4\r\n", b".c\r\n", b"BDAT 4 LAST\r\n", b".d\r\n"]),
        (b".c\r\n", 8, [b"BDAT 4 LAST\r\n", b".c\r\n"]),
        (b"", 8, [b"BDAT 0 LAST\r\n"]),
    ],
)
def test_a_content_in_chunks_is_sent_as_it_is(content: bytes, chunks: int, sent: list[bytes]) -> None:
    transmission = Transmission("a@x", (Recipient("b@x"),), content, chunks=chunks)
    turns = [b"250 ok\r\n" if line.startswith(b"BDAT") else b"" for line in sent[1:]]  # between the lines
    outcome, heard = run((*CHUNKING, *turns, b"250 done\r\n"), transmission)
    assert heard[3:] == [*sent, b"QUIT\r\n"]
    assert (outcome.code, outcome.text, outcome.dot_sent) == (250, "done", True)


def test_no_chunk_follows_one_that_is_refused() -> None:
    transmission = Transmission("a@x", (Recipient("b@x"),), b"A: b\r\n\r\n.c\r\n", chunks=8)
    outcome, heard = run((*CHUNKING, b"", b"", b"552 5.3.4 no\r\n", b"250 ok\r\n"), transmission)
    assert heard[6:] == [b"RSET\r\n", b"QUIT\r\n"]
    assert (outcome.code, outcome.dot_sent) == (552, False)


@pytest.mark.parametrize("offered", [True, False])
def test_xshadow_is_used_only_where_it_is_offered(offered: bool) -> None:
    ehlo = b"250-x\r\n250 XSHADOW\r\n" if offered else b"250 x\r\n"
    more = (b"250 2.0.0 x db-x\r\n",) if offered else ()
    turns = (b"220 x\r\n", ehlo, *more, *ACCEPTED[2:], b"250 2.0.0 end 0\r\n", b"221 bye\r\n")
    _, heard = run(turns, identity=Identity(ehlo="hub9", offers_xshadow=True, database="db-9"))
    assert (b"XSHADOW hub9 db-9\r\n" in heard) == offered
    assert (b"MAIL FROM:<a@x> XSHADOW=db-9-1\r\n" in heard) == offered
    assert (b"XQDISCARD hub9 100\r\n" in heard) == offered
    assert sum(b"XSHADOW" in line or b"XQDISCARD" in line for line in heard) == 3 * offered


def test_plain_and_login_send_the_credentials_in_base64() -> None:
    both = base64.b64encode(b"\0u\0p")
    _, heard = run((*EHLO, b"235 ok\r\n", *ACCEPTED[2:]), identity=Identity(user="u", secret="p"))
    assert heard[1] == b"AUTH PLAIN " + both + b"\r\n"
    turns = (*EHLO, b"334 VXNlcg==\r\n", b"334 UGFzcw==\r\n", b"535 5.7.8 no\r\n")
    outcome, heard = run(turns, identity=Identity(user="u", secret="p", mechanism="LOGIN"))
    assert outcome.code == 535
    assert heard[1:4] == [b"AUTH LOGIN\r\n", b"dQ==\r\n", b"cA==\r\n"]
    taken = (*turns[:-1], b"235 ok\r\n", *ACCEPTED[2:])
    outcome, accepted = run(taken, identity=Identity(user="u", secret="p", mechanism="LOGIN"))
    assert (outcome.code, accepted[1:4]) == (250, heard[1:4])


def test_an_identitys_representation_hides_its_secret() -> None:
    shown = repr(Identity(user="u", secret="s3cret"))
    assert "user='u'" in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize("farewell", [b"", b"421 4.4.2 idle for too long\r\n"])
def test_a_session_that_the_server_ended_is_not_used_for_the_next_message(farewell: bytes) -> None:
    async def main() -> None:
        turns = (*ACCEPTED[:-1], ACCEPTED[-1] + farewell, None)
        async with asyncio.timeout(10), scripted_server(*turns) as (address, heard):
            sender = Sender(address)
            assert (await sender.send(ONE)).code == 250
            if not farewell:  # else it waits to be read, and nothing is known of the end
                reader = sender._client._reader
                assert reader is not None
                assert await reader.read() == b""
                assert not sender.usable
            outcome = await sender.send(ONE)
            assert (outcome.code, outcome.text) == (250, "2.6.0 stored")
            assert heard.count(b"EHLO outside.test\r\n") == 2, "in another session"
            await sender.close()

    asyncio.run(main())


def test_a_session_whose_end_was_announced_since_the_last_turn_of_the_loop_is_not_used() -> None:
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(b"220 x\r\n")
        try:
            async for line in reader:
                writer.write(
                    b"354 go\r\n"
                    if line.startswith(b"DATA")
                    else b"250 ok\r\n"
                    if line[4:5] == b" " or line == b".\r\n"
                    else b""
                )
        except ConnectionError:
            pass
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with asyncio.timeout(10):
            sender = Sender(server.sockets[0].getsockname())
            assert (await sender.send(ONE)).code == 250
            writers[0].write(b"421 4.4.2 idle for too long\r\n")
            assert (await sender.send(ONE)).code == 250
            assert len(writers) == 2, "in another session"
            await sender.close()
        server.close()
        await asyncio.sleep(0)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("turns", "identity", "code"), [*REFUSED_SESSIONS, ((*EHLO, b"421 4.3.2 no\r\n", None), None, 421)]
)
def test_a_refused_session_is_not_used_for_the_next_message(
    turns: tuple[bytes | None, ...], identity: Identity | None, code: int
) -> None:
    async def main() -> None:
        async with asyncio.timeout(10), scripted_server(*turns) as (address, heard):
            sender = Sender(address, identity)
            assert (await sender.send(ONE)).code == code
            assert not sender.usable
            said = list(heard)
            assert (await sender.send(ONE)).code == code
            assert heard == said * 2, "a new session, refused at the same step"

    asyncio.run(main())


@pytest.mark.parametrize("at", ["greeting", "MAIL", "dot"])
def test_after_421_the_server_closes_the_session_first(at: str) -> None:
    closed_first: list[str] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if at != "greeting":
            writer.write(b"220 x\r\n")
            async for line in reader:
                if line.startswith(b"MAIL" if at == "MAIL" else b".\r"):
                    break
                writer.write(b"354 go\r\n" if line.startswith(b"DATA") else b"250 ok\r\n" if line[4:5] == b" " else b"")
        writer.write(b"421 4.4.2 too old\r\n")
        await asyncio.sleep(0.1)
        closed_first.append("client" if reader.at_eof() else "server")
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
