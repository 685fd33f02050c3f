"""Each check finds what breaks its clause, passes what keeps it, and says when it had no occasion."""

import time
from typing import Any

import pytest

from conformance.history.events import Command, Connected, Reply
from conformance.listen.checks import judge_client
from conformance.listen.record import ListenRecord
from tests.listen.listening import Listening, RawClient, deliver, listening

pytestmark = pytest.mark.integration


@pytest.fixture
def listener():
    with listening(held_back=0.1) as running:
        yield running


def test_without_a_session_no_check_has_an_occasion():
    assert {str(found.outcome) for found in judge_client(ListenRecord())} == {"not-applicable"}


def test_an_orderly_client_fails_no_check(listener: Listening):
    content = b"Message-ID: <1@a.test>\r\n\r\n..dot\r\n..\r\n" + b"x" * 998 + b"\r\n"
    assert deliver(listener, b"alice@b.test", b"bob@b.test", content=content)[:3] == b"250"
    outcomes = listener.outcomes()
    assert set(outcomes.values()) == {"pass"}
    assert {"command-syntax", "dot-stuffing", "content-line-ends", "hello-first", "greeting-wait", "pipelining", "quit",
            "quit-wait", "arrives-once"} <= set(outcomes)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "check", "outcome", "words"),
    [
        (b"MAIL FROM: <a@a.test>", "command-syntax", "fail", "no space is allowed"),
        (b"MAIL FROM :<a@a.test>", "command-syntax", "fail", "no space is allowed"),
        (b"MAIL FROM:a@a.test", "command-syntax", "fail", "no angle brackets"),
        (b"RCPT TO:a@a.test", "command-syntax", "fail", "no angle brackets"),
        (b"MAIL FROM:<a@a.test> ", "command-syntax", "fail", "white space at the end"),
        (b"MAIL FROM:<a@a_b.test>", "command-syntax", "fail", "4.1.1.2"),
        (b"MAIL FROM:<a..b@a.test>", "command-syntax", "fail", "4.1.1.2"),
        (b"MAIL FROM:<\xc3\xa4@a.test>", "command-syntax", "fail", "not ASCII"),
        (b"EHLO", "command-syntax", "fail", "4.1.1.1"),
        (b"EHLO my_host", "command-syntax", "fail", "4.1.1.1"),
        (b"HELO [127.0.0.1]", "command-syntax", "fail", "4.1.1.1"),
        (b"RSET now", "command-syntax", "fail", "4.1.1.5"),
        (b"RCPT TO:<>", "command-syntax", "fail", "4.1.1.3"),
        (b"DATA now", "command-syntax", "fail", "4.1.1.4"),
        (b"QUIT now", "command-syntax", "fail", "4.1.1.10"),
        (b"250 ok", "command-syntax", "fail", "(RFC 5321 4.1.1)"),
        (b"HELO a.test", "command-syntax", "pass", ""),
        (b"RCPT TO:<Postmaster>", "command-syntax", "pass", ""),
        (b"rset", "command-syntax", "pass", ""),
        (b"MAIL FROM:<a@a.test> RET=HDRS", "parameters", "fail", "RET was not offered"),
        (b"MAIL FROM:<a@a.test> SMTPUTF8", "parameters", "fail", "SMTPUTF8 was not offered"),
        (b"NOOP " + b"x" * 506, "command-length", "warn", "513 octets"),
        (b"MAIL FROM:<>", "command-syntax", "pass", ""),
        (b'mail from:<"a b"@[IPv6:::1]> SIZE=9', "command-syntax", "pass", ""),
        (b"MAIL FROM:<@x.test,@y.test:a@a.test>", "command-syntax", "pass", ""),
        (b"EHLO [127.0.0.1]", "command-syntax", "pass", ""),
        (b"MAIL FROM:<a@a.test> SIZE=9 BODY=8BITMIME", "parameters", "pass", ""),
        (b'MAIL FROM:<"> \\"> c"@a.test> SIZE=9', "parameters", "pass", "(1 of 1)"),
        (b'MAIL FROM:<"> b"@a.test> RET=HDRS', "parameters", "fail", "RET was not offered"),
        (b"NOOP " + b"x" * 505, "command-length", "pass", ""),
    ],
)
def test_a_command_line_is_judged_by_the_grammar(
    listener: Listening, line: bytes, check: str, outcome: str, words: str
):
    client = RawClient(listener)
    client.hello()
    client.ask(line)
    client.quit()
    found = listener.findings()[check]
    assert (str(found.outcome), found.session) == (outcome, None if outcome == "pass" else "s1")
    assert words in found.sentence


@pytest.mark.parametrize(
    ("content", "check", "outcome"),
    [
        (b".dot\r\n", "dot-stuffing", "fail"),
        (b"..dot\r\n", "dot-stuffing", "pass"),
        (b"dot\r\n", "dot-stuffing", "not-applicable"),
        (b"a\nb\r\n", "content-line-ends", "fail"),
        (b"a\rb\r\n", "content-line-ends", "fail"),
        (b"a\r\nb\r\n", "content-line-ends", "pass"),
        (b"x" * 999 + b"\r\n", "content-line-length", "warn"),
        (b".." + b"x" * 997 + b"\r\n", "content-line-length", "pass"),
        (b"\xe4\r\n", "eight-bit-content", "fail"),
        (b"a\r\n", "eight-bit-content", "not-applicable"),
    ],
)
def test_a_content_is_judged_line_by_line(listener: Listening, content: bytes, check: str, outcome: str):
    deliver(listener, b"alice@b.test", content=b"first\r\n" + content + b"last\r\n")
    assert str(listener.findings()[check].outcome) == outcome


def test_eight_bit_content_that_was_announced_passes(listener: Listening):
    client = RawClient(listener)
    client.hello()
    for line in (b"MAIL FROM:<a@a.test> BODY=8BITMIME", b"RCPT TO:<b@b.test>", b"DATA", b"\xe4\r\n."):
        client.ask(line)
    client.quit()
    assert listener.outcomes()["eight-bit-content"] == "pass"


@pytest.mark.parametrize(("end", "outcome"), [(b"\n", "fail"), (b"\r\n", "pass")], ids=["LF", "CRLF"])
def test_a_bare_line_feed_after_a_command_is_found(listener: Listening, end: bytes, outcome: str):
    client = RawClient(listener)
    client.reply()
    client.send(b"EHLO client.test" + end)
    client.reply()
    client.quit()
    assert listener.outcomes()["command-line-ends"] == outcome


ENVELOPE = b"MAIL FROM:<a@a.test>\r\nRCPT TO:<b@b.test>\r\nDATA\r\n"
RETRIED = [(b"rcpt-451", "retry"), (b"dot-451", "retry"), (b"drop-data", "retry"), (b"drop-heard-dot", "lost-reply")]


@pytest.mark.parametrize(
    ("first", "pipelined", "replies", "expected"),
    [
        (b"EHLO a.test\r\n", ENVELOPE, 3, {"pipelining": "pass"}),
        (b"EHLO a.test\r\n", ENVELOPE + b"x\r\n.\r\n", 4, {"pipelining": "fail"}),
        (b"EHLO a.test\r\n", b"NOOP\r\nRSET\r\n", 2, {"pipelining": "fail"}),
        (b"EHLO a.test\r\n" + ENVELOPE, b"", 3, {"reply-wait": "fail"}),
        (b"HELO a.test\r\n", ENVELOPE, 3, {"reply-wait": "fail", "ehlo-first": "warn"}),
        (b"HELO a.test\r\n", b"NOOP\r\n", 1, {"reply-wait": "pass"}),
    ],
)
def test_commands_that_are_sent_without_waiting_are_judged_by_the_offered_extensions(
    listener: Listening, first: bytes, pipelined: bytes, replies: int, expected: dict[str, str]
):
    client = RawClient(listener)
    client.reply()
    client.send(first)
    client.reply()
    client.send(pipelined)
    for _ in range(replies):
        client.reply()
    if b"DATA" in first + pipelined and not pipelined.endswith(b".\r\n"):
        client.ask(b"x\r\n.")
    client.quit()
    outcomes = listener.outcomes()
    assert {name: outcomes.get(name) for name in expected} == expected


OFFERED, NOT_OFFERED = ("SIZE 100", "PIPELINING"), ("SIZE 100",)


@pytest.mark.parametrize(
    ("hellos", "outcomes"),
    [
        ([("EHLO", OFFERED)], ("pass", "pass")),
        ([("EHLO", NOT_OFFERED)], ("not-applicable", "fail")),
        ([("EHLO", OFFERED), ("EHLO", NOT_OFFERED)], ("pass", "fail")),
        ([("EHLO", OFFERED), ("HELO", ())], ("pass", "fail")),
        ([("EHLO", NOT_OFFERED), ("EHLO", OFFERED)], ("pass", "pass")),
        ([("HELO", ()), ("EHLO", OFFERED)], ("pass", "pass")),
    ],
    ids=["offered", "not offered", "no longer", "not after HELO", "at last", "after HELO"],
)
def test_commands_are_sent_in_a_group_only_where_ehlo_offers_pipelining(
    hellos: list[tuple[str, tuple[str, ...]]], outcomes: tuple[str, str]
):
    """The last hello counts. A listener offers it by itself, so this history is written by hand."""
    said: list[tuple[Any, dict[str, Any]]] = [
        (Connected, {"client": "client", "server": "listen", "listener": "smtp"}),
        (Reply, {"to": "GREETING", "code": 220, "lines": ("ready",)}),
    ]
    for verb, keywords in hellos:
        said += [
            (Command, {"verb": verb, "line": f"{verb} a.test"}),
            (Reply, {"to": verb, "code": 250, "lines": ("listen.test", *keywords)}),
        ]
    said += [
        (Command, {"verb": "MAIL", "line": "MAIL FROM:<a@a.test>"}),
        (Command, {"verb": "RCPT", "line": "RCPT TO:<b@b.test>"}),
        (Reply, {"to": "MAIL", "code": 250, "lines": ("ok",)}),
        (Reply, {"to": "RCPT", "code": 250, "lines": ("ok",)}),
    ]
    events = tuple(kind(n=n, t=0.0, session="s1", **fields) for n, (kind, fields) in enumerate(said))
    found = {finding.check: str(finding.outcome) for finding in judge_client(ListenRecord(events))}
    assert (found["pipelining"], found["reply-wait"]) == outcomes


@pytest.mark.parametrize(("waits", "outcome"), [(False, "fail"), (True, "pass")])
def test_a_client_that_sends_a_group_where_the_next_hop_offers_no_extension_is_found(
    listener: Listening, waits: bool, outcome: str
):
    deliver(listener, b"ehlo-250@b.test")
    client = RawClient(listener)
    client.reply()
    assert client.ask(b"EHLO a.test") == b"250 listen.test\r\n"
    for octets in ENVELOPE.splitlines(keepends=True) if waits else [ENVELOPE]:
        client.send(octets)
        for _ in octets.splitlines():
            client.reply()
    client.ask(b"x\r\n.")
    client.quit()
    assert listener.outcomes()["reply-wait"] == outcome


@pytest.mark.parametrize(("local", "place"), [(b"mail-451", 0), (b"rcpt-451", 1), (b"rcpt-550", 1), (b"data-451", 3)])
def test_a_group_passes_of_which_the_next_hop_answers_a_command_itself(listener: Listening, local: bytes, place: int):
    group = b"MAIL FROM:<a@a.test>\r\nRCPT TO:<%s@b.test>\r\nRCPT TO:<b@b.test>\r\nDATA\r\n" % local
    answers = []
    for _ in range(2):  # a place before RCPT is met by the second session
        client = RawClient(listener)
        client.hello()
        client.send(group)
        replies = [client.reply() for _ in range(4)]
        answers.append(replies[place])
        if replies[-1].startswith(b"354"):
            client.ask(b"x\r\n.")
        client.quit()
    assert any(answer.endswith(b".3.0 %s\r\n" % local) for answer in answers), "one was answered by the listener"
    outcomes = listener.outcomes()
    assert (outcomes["pipelining"], outcomes.get("reply-wait", "pass")) == ("pass", "pass")


@pytest.mark.parametrize(("waits", "outcome"), [(False, "warn"), (True, "pass")])
def test_a_client_that_speaks_before_the_greeting_gets_a_warning(listener: Listening, waits: bool, outcome: str):
    client = RawClient(listener)
    if waits:
        client.reply()
    client.ask(b"EHLO a.test")
    if not waits:
        client.reply()
    client.quit()
    assert listener.outcomes()["greeting-wait"] == outcome


@pytest.mark.parametrize(
    ("first", "then", "outcome"),
    [
        (b"NOOP", b"MAIL FROM:<a@a.test>", "fail"),
        (b"MAIL FROM:<a@a.test>", b"EHLO a.test", "fail"),
        (b"HELO a.test", b"MAIL FROM:<a@a.test>", "pass"),
    ],
)
def test_mail_without_a_hello_before_it_is_found(listener: Listening, first: bytes, then: bytes, outcome: str):
    client = RawClient(listener)
    client.reply()
    client.ask(first)
    client.ask(then)
    client.quit()
    assert listener.outcomes()["hello-first"] == outcome


@pytest.mark.parametrize(("then", "outcome"), [(b"HELO a.test", "pass"), (b"NOOP", "warn")])
@pytest.mark.parametrize("code", [b"500", b"502"])
def test_helo_follows_an_ehlo_that_is_not_recognized(listener: Listening, code: bytes, then: bytes, outcome: str):
    deliver(listener, b"ehlo-%s@b.test" % code)
    client = RawClient(listener)
    client.reply()
    assert client.ask(b"EHLO a.test")[:3] == code
    client.ask(then)
    client.quit()
    assert listener.outcomes()["helo-fallback"] == outcome


def test_closing_without_quit_is_found(listener: Listening):
    client = RawClient(listener)
    client.hello()
    client.close()
    listener.wait_for("closed by the client")
    found = listener.findings()["quit"]
    assert (str(found.outcome), found.sentence) == ("fail", "the client closed the connection after EHLO")
    assert any("EHLO client.test" in line for line in found.transcript)


@pytest.mark.parametrize(("recipient", "codes"), [(b"dot-421@b.test", [b"421"]), (b"alice@b.test", [b"250", b"221"])])
def test_a_client_that_closes_its_direction_after_quit_gets_its_replies(
    recipient: bytes, codes: list[bytes], listener: Listening
) -> None:
    client = RawClient(listener)
    client.hello()
    for line in (b"MAIL FROM:<a@a.test>", b"RCPT TO:<" + recipient + b">", b"DATA"):
        client.ask(line)
    client.send(b"x\r\n.\r\nQUIT\r\n")
    client.end_sending()
    assert [client.reply()[:3] for _ in codes] == codes
    assert client.read_to_end() == b"", "the connection is closed in order behind the last reply, and not reset"
    retried = "not-applicable" if codes[0] == b"250" else "inconclusive"
    assert str(listener.findings()["retry"].outcome) == retried


def test_how_long_a_client_waits_that_has_closed_its_direction_after_quit_cannot_be_seen(listener: Listening):
    client = RawClient(listener)
    client.hello()
    for line in (b"MAIL FROM:<a@a.test>", b"RCPT TO:<silent@b.test>", b"DATA"):
        client.ask(line)
    client.send(b"x\r\n.\r\nQUIT\r\n")
    client.end_sending()
    listener.wait_for("stall after dot")
    client.close()
    found = listener.findings()["dot-timeout"]
    assert str(found.outcome) == "inconclusive"
    assert "cannot be seen" in found.sentence


def test_a_client_that_does_not_read_the_reply_to_quit_gets_a_warning(listener: Listening):
    client = RawClient(listener)
    client.hello()
    client.send(b"QUIT\r\n")
    client.close()
    listener.wait_for("s1   -- closed")
    outcomes = listener.outcomes()
    assert (outcomes["quit"], outcomes["quit-wait"]) == ("pass", "warn")


@pytest.mark.parametrize("local", [b"rcpt-421", b"data-421", b"dot-421"])
def test_after_421_no_quit_is_asked_for(listener: Listening, local: bytes):
    assert deliver(listener, local + b"@b.test")[:3] == b"421"
    outcomes = listener.outcomes()
    assert outcomes["hello-first"] == "pass"
    assert "quit" not in outcomes


@pytest.mark.parametrize(("local", "check"), RETRIED)
def test_a_message_that_never_comes_again_is_inconclusive(listener: Listening, local: bytes, check: str):
    deliver(listener, local + b"@b.test")
    found = listener.findings()[check]
    assert str(found.outcome) == "inconclusive"
    assert "was not tried again" in found.sentence


@pytest.mark.parametrize(("local", "check"), [*RETRIED, (b"dot-451-always", "retry")])
def test_a_message_that_comes_again_at_once_was_retried_without_delay(listener: Listening, local: bytes, check: str):
    for _ in range(2):
        deliver(listener, local + b"@b.test")
    outcomes = listener.outcomes()
    assert (outcomes[check], outcomes["retry-delay"], outcomes["retry-interval"]) == ("pass", "fail", "warn")


@pytest.mark.parametrize("last", [(), (b"QUIT",), (b"RSET",)], ids=["close", "QUIT", "RSET"])
def test_a_client_that_leaves_before_the_content_has_nothing_to_try_again(listener: Listening, last: tuple[bytes, ...]):
    client = RawClient(listener)
    client.hello()
    for line in (b"MAIL FROM:<a@a.test>", b"RCPT TO:<alice@b.test>", *last):
        client.ask(line)
    client.close()
    listener.wait_for("s1   -- closed")
    outcomes = listener.outcomes()
    assert outcomes["hello-first"] == "pass"
    assert not {"retry", "lost-reply"} & set(outcomes)


def test_octets_of_a_client_that_gave_up_waiting_for_354_are_no_content_sent_too_early(listener: Listening):
    client = RawClient(listener)
    client.hello()
    for line in (b"MAIL FROM:<a@a.test>", b"RCPT TO:<silent-data@b.test>"):
        client.ask(line)
    client.send(b"DATA\r\n")
    listener.wait_for("stall after DATA")
    time.sleep(0.6)  # what is sent sooner may have been pipelined
    client.send(b"QUIT\r\n")
    client.close()
    listener.wait_for("closed by the client")
    outcomes = listener.outcomes()
    assert (outcomes["pipelining"], outcomes["data-timeout"]) == ("pass", "warn")


def test_a_client_that_gives_up_while_it_cannot_send_more_content_gets_a_warning(listener: Listening):
    client = RawClient(listener)
    client.hello()
    for line in (b"MAIL FROM:<a@a.test>", b"RCPT TO:<stall-body@b.test>", b"DATA"):
        client.ask(line)
    client.send(b"x" * 5000)
    listener.wait_for("stall at octet 0 of the body")
    client.close()
    listener.wait_for("closed by the client")
    found = listener.findings()["block-timeout"]
    assert (str(found.outcome), found.clause) == ("warn", "RFC 5321 4.5.3.2.5")


@pytest.mark.parametrize(("again", "outcome"), [(True, "warn"), (False, "pass")])
@pytest.mark.parametrize("at", [b"rcpt-550", b"data-554", b"dot-550"])
def test_what_was_refused_for_good_and_comes_again_is_found(listener: Listening, at: bytes, again: bool, outcome: str):
    deliver(listener, at + b"@b.test")
    deliver(listener, (at if again else b"alice") + b"@b.test")
    assert listener.outcomes()["no-retry-after-5yz"] == outcome


def test_a_message_that_was_accepted_and_comes_again_is_found(listener: Listening):
    for _ in range(2):
        deliver(listener, b"alice@b.test", content=b"Message-ID: <7@a.test>\r\n\r\nx\r\n")
    assert listener.outcomes()["arrives-once"] == "fail"


@pytest.mark.parametrize(
    "contents",
    [
        (b"Message-ID: <1@a.test>\r\n\r\nx\r\n", b"Message-ID: <2@a.test>\r\n\r\nx\r\n"),
        (b"Message-ID: <1@a.test>\r\n\r\nx\r\n", b"Message-ID: <1@a.test>\r\n\r\ny\r\n"),
        (b"Subject: 1\r\n\r\nx\r\n", b"Subject: 2\r\n\r\nx\r\n"),
    ],
    ids=["two-message-ids", "two-bodies", "no-message-id"],
)
def test_two_messages_to_one_address_arrive_once_each(listener: Listening, contents: tuple[bytes, bytes]):
    for content in contents:
        deliver(listener, b"alice@b.test", content=content)
    found = listener.findings()["arrives-once"]
    assert str(found.outcome) == "pass"
    assert found.sentence.endswith("(2 of 2)")


def test_a_retry_for_a_refused_recipient_that_repeats_the_accepted_one_is_found(listener: Listening):
    client = RawClient(listener)
    client.hello()
    for line in (b"MAIL FROM:<a@a.test>", b"RCPT TO:<alice@b.test>", b"RCPT TO:<rcpt-450@b.test>", b"DATA", b"x\r\n."):
        client.ask(line)
    client.quit()
    deliver(listener, b"alice@b.test", b"rcpt-450@b.test", content=b"x\r\n")
    found = listener.findings()
    assert str(found["arrives-once"].outcome) == "fail"
    assert "alice@b.test" in found["arrives-once"].sentence
    assert str(found["retry"].outcome) == "pass"
