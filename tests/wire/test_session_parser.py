"""The parser: how octets become units, whatever reads they arrive in."""

import itertools
import sys
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given

from conformance.wire.lines import LINE, TEXT, describe_malformed
from conformance.wire.session_parser import HELD, MAX_PENDING, REPLY, REPLY_LINES, UNASKED, SessionParser
from conformance.wire.units import CommandLine, ContentEnd, ContentPart, RawOctets, Unit, WholeReply

C, S = "client", "server"


def summarize(unit: Unit) -> tuple[object, ...]:
    match unit:
        case CommandLine():
            return "command", unit.verb, unit.line
        case WholeReply():
            return "reply", unit.to, unit.code, unit.lines, unit.pending.recipient if unit.pending else None
        case ContentEnd():
            return ("end",)
        case _:
            return type(unit).__name__, unit.raw


def parse(*said: tuple[str, bytes]) -> list[tuple[object, ...]]:
    """Parse a conversation. Adjacent parts of content are joined; octets after STARTTLS come last."""
    parser = SessionParser()
    units: list[tuple[object, ...]] = []
    opaque = {C: b"", S: b""}

    def take(who: str, new: Sequence[Unit]) -> None:
        for unit in new:
            if isinstance(unit, RawOctets):
                opaque[who] += unit.raw if parser.secured else b""
            elif isinstance(unit, ContentPart) and units and units[-1][0] == "ContentPart":
                units[-1] = ("ContentPart", units[-1][1] + unit.raw)  # type: ignore[operator]
            else:
                units.append(summarize(unit))

    for who, data in said:
        if who == C:
            take(C, parser.feed_client(data))
            continue
        take(S, parser.feed_server(data))
        while parser.client_unblocked:
            take(C, parser.feed_client(b""))
            take(S, parser.feed_server(b""))
    return units + [("octets", who, octets) for who, octets in opaque.items() if octets]


TRANSACTION = (
    (S, b"220 x\r\n"),
    (C, b"EHLO me\r\n"),
    (S, b"250-x\r\n250 PIPELINING\r\n"),
    (C, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n"),
    (S, b"250 2.1.0 ok\r\n250 2.1.5 ok\r\n550 5.1.1 no\r\n354 go\r\n"),
    (C, b"A: b\r\n\r\n..\r\n.x\r\n\r\n.\r\nQUIT\r\n"),
    (S, b"250 2.0.0 stored\r\n221 bye\r\n"),
)


def test_every_reply_is_matched_to_its_verb() -> None:
    replies = [unit for unit in parse(*TRANSACTION) if unit[0] == "reply"]
    assert [(r[1], r[2]) for r in replies] == [
        ("GREETING", 220), ("EHLO", 250), ("MAIL", 250), ("RCPT", 250), ("RCPT", 550), ("DATA", 354),
        ("CONTENT", 250), ("QUIT", 221),
    ]  # fmt: skip
    assert replies[1][3] == ("x", "PIPELINING")


@pytest.mark.parametrize("code", ["\u0662\u0665\u0660", "\uff12\uff15\uff10"])
def test_digits_of_other_scripts_are_not_a_reply_code(code: str) -> None:
    units = parse((S, b"220 hello\r\n"), (C, b"NOOP\r\n"), (S, f"{code} ok\r\n".encode()))
    assert units[0] == ("reply", "GREETING", 220, ("hello",), None)
    assert units[-1] == ("reply", "NOOP", 0, (f"{code} ok",), None)


def test_content_is_between_354_and_the_dot() -> None:
    units = parse(*TRANSACTION)
    at = units.index(("ContentPart", b"A: b\r\n\r\n..\r\n.x\r\n\r\n"))
    assert units[at - 1][:3] == ("reply", "DATA", 354)
    assert units[at + 1 : at + 3] == [("end",), ("command", "QUIT", "QUIT")]


def test_an_lmtp_content_has_a_reply_for_each_accepted_recipient() -> None:
    units = parse(
        (S, b"220 x\r\n"),
        (C, b"LHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<a@x>\r\nRCPT TO:<no@x>\r\nRCPT TO:<b@x>\r\nDATA\r\n"),
        (S, b"250 x\r\n250 ok\r\n250 ok\r\n550 no\r\n250 ok\r\n354 go\r\n"),
        (C, b".\r\nMAIL FROM:<>\r\nRCPT TO:<gone@x>\r\nRSET\r\nMAIL FROM:<>\r\nRCPT TO:<c@x>\r\nDATA\r\n"),
        (S, b"250 2.0.0 one\r\n452 4.2.2 two\r\n" + b"250 ok\r\n" * 5 + b"354 go\r\n"),
        (C, b".\r\nQUIT\r\n"),
        (S, b"250 2.0.0 three\r\n221 bye\r\n"),
    )
    finals = [(u[1], u[2], u[4]) for u in units if u[0] == "reply" and u[1] in ("CONTENT", "QUIT")]
    assert finals == [
        ("CONTENT", 250, "a@x"), ("CONTENT", 452, "b@x"), ("CONTENT", 250, "c@x"), ("QUIT", 221, None),
    ]  # fmt: skip


def test_bdat_chunks_are_content_and_the_last_one_ends_it() -> None:
    units = parse(
        (S, b"220 x\r\n"),
        (C, b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nBDAT 5\r\n.\r\n.\rBDAT 3 LAST\r\nQUIRSET\r\n"),
        (S, b"250 ok\r\n250 ok\r\n250 5 octets\r\n250 2.0.0 stored\r\n250 ok\r\n"),
    )
    assert [u[1] for u in units if u[0] == "ContentPart"] == [b".\r\n.\r", b"QUI"]
    assert [u[1] for u in units if u[0] == "reply"] == ["GREETING", "MAIL", "RCPT", "BDAT", "CONTENT", "RSET"]
    assert units.count(("end",)) == 1
    assert units.index(("end",)) == units.index(("ContentPart", b"QUI")) + 1


def test_an_empty_last_bdat_chunk_ends_the_content() -> None:
    units = parse((S, b"220 x\r\n"), (C, b"BDAT 0 LAST\r\n"), (S, b"250 stored\r\n"))
    assert units[-2:] == [("end",), ("reply", "CONTENT", 250, ("stored",), None)]


def test_refused_data_is_followed_by_commands() -> None:
    units = parse((S, b"220 x\r\n"), (C, b"DATA\r\nQUIT\r\n"), (S, b"503 5.5.1 no\r\n221 bye\r\n"))
    assert units[-2:] == [("command", "QUIT", "QUIT"), ("reply", "QUIT", 221, ("bye",), None)]


@pytest.mark.parametrize(
    "beginning",
    [
        b"x\n.\n", b"x\r\n.\n", b"x\n.\r\n", b"x\r.\r", b"x\r.\n", b"x\r.\r\n", b"x\r\n.\r", b"x\r\n\x00.\r\n", b".\n", b".\r",
    ],
)  # fmt: skip
def test_only_crlf_dot_crlf_ends_the_content(beginning: bytes) -> None:
    inside = beginning + b"MAIL FROM:<smuggled@x>\r\n"
    before = ((S, b"220 x\r\n"), (C, b"DATA\r\n"), (S, b"354 go\r\n"))
    assert parse(*before, (C, inside + b".\r\n"))[-2:] == [("ContentPart", inside), ("end",)]
    octet_by_octet = parse(*before, *((C, bytes([octet])) for octet in inside + b".\r\n"))
    assert b"".join(unit[1] for unit in octet_by_octet if unit[0] == "ContentPart") == inside
    assert octet_by_octet[-1] == ("end",)


def test_credentials_are_not_in_the_lines_of_units() -> None:
    units = parse(
        (S, b"220 x\r\n"),
        (C, b"AUTH PLAIN c2VjcmV0\r\n"),
        (S, b"535 no\r\n"),
        (C, b"AUTH LOGIN\r\n"),
        (S, b"334 VXNlcg==\r\n"),
        (C, b"c2VjcmV0\r\n"),
        (S, b"334 UGFzcw==\r\n"),
        (C, b"c2VjcmV0\r\n"),
        (S, b"235 ok\r\n"),
        (C, b"NOOP\r\n"),
    )
    assert "c2VjcmV0" not in str(units)
    assert [u[1] for u in units if u[0] == "command"] == ["AUTH", "AUTH", "AUTH", "AUTH", "NOOP"]


@pytest.mark.parametrize("response", [b"c2VjcmV0", b"c2VjcmV0 ", b" c2VjcmV0\t"])
@pytest.mark.parametrize(("auth", "verb"), [(b"AUTH LOGIN", "AUTH"), (b" AUTH LOGIN c2VjcmV0", "")])
def test_a_response_pipelined_after_a_refused_auth_is_redacted_and_has_no_verb(
    auth: bytes, verb: str, response: bytes
) -> None:
    """White space before AUTH leaves that line without a verb, and its response is a secret all the same."""
    sent = auth + b"\r\n" + (response + b"\r\n") * 2 + b"NOOP\r\n"  # LOGIN has two responses
    units = parse((S, b"220 x\r\n"), (C, sent), (S, b"504 no\r\n500 what\r\n500 what\r\n250 ok\r\n"))
    shown, hidden = auth.decode().replace("c2VjcmV0", "(redacted)"), ("", "(redacted)")
    assert [u[1:3] for u in units if u[0] == "command"] == [(verb, shown), hidden, hidden, ("NOOP", "NOOP")]
    assert "C2VJCMV0" not in repr(units).upper()


@pytest.mark.parametrize(
    ("line", "recorded"),
    [
        (b"auth plain c2VjcmV0", "auth plain (redacted)"),
        (b"aUtH LOGIN c2VjcmV0", "aUtH LOGIN (redacted)"),
        (b" AUTH\tPLAIN\tc2VjcmV0", " AUTH\tPLAIN (redacted)"),
        (b"AUTH PLAIN  c2VjcmV0 c2VjcmV0", "AUTH PLAIN (redacted)"),
    ],
)
def test_a_credential_is_redacted_whatever_the_spacing_and_case(line: bytes, recorded: str) -> None:
    assert parse((S, b"220 x\r\n"), (C, line + b"\r\n"))[-1][::2] == ("command", recorded)
    spaces = ("", " ", "\t", " \t ")
    for before, verb, between, behind in itertools.product(spaces, ("AUTH", "auth", "AuTh"), spaces[1:], spaces[1:]):
        shown = f"{before}{verb}{between}Plain"
        units = parse((S, b"220 x\r\n"), (C, f"{shown}{behind}c2VjcmV0\r\n".encode()))
        assert units[-1][::2] == ("command", f"{shown} (redacted)")


def test_octets_after_starttls_are_not_parsed() -> None:
    units = parse(
        (S, b"220 x\r\n"),
        (C, b"STARTTLS\r\nMAIL FROM:<early@x>\r\n"),
        (S, b"220 go\r\n\x16\x03\r\n"),
        (C, b"\x16\x03DATA\r\n"),
        (S, b"250 later\r\n"),
    )
    assert units[3:] == [
        ("octets", C, b"MAIL FROM:<early@x>\r\n\x16\x03DATA\r\n"),
        ("octets", S, b"\x16\x03\r\n250 later\r\n"),
    ]


def test_an_unsolicited_reply_answers_no_verb() -> None:
    units = parse((S, b"220 x\r\n421 4.4.2 idle\r\n"), (C, b"NOOP\r\n"), (S, b"250 ok\r\n"))
    assert [u[1:3] for u in units if u[0] == "reply"] == [("GREETING", 220), ("", 421), ("NOOP", 250)]


@pytest.mark.parametrize(
    ("raw", "malformed"),
    [
        (b"250 ok\r\n", ""),
        (b"250\r\n", ""),
        (b"250-x\r\n250 y\r\n", ""),
        (b"250 " + b"x" * 506 + b"\r\n", ""),
        (b"250 " + b"x" * 507 + b"\r\n", "a line has 513 octets, more than 512"),
        (b"250 ok\n", "a line does not end with CRLF"),
        (b"250-x\n250 y\r\n", "a line does not end with CRLF"),
        (b"250-x\r\n250 y\n", "a line does not end with CRLF"),
        (b"250-x\r\n250 " + b"y" * 507 + b"\r\n", "a line has 513 octets, more than 512"),
        (b"250-x\r\n251 y\r\n", "its lines have different codes: 250, 251"),
        (b"25 ok\r\n", "a line does not begin with three digits and a space or a hyphen"),
        (b"250_ok\r\n", "a line does not begin with three digits and a space or a hyphen"),
    ],
)
def test_the_fault_in_a_malformed_reply_is_named(raw: bytes, malformed: str) -> None:
    (unit,) = SessionParser().feed_server(raw)
    assert isinstance(unit, WholeReply)
    assert unit.malformed == malformed


def test_describing_a_long_reply_does_not_keep_its_octets() -> None:
    raw = b"250-x\r\n" * 1000 + b"251 y\r\n"
    references = sys.getrefcount(raw)
    assert describe_malformed(raw) == "its lines have different codes: 250, 251"
    assert sys.getrefcount(raw) == references


def test_garbage_is_a_reply_without_a_code_or_a_command_without_a_verb() -> None:
    units = parse((S, b"hello\r\n"), (C, b"\xff\xfe\x00\r\n"))
    assert units == [("reply", "GREETING", 0, ("hello",), None), ("command", "", "\\xff\\xfe\x00")]


def test_unfinished_lines_are_buffered_within_a_limit() -> None:
    parser = SessionParser()
    parser.feed_server(b"220 x\r\n")
    for _ in range(100):
        parser.feed_client(b"a" * 10_000)
        parser.feed_server(b"9" * 10_000)
        assert len(parser.unparsed_client) <= LINE + 10_000
        assert parser.unparsed_server_size <= LINE + 10_000
        assert max(len(line._beginning) for line in (parser._client_line, parser._server_line)) <= TEXT + 3
    (unit,) = parser.feed_client(b"\r\n")
    assert isinstance(unit, CommandLine)
    assert len(unit.line) == TEXT + 3
    (reply,) = parser.feed_server(b"\r\n")
    assert isinstance(reply, WholeReply)
    assert [len(line) for line in reply.lines] == [TEXT + 3]


def test_the_client_buffer_is_full_before_354_and_no_longer_after() -> None:
    parser = SessionParser()
    parser.feed_server(b"220 x\r\n")
    parser.feed_client(b"DATA\r\n" + b"x" * (HELD - 1))
    assert not parser.client_buffer_full
    parser.feed_client(b"x")
    assert parser.client_buffer_full
    parser.feed_server(b"354 go\r\n")
    parser.feed_client(b"")
    assert not parser.client_buffer_full


def test_unsolicited_replies_are_parsed_up_to_a_limit() -> None:
    parser = SessionParser()
    units = parser.feed_server(b"220 x\r\n" + b"\n" * 50_000)
    assert sum(isinstance(unit, WholeReply) for unit in units) == 1 + UNASKED
    assert b"".join(unit.raw for unit in units) == b"220 x\r\n" + b"\n" * 50_000
    parser.feed_client(b"NOOP\r\n")
    (reply,) = parser.feed_server(b"250 ok\r\n")
    assert isinstance(reply, WholeReply)
    assert reply.to == "NOOP"


@pytest.mark.parametrize(
    ("line", "at_once", "kept"),
    [(b"220-\r\n", 5_000, REPLY_LINES), (b"220-" + b"x" * 1994 + b"\r\n", 200, REPLY // 2000)],
    ids=["too many lines", "too many octets"],
)
def test_an_endless_reply_is_buffered_within_a_limit(line: bytes, at_once: int, kept: int) -> None:
    parser = SessionParser()
    raw = 0
    for _ in range(100):
        units = parser.feed_server(line * at_once)
        raw += sum(len(unit.raw) for unit in units)
        assert parser.unparsed_server_size <= len(line) * (kept + at_once)
    *_, reply = parser.feed_server(b"220 x\r\n")
    assert isinstance(reply, WholeReply)
    assert len(reply.lines) == kept + 1
    assert raw + len(reply.raw) + parser.unparsed_server_size == 100 * at_once * len(line) + 7


def test_unreadable_lines_within_a_reply_are_kept_within_its_limit() -> None:
    parser = SessionParser()
    units = parser.feed_server(b"220-\r\n" + b"x\r\n" * 100_000)
    (reply,) = parser.feed_server(b"220 y\r\n")
    assert isinstance(reply, WholeReply)
    assert (reply.to, reply.code, reply.lines[0], reply.lines[-1]) == ("GREETING", 220, "", "y")
    assert len(reply.lines) == REPLY_LINES + 1
    assert sum(len(unit.raw) for unit in units) + len(reply.raw) == 6 + 3 * 100_000 + 7


def test_unanswered_commands_are_parsed_up_to_a_limit() -> None:
    parser = SessionParser()
    units = parser.feed_client(b"NOOP\r\n" * 20_000)
    assert len(units) == MAX_PENDING - 1, "the greeting is pending too"
    assert parser.client_buffer_full
    parser.feed_server(b"220 x\r\n250 ok\r\n")
    assert parser.client_unblocked
    (unit,) = parser.feed_client(b"")
    assert isinstance(unit, CommandLine), "one more for each reply"
    parser.feed_server(b"")
    (unit,) = parser.feed_client(b"")
    assert isinstance(unit, CommandLine)


LMTP = (
    (S, b"220 x\r\n"),
    (C, b"LHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<a@x>\r\nDATA\r\n"),
    (S, b"250 x\r\n250 ok\r\n250 ok\r\n354 go\r\n"),
    (C, b".\r\nBDAT 4\r\n.\r\n.BDAT 2 LAST\r\n\r\nNOOP\r\n"),
    (S, b"250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n"),
)


@pytest.mark.parametrize("said", [TRANSACTION, LMTP])
def test_parsing_octet_by_octet_gives_the_same_units(said: tuple[tuple[str, bytes], ...]) -> None:
    octets = [(who, bytes([octet])) for who, data in said for octet in data]
    assert parse(*octets) == parse(*said)
    assert ("end",) in parse(*said)


_SAID = st.lists(
    st.tuples(
        st.sampled_from([C, S]),
        st.lists(
            st.sampled_from(
                [
                    b"DATA\r\n", b"354 go\r\n", b"250 ok\r\n", b"250-a\r\n", b"\r\n.\r\n", b".\r\n", b"\r", b"\n", b".",
                    b"BDAT 4\r\n", b"BDAT 2 LAST\r\n", b"LHLO x\r\n", b"RCPT TO:<a@b>\r\n", b"AUTH LOGIN\r\n",
                    b"334 x\r\n", b"STARTTLS\r\n", b"220 x\r\n", b"junk", b"x" * (LINE + 5), b"\xff\x00",
                ]
            ),
            max_size=8,
        ).map(b"".join),
    ),
    max_size=12,
)  # fmt: skip


@given(_SAID, st.randoms(use_true_random=False))
def test_the_cutting_of_the_octets_does_not_change_the_units(said: list[tuple[str, bytes]], random: object) -> None:
    pieces = []
    for who, data in said:
        at = 0
        while at < len(data):
            step = random.choice([1, 2, 3, 7, 5000])  # type: ignore[attr-defined]
            pieces.append((who, data[at : at + step]))
            at += step
    assert parse(*pieces) == parse(*said)


@given(_SAID)
def test_no_octet_is_lost_or_invented(said: list[tuple[str, bytes]]) -> None:
    parser = SessionParser()
    passed = {C: b"", S: b""}
    for who, data in said:
        if who == C:
            passed[C] += b"".join(u.raw for u in parser.feed_client(data))
        else:
            passed[S] += b"".join(u.raw for u in parser.feed_server(data))
            while parser.client_unblocked:
                passed[C] += b"".join(u.raw for u in parser.feed_client(b""))
                passed[S] += b"".join(u.raw for u in parser.feed_server(b""))
    assert passed[C] + parser.unparsed_client == b"".join(d for who, d in said if who == C)
    assert passed[S] + parser.unparsed_server == b"".join(d for who, d in said if who == S)
    assert len(parser.unparsed_server) == parser.unparsed_server_size


@given(st.lists(st.tuples(st.sampled_from([C, S]), st.binary(max_size=200)), max_size=20))
def test_arbitrary_octets_are_parsed_without_an_exception(said: list[tuple[str, bytes]]) -> None:
    for unit in parse(*said):
        assert unit[0] in ("command", "reply", "end", "ContentPart", "octets")
