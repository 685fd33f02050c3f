"""Digests of contents: independent of the reads and of trace fields; reports are recognised."""

import hashlib
import json
import time
from dataclasses import asdict

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from conformance.wire.content import MAX_KEPT, Digester, Unstuffer, digest, dot_stuffed, without_trace_fields

REPORT = b"""Message-ID: <dsn@mbx1>\r
Content-Type: multipart/report;\r
\treport-type=delivery-status; boundary="b"\r
\r
--b\r
Content-Type: text/plain\r
\r
It failed.\r
--b\r
Content-Type: message/delivery-status\r
\r
Reporting-MTA: dns; mbx1\r
\r
Final-Recipient: rfc822; bob@corp.test\r
Action: Failed\r
Status: 5.1.1\r
\r
--b\r
%s\r
--b--\r
"""


def test_trace_fields_do_not_change_the_stable_digest() -> None:
    origin = b"From: a\r\nMessage-ID: <1@x>\r\nDate: Sat, 21 Nov 2026 07:00:00 +0000\r\n\r\nbody\r\n"
    hop = (
        b"Return-Path: <a>\r\nReceived: from x\r\n\tby y;\r\n ; folded\r\nX-Original-To: b\r\nDelivered-To: c\r\n"
        + origin
    )
    one, other = digest(origin), digest(hop)
    assert one.stable_sha256 == other.stable_sha256 == hashlib.sha256(origin).hexdigest()
    assert one.body_sha256 == other.body_sha256 == hashlib.sha256(b"body\r\n").hexdigest()
    assert one.sha256 != other.sha256
    assert (one.message_id, one.date) == ("1@x", "Sat, 21 Nov 2026 07:00:00 +0000")


def test_a_changed_header_or_body_changes_the_stable_digest() -> None:
    origin = digest(b"From: a\r\n\r\nbody\r\n")
    assert digest(b"From: b\r\n\r\nbody\r\n").stable_sha256 != origin.stable_sha256
    assert digest(b"From: a\r\n\r\nbodY\r\n").stable_sha256 != origin.stable_sha256


@pytest.mark.parametrize(
    ("header", "message_id"),
    [
        (b"message-id : \r\n <a@b>\r\n", "a@b"),
        (b"Message-ID: bare@b\r\n", "bare@b"),
        (b"X-Message-ID: <no@b>\r\n", None),
        (b"Subject: x\r\n Message-ID: <folded@b>\r\n", None),
        (b"Message-ID:\r\n", None),
        (b"Message-ID: <>\r\n", None),
        (b"Message-ID: <first@b>\r\nMessage-ID: <second@b>\r\n", "first@b"),
    ],
)
def test_the_message_id_is_that_of_the_header_without_brackets(header: bytes, message_id: str | None) -> None:
    assert digest(header + b"\r\nMessage-ID: <body@b>\r\n").message_id == message_id


@pytest.mark.parametrize(
    "returned",
    [
        b"Content-Type: message/rfc822\r\n\r\nFrom: a\r\nMessage-ID: <m-1@x>\r\n\r\nbody",
        b"Content-Type: text/rfc822-headers\r\n\r\nFrom: a\r\nMessage-ID: <m-1@x>\r\n",
        b"Content-Type: message/rfc822\r\n\r\nTo: b\r\n\xc6rom:a garbled line\r\nMessage-ID: <m-1@x>\r\n\r\nbody",
        b"Content-Type: text/rfc822-headers\r\n\r\nTo: b\r\nno field\r\nMessage-ID: <m-1@x>\r\n",
    ],
)
def test_a_delivery_status_report_is_parsed_for_message_action_and_recipient(returned: bytes) -> None:
    found = digest(REPORT % returned)
    assert (found.report, found.about, found.action) == ("delivery-status", "m-1@x", "failed")
    assert found.failed == ("bob@corp.test",)
    assert found.message_id == "dsn@mbx1"


@pytest.mark.parametrize("address", [b"utf-8; wend\\x{FF}@second.test", "rfc822; wend\u00ff@second.test".encode()])
@pytest.mark.parametrize("kind", [b"message/delivery-status", b"message/global-delivery-status"])
@pytest.mark.parametrize(("part", "what"), [(b"message/global-headers", "header"), (b"message/global", "message")])
def test_a_report_in_utf8_is_parsed_like_another(address: bytes, kind: bytes, part: bytes, what: str) -> None:
    returned = b"Content-Type: " + part + b"\r\n\r\nFrom: a\r\nMessage-ID: <m-1@x>\r\n"
    report = (REPORT % returned).replace(b"rfc822; bob@corp.test", address)
    found = digest(report.replace(b"message/delivery-status", kind))
    assert (found.report, found.about, found.action) == ("delivery-status", "m-1@x", "failed")
    assert (found.failed, found.returned) == (("wend\u00ff@second.test",), what)


def test_all_failed_recipients_of_a_report_are_found() -> None:
    other = b"Original-Recipient: rfc822;eve@corp.test\r\nFinal-Recipient: rfc822;eve@here\r\nAction: delayed\r\n"
    third = b"Final-Recipient: rfc822;dan@here\r\nOriginal-Recipient: rfc822;dan@corp.test\r\nAction: failed\r\n"
    report = (REPORT % b"").replace(b"Status: 5.1.1\r\n", b"\r\n" + other + b"\r\n" + third)
    report = report.replace(b"Reporting-MTA", b"Original-Envelope-Id: q+7\r\nReporting-MTA")
    found = digest(report)
    assert found.failed == ("bob@corp.test", "dan@here", "dan@corp.test")
    assert found.reported == (
        "failed bob@corp.test",
        "delayed eve@here",
        "delayed eve@corp.test",
        "failed dan@here",
        "failed dan@corp.test",
    )
    assert found.envelope_id == "q+7"
    assert found.originals == ("rfc822;eve@corp.test", "rfc822;dan@corp.test")


@pytest.mark.parametrize(
    "value", [b"relayed (to non-DSN-aware mailer)", b"(x) Relayed", b"(x)relayed(y) (z)", b"relayed (open"]
)
def test_a_comment_is_no_part_of_the_action(value: bytes) -> None:
    found = digest((REPORT % b"").replace(b"Action: Failed", b"Action: " + value))
    assert (found.action, found.reported) == ("relayed", ("relayed bob@corp.test",))


@pytest.mark.parametrize("kind", [b"message/delivery-status", b"message/global-delivery-status"])
def test_the_form_of_a_report_in_a_mixed_multipart_is_not_judged(kind: bytes) -> None:
    report = (REPORT % b"").replace(b"message/delivery-status", kind)
    assert digest(report).form_problem == "it has no valid Date", "it is judged in a multipart/report"
    found = digest(report.replace(b"multipart/report", b"multipart/mixed"))
    assert (found.report, found.failed, found.form_problem) == ("delivery-status", ("bob@corp.test",), "")


def test_an_octet_above_127_is_seen_wherever_it_is() -> None:
    content = b"A: \x7f\r\n\r\nc\r\n"
    assert not digest(content).eight_bit
    for at in range(len(content) + 1):
        for octet in (b"\x80", b"\xff"):
            assert digest(content[:at] + octet + content[at:]).eight_bit


def test_a_report_of_another_type_is_not_a_report() -> None:
    assert digest(REPORT % b"").report == "delivery-status"
    assert digest((REPORT % b"").replace(b"delivery-status;", b"disposition-notification;")).report is None
    assert digest(b"Subject: multipart/report\r\n\r\nx").report is None


def test_a_status_part_in_a_mixed_multipart_and_in_no_other_is_a_report_too() -> None:
    mixed = (REPORT % b"").replace(b"multipart/report;\r\n\treport-type=delivery-status;", b"multipart/mixed;")
    found = digest(mixed)
    assert (found.report, found.action, found.failed) == ("delivery-status", "failed", ("bob@corp.test",))
    for other in (b"alternative", b"related", b"digest"):
        subject = b"Subject: multipart/mixed\r\n"  # by which the body is kept
        assert digest(subject + mixed.replace(b"multipart/mixed", b"multipart/" + other)).report is None
    quoted = mixed.replace(b"Content-Type: message/delivery-status", b"X-Not: Content-Type: message/delivery-status")
    assert digest(quoted).report is None


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Type: text/plain\r\n\r\nSender: a\r\nMessage-ID: <m-2@x>\r\n",
        b"Content-Type: message/rfc822\r\n\r\nMessage-ID: <m-2@x>\r\n\r\nbody\r\n",
    ],
)
def test_a_journal_report_is_parsed_for_its_message(body: bytes) -> None:
    head = b'Message-ID: <j@x>\r\nX-MS-Journal-Report:\r\nContent-Type: multipart/mixed; boundary="j"\r\n\r\n--j\r\n'
    found = digest(head + body + b"\r\n--j--\r\n")
    assert (found.report, found.about, found.message_id) == ("journal", "m-2@x", "j@x")


@pytest.mark.parametrize(
    ("content", "body", "stable"),
    [
        (b"", b"", b"\r\n"),
        (b"\r\n", b"", b"\r\n"),
        (b"no header at all", b"", b"no header at all\r\n\r\n"),
        (b"\r\nbody only\r\n", b"body only\r\n", b"\r\nbody only\r\n"),
        (b"A: b\r\n", b"", b"A: b\r\n\r\n"),
    ],
)
def test_contents_without_header_or_body_have_digests(content: bytes, body: bytes, stable: bytes) -> None:
    found = digest(content)
    assert found.sha256 == hashlib.sha256(content).hexdigest()
    assert found.body_sha256 == hashlib.sha256(body).hexdigest()
    assert found.stable_sha256 == hashlib.sha256(stable).hexdigest()
    assert found.size == len(content)


def test_an_endless_header_and_report_are_buffered_within_a_limit() -> None:
    digester = Digester()
    for _ in range(200):
        digester.feed(b"X: y\r\n" * 1000)
        assert len(digester._kept) + len(digester._header or b"") <= MAX_KEPT + 6000
    report = Digester()
    report.feed(REPORT[:200])
    for _ in range(200):
        report.feed(b"y" * 10_000)
        assert len(report._kept) + len(report._header or b"") <= MAX_KEPT + 200
    assert report.digest().report == "delivery-status"


_NESTED = b"".join(b'--b%d\r\nContent-Type: multipart/mixed; boundary="b%d"\r\n\r\n' % (n, n + 1) for n in range(3500))


@pytest.mark.parametrize(
    ("content", "report"),
    [
        (REPORT[: REPORT.index(b"--b")].replace(b'"b"', b'"b0"') + _NESTED, "delivery-status"),
        (
            REPORT[: REPORT.index(b"--b")] + b"--b\r\n" + b"Content-Type: message/rfc822\r\n\r\n" * 8000,
            "delivery-status",
        ),
        (b"X-MS-Journal-Report:\r\n\r\n" + b"\n" * MAX_KEPT, "journal"),
        (b"X-MS-Journal-Report:\r\n\r\n" + b" " * MAX_KEPT, "journal"),
        (b"Date: " + b"\r\n " * 80_000 + b"\r\n\r\n", None),
        (b"Message-ID: " + b"<" * MAX_KEPT, None),
    ],
)
def test_hostile_contents_are_digested_in_seconds_and_not_in_minutes(content: bytes, report: str | None) -> None:
    began = time.process_time()
    found = digest(content)
    assert (found.report, found.about, found.action) == (report, None, None)
    assert time.process_time() - began < 10, "quadratic time would be minutes"


_RETURNING = (
    REPORT,
    REPORT % b"Content-Type: message/rfc822\r\n\r\nMessage-ID: <m-1@x>\r\n\r\nbody",
    (REPORT % b"Content-Type: text/rfc822-headers\r\n\r\nno field\r\nMessage-ID: <m-1@x>\r\n").replace(
        b"rfc822; bob",
        b"utf-8; \\x{FFFFFF}",  # there is no such character
    ),
)


@given(st.binary(max_size=40), st.integers(0, max(map(len, _RETURNING))))
def test_damaged_reports_are_digested_without_an_exception(spoil: bytes, at: int) -> None:
    for report in _RETURNING:
        mixed = report.replace(b"multipart/report", b"multipart/mixed")
        for whole in (report, mixed, b"X-MS-Journal-Report: \xff\r\n" + report):
            assert digest(whole).report, "its body is parsed"
            for damaged in (whole[:at] + spoil + whole[at:], whole[:at] + spoil, whole[:at] + whole[at + len(spoil) :]):
                found = digest(damaged)
                assert found.size == len(damaged)
                assert json.dumps(asdict(found), ensure_ascii=False).encode(), "the history can be written"


@pytest.mark.parametrize("escape", [b"D800", b"DFFF", b"110000", b"FFFFFF"])
def test_an_escape_of_no_character_is_replaced_in_an_address(escape: bytes) -> None:
    report = (REPORT % b"").replace(
        b"rfc822; bob@corp.test", b"utf-8; \\x{" + escape + b"}\\x{D7FF}\\x{E000}\\x{10FFFF}@corp.test"
    )
    assert digest(report).failed == ("\ufffd\ud7ff\ue000\U0010ffff@corp.test",)


def test_trace_fields_are_removed_with_their_folded_lines() -> None:
    received, returned = b"RECEIVED: a\r\n b\r\n", b"return-path: e\r\n\tf\r\n"
    delivered, original = b"Delivered-To: g\r\n h\r\n", b"X-ORIGINAL-TO: i\r\n j\r\n k\r\n"
    kept = b"Keep: c\r\n d\r\n"
    assert without_trace_fields(received + kept + returned + delivered + kept + original) == kept + kept


_PIECES = st.lists(st.sampled_from([b"\r\n", b".", b"\r", b"\n", b"x", b"\xe4", b"A: b", b"Received: y", b"\r\n\r\n"]))


@example([REPORT], 7)
@example([b"A: \xe4\r\n\r\n", b"x" * 20], 7)
@given(_PIECES, st.integers(1, 7))
def test_the_cutting_of_the_content_does_not_change_the_digest(pieces: list[bytes], size: int) -> None:
    content = b"".join(pieces)
    digester = Digester()
    for at in range(0, len(content), size):
        digester.feed(content[at : at + size])
    assert digester.digest() == digest(content)


@pytest.mark.parametrize("beyond", [-3, -1, 0, 1, 70_000])
def test_the_stable_digest_of_a_header_beyond_the_limit_depends_on_neither_the_reads_nor_trace_fields_before_it(
    beyond: int,
) -> None:
    filler = b"X-Filler: " + b"x" * 54 + b"\r\n"
    header = (filler * (MAX_KEPT // len(filler) + 2_000))[: MAX_KEPT + beyond - 2] + b"\r\n"
    content = header + b"\r\nbody\r\n"
    whole = digest(content)
    for size in (1_000, 65_536):
        digester = Digester()
        for at in range(0, len(content), size):
            digester.feed(content[at : at + size])
        assert digester.digest() == whole
    for field in (
        b"Received: from x\r\n\tby y\r\n",
        b"Return-Path: <a>\r\n",
        b"Delivered-To: b\r\n",
        b"X-Original-To: c\r\n",
    ):
        assert digest(field + content).stable_sha256 == whole.stable_sha256
    assert digest(header + b"\r\nbodY\r\n").stable_sha256 != whole.stable_sha256


@given(_PIECES, st.integers(1, 7))
def test_unstuffing_reverses_stuffing_however_the_content_is_cut(pieces: list[bytes], size: int) -> None:
    content = b"".join(pieces) + b"\r\n"
    wire, unstuffer = dot_stuffed(content), Unstuffer()
    assert b"\r\n.\r\n" not in b"\r\n" + wire
    assert b"".join(unstuffer.feed(wire[at : at + size]) for at in range(0, len(wire), size)) == content


def test_received_fields_are_counted_in_the_header_alone() -> None:
    found = digest(b"Received: a\r\n b\r\nRECEIVED : c\r\nX-Received: d\r\n\r\nReceived: e\r\n")
    assert found.received == 2
    returned = b"Content-Type: message/rfc822\r\n\r\nReceived: e\r\nReceived: f\r\n\r\nbody\r\n"
    report = digest(b"Received: a\r\n" + REPORT % returned)
    assert (report.report, report.received) == ("delivery-status", 1), "not those of what it returns"
    assert digest(b"Subject: x\r\n Received: y\r\n\r\n").received == 0, "a folded line"
