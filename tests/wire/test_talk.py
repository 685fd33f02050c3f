"""`talk` sends lines exactly as written, and compares each reply with the expected one."""

import asyncio
import errno
from typing import Any

import pytest

from conformance.scenarios.steps.talking import Line
from conformance.wire.talk import TalkResult, talk, unescaped
from tests.wire.scripted_server import scripted_server


def run_talk(turns: tuple[bytes | None, ...], *lines: dict[str, Any]) -> tuple[TalkResult, list[bytes], list[float]]:
    asked: list[float] = []

    def duration(seconds: float) -> float:
        asked.append(seconds)
        return 0.0 if seconds < 3600 else seconds

    async def main() -> tuple[TalkResult, list[bytes]]:
        over = asyncio.Event()
        async with asyncio.timeout(10), scripted_server(*turns, over=over) as (address, heard):
            said = await talk(
                address,
                [Line.model_validate(line) for line in lines],
                make_content=lambda name: b"..x\r\n",
                duration=duration,
            )
            await over.wait()
            return said, heard

    said, heard = asyncio.run(main())
    return said, heard, asked


def test_a_conversation_as_expected_has_no_problem() -> None:
    said, heard, asked = run_talk(
        (
            b"220 x\r\n",
            b"250-x\r\n250-ENHANCEDSTATUSCODES\r\n250 XSHADOW\r\n",
            b"354 go\r\n",
            b"",
            b"250 2.6.0 q\r\n",
            b"",
            b"500 5.5.2 ?\r\n",
            None,
        ),
        {"code": 220},
        {"say": "EHLO me", "code": 250, "has": "XSHADOW", "lacks": "XSHADOWREQUEST"},
        {"say": "DATA", "code": 354},
        {"message": "plain", "code": 250, "enhanced": "2.6.0"},
        {"octets": "\\xff\\0\\n\\r\\n", "code": [421, 500], "enhanced": ["5.5.1", "5.5.2"], "wait": "5m"},
        {"say": "NOOP", "code": "closed"},
    )
    assert said.problem == ""
    assert [e.code for e in said.exchanges] == [220, 250, 354, 250, 500, None]
    assert [e.closed for e in said.exchanges] == [False] * 5 + [True]
    assert heard == [b"EHLO me\r\n", b"DATA\r\n", b"..x\r\n", b".\r\n", b"\xff\0\n", b"\r\n"]
    assert 300.0 in asked
    assert all(e.waited is not None and 0 <= e.waited < 10 for e in said.exchanges)


@pytest.mark.parametrize(
    ("offers", "problem"),
    [
        (b"250-x\r\n250-SIZE 100\r\n250 ENHANCEDSTATUSCODES\r\n", "expected enhanced status code 5.3.4, but 552"),
        (b"250-x\r\n250 SIZE 100\r\n", ""),
    ],
)
def test_an_enhanced_code_is_expected_only_of_servers_that_offer_them(offers: bytes, problem: str) -> None:
    said, _, _ = run_talk(
        (offers, b"552 too big\r\n"),
        {"say": "EHLO me", "code": 250, "has": "SIZE 100", "where": "SIZE"},
        {"say": "MAIL FROM:<> SIZE=101", "code": 552, "enhanced": "5.3.4", "where": "SIZE"},
    )
    assert said.problem.startswith(problem)
    assert bool(said.problem) is bool(problem)
    assert len(said.exchanges) == 2


def test_a_line_is_not_sent_where_its_keyword_is_not_offered() -> None:
    said, heard, _ = run_talk(
        (b"250-x\r\n250 PIPELINING\r\n", b"250 ok\r\n", b"250 ok\r\n"),
        {"say": "HELP", "code": 214, "where": "PIPELINING"},  # nothing is offered yet
        {"say": "EHLO me", "code": 250, "has": "SIZE 100", "where": "SIZE"},
        {"say": "MAIL FROM:<> SIZE=101", "code": 552, "where": "SIZE"},
        {"say": "RSET", "code": 250, "where": "PIPELINING"},
        {"say": "NOOP", "code": 250},
    )
    assert said.problem == ""
    assert [exchange.sent for exchange in said.exchanges] == ["EHLO me", "RSET", "NOOP"]
    assert heard == [b"EHLO me\r\n", b"RSET\r\n", b"NOOP\r\n"]


@pytest.mark.parametrize(
    ("turn", "line", "problem"),
    [
        (b"250 ok\r\n", {"code": 251}, "expected 251, but 250 ok"),
        (b"250 2.0.0 ok\r\n", {"code": 250, "enhanced": "2.1.0"}, "expected enhanced status code 2.1.0"),
        (b"250 ok\r\n", {"code": 250, "has": "XSHADOW"}, "expected a reply with 'XSHADOW'"),
        (b"250 XSHADOW\r\n", {"code": 250, "lacks": "XSHADOW"}, "expected a reply without 'XSHADOW'"),
        (b"250 ok\r\n", {"code": "closed"}, "expected closed, but 250 ok"),
        (None, {"code": 250}, "expected 250, but the server ended the session"),
        (b"nonsense\r\n", {"code": "closed"}, "expected closed, but no reply"),
    ],
)
def test_an_unexpected_reply_is_reported_and_ends_the_conversation(
    turn: bytes | None, line: dict[str, Any], problem: str
) -> None:
    said, heard, _ = run_talk((turn, b"250 ok\r\n"), line, {"say": "NOOP", "code": 250})
    assert said.problem.startswith(problem)
    assert len(said.exchanges) == 1
    assert heard == [], "the next line is not sent"


def test_an_unreachable_server_is_reported() -> None:
    said = asyncio.run(talk(("127.0.0.1", 1), [Line(code=220)], make_content=lambda name: b""))
    assert (said.session, said.problem) == (None, "no connection: Connection refused")


def test_escapes_in_octets_are_decoded() -> None:
    assert unescaped(r"a\r\n.\n\0\xfF\\x41") == b"a\r\n.\n\0\xff\\x41"


def test_the_time_of_quick_replies_adds_up_to_lateness() -> None:
    """Each reply takes 20 ms, which is more than a second of a clock scaled by 60."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 x\r\n")
        try:
            async for _ in reader:
                await asyncio.sleep(0.02)
                writer.write(b"250 ok\r\n")
        except ConnectionError:  # the client does not say QUIT
            pass
        finally:
            writer.close()
            over.set()

    async def main(tolerance: float) -> float:
        nonlocal over
        over = asyncio.Event()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        lines = [Line(code=220), *(Line(say="NOOP", code=250) for _ in range(5))]
        said = await talk(
            server.sockets[0].getsockname(),
            lines,
            make_content=lambda name: b"",
            duration=lambda s: s / 60,
            tolerance=tolerance,
        )
        await over.wait()
        server.close()
        await asyncio.sleep(0)
        assert said.problem == ""
        return said.late

    assert asyncio.run(main(tolerance=600)) >= 5 * 0.02
    assert asyncio.run(main(tolerance=0.6)) < 0.02, "a reply later than the tolerance is the server's own lateness"


@pytest.mark.parametrize(
    ("waits_in", "number", "problem"),
    [
        ((asyncio.StreamWriter, "drain"), errno.ENOBUFS, "expected 220, but the session broke:"),
        ((asyncio.StreamReader, "readuntil"), errno.ENOMEM, "expected 220, but the session broke:"),
        ((asyncio.StreamWriter, "start_tls"), errno.ENOMEM, "expected TLS, but"),
        ((asyncio, "open_connection"), errno.EMFILE, "no connection:"),
    ],
)
def test_what_this_machine_has_run_out_of_is_no_problem_of_the_server(
    monkeypatch: pytest.MonkeyPatch, waits_in: tuple[Any, str], number: int, problem: str
) -> None:
    async def fail(*_: object) -> None:
        raise OSError(number, "run out")

    async def reset(*_: object) -> None:
        raise ConnectionResetError(errno.ECONNRESET, "reset")

    async def main() -> None:
        lines = [Line(code=220), Line(say="STARTTLS", code=220, secure=True)]
        async with asyncio.timeout(10), scripted_server(b"220 x\r\n", b"220 go\r\n") as (address, _):
            monkeypatch.setattr(*waits_in, fail)
            with pytest.raises(OSError, match="run out"):
                await talk(address, lines, make_content=lambda name: b"")
            monkeypatch.setattr(*waits_in, reset)
            said = await talk(address, lines, make_content=lambda name: b"")
            assert said.problem == f"{problem} Connection reset by peer"

    asyncio.run(main())
