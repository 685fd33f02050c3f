"""A listener does to each session what the recipients ask for, and records what clients send."""

import threading

import pytest

from conformance.history.events import Delivered
from tests.listen.listening import Listening, RawClient, deliver, listening

pytestmark = pytest.mark.integration


@pytest.fixture
def listener():
    with listening() as running:
        yield running


@pytest.mark.parametrize(
    ("local", "first"),
    [
        (b"rcpt-451", b"451 4.3.0 rcpt-451\r\n"),
        (b"data-452", b"452 4.3.0 data-452\r\n"),
        (b"dot-451", b"451 4.3.0 dot-451\r\n"),
        (b"dot-421", b"421 4.3.0 dot-421\r\n"),
        (b"rcpt-421", b"421 4.3.0 rcpt-421\r\n"),
        (b"drop-heard-dot", b""),
        (b"reset-data", b""),
        (b"cut-after-dot", b""),
        (b"drop-body", b""),
    ],
)
def test_a_message_meets_the_behaviour_once_and_is_accepted_then_and_the_next_message_meets_it_again(
    listener: Listening, local: bytes, first: bytes
):
    to = local + b"@b.test"
    assert deliver(listener, to) == first
    assert deliver(listener, to) == b"250 2.0.0 delivered\r\n"
    assert deliver(listener, to) == first


def test_x2_and_always_and_5yz_act_more_than_once(listener: Listening):
    twice = [deliver(listener, b"rcpt-451-x2@b.test")[:3] for _ in range(4)]
    assert twice == [b"451", b"451", b"250", b"451"]
    assert [deliver(listener, b"dot-451-always@b.test")[:3] for _ in range(3)] == [b"451"] * 3
    for local in (b"rcpt-550", b"data-554", b"dot-550"):
        assert [deliver(listener, local + b"@b.test")[:3] for _ in range(3)] == [local[-3:]] * 3


def test_addresses_are_counted_by_themselves(listener: Listening):
    addresses = (b"rcpt-451@b.test", b"rcpt-451@c.test", b"rcpt-451+1@b.test", b"rcpt-451+2@b.test")
    for code in (b"451", b"250", b"451"):
        assert [deliver(listener, to)[:3] for to in addresses] == [code] * 4


@pytest.mark.parametrize(
    "replies",
    [((b"alice", b"250"), (b"rcpt-550", b"550")), ((b"rcpt-550", b"550"), (b"alice", b"250"))],
    ids=["accepted-first", "refused-first"],
)
def test_a_recipient_is_refused_and_another_in_the_same_message_accepted(
    listener: Listening, replies: tuple[tuple[bytes, bytes], ...]
):
    client = RawClient(listener)
    client.hello()
    client.ask(b"MAIL FROM:<a@a.test>")
    for local, code in replies:
        assert client.ask(b"RCPT TO:<%s@b.test>" % local)[:3] == code
    assert client.ask(b"DATA")[:3] == b"354"
    assert client.ask(b"x\r\n.")[:3] == b"250"
    client.quit()
    listener.stop()
    assert listener.record is not None
    delivered = [event.recipient for event in listener.record.events if isinstance(event, Delivered)]
    assert delivered == ["alice@b.test"]


@pytest.mark.parametrize(
    ("local", "says", "met"),
    [
        (b"refuse", b"", b"(reset)"),
        (b"drop-connect", b"", b""),
        (b"greeting-421", b"", b"421 greeting-421\r\n"),
        (b"cut-greeting", b"", b"220 listen."),
        (b"ehlo-502", b"EHLO client.test", b"502 ehlo-502\r\n"),
        (b"helo-502", b"HELO client.test", b"502 helo-502\r\n"),
        (b"mail-452", b"MAIL FROM:<a@a.test>", b"452 4.3.0 mail-452\r\n"),
    ],
)
def test_a_place_before_rcpt_is_met_by_the_next_connection(listener: Listening, local: bytes, says: bytes, met: bytes):
    to = local + b"@b.test"
    assert deliver(listener, to) == b"451 4.7.1 %s: the next connection meets it\r\n" % local
    client = RawClient(listener)
    if says:
        assert client.reply()[:3] == b"220"
        assert client.ask(says) == met
        client.quit()
    else:
        assert client.read_to_end() == met
    assert deliver(listener, to)[:3] == b"250"


def test_x2_at_a_place_before_rcpt_is_met_by_two_connections(listener: Listening):
    assert deliver(listener, b"greeting-421-x2@b.test")[:3] == b"451"
    assert [RawClient(listener).read_to_end()[:3] for _ in range(2)] == [b"421"] * 2
    assert deliver(listener, b"greeting-421-x2@b.test")[:3] == b"250"
    assert deliver(listener, b"refuse-x2@b.test")[:3] == b"451"
    assert [RawClient(listener).read_to_end() for _ in range(2)] == [b"(reset)"] * 2
    assert deliver(listener, b"refuse-x2@b.test")[:3] == b"250"
    assert deliver(listener, b"mail-452-x2@b.test")[:3] == b"451"
    assert [deliver(listener, b"alice@b.test")[:3] for _ in range(3)] == [b"452", b"452", b"250"]
    assert deliver(listener, b"mail-452-x2@b.test")[:3] == b"250"


@pytest.mark.parametrize("local", [b"drop-heard-dot", b"dot-451", b"drop-data"])
def test_what_a_transaction_asked_for_ends_with_it(listener: Listening, local: bytes):
    client = RawClient(listener)
    client.hello()
    client.ask(b"MAIL FROM:<a@a.test>")
    client.ask(b"RCPT TO:<%s@b.test>" % local)
    client.ask(b"RSET")
    assert client.message(b"alice@b.test")[:3] == b"250"
    assert client.message(b"%s@b.test" % local)[:3] == b"250", "its turn to be accepted"
    acted = client.message(b"%s@b.test" % local)[:3]
    assert acted == (b"451" if local == b"dot-451" else b""), "it acts in a transaction that is not reset"
    client.close()


def test_a_content_of_one_line_of_eight_million_octets_is_answered_in_time(listener: Listening):
    """The client waits `WITHIN`, which quadratic work exceeds many times."""
    assert deliver(listener, b"alice@b.test", content=b"x" * 8_000_000 + b"\r\n")[:3] in (b"250", b"500")


def test_the_next_ehlo_is_answered_without_extensions_where_an_address_asks_for_that(listener: Listening):
    deliver(listener, b"ehlo-250@b.test")
    without, usual = RawClient(listener), RawClient(listener)
    for client in (without, usual):
        client.reply()
    assert without.ask(b"EHLO client.test") == b"250 listen.test\r\n"
    assert usual.ask(b"EHLO client.test").startswith(b"250-listen.test\r\n250-"), "the next one has them"
    for client in (without, usual):
        client.quit()


def test_a_held_reply_ends_with_the_client_and_harms_no_other_session(listener: Listening):
    waiting = RawClient(listener)
    waiting.hello()
    replies: list[bytes] = []
    thread = threading.Thread(target=lambda: replies.append(waiting.message(b"silent@b.test")))
    thread.start()
    deliver_until_printed(listener, "stall")
    assert deliver(listener, b"alice@b.test")[:3] == b"250", "while the reply is held"
    assert thread.is_alive()
    waiting.shut_down()
    thread.join()
    assert replies == [b""]
    deliver_until_printed(listener, "s1   -- closed by the client")
    assert deliver(listener, b"alice@b.test")[:3] == b"250", "afterwards"
    waiting.close()


def deliver_until_printed(listener: Listening, words: str) -> None:
    """Deliver messages in other sessions, each of which must be accepted, until a line has these words; a thousand at most."""
    for _ in range(1000):
        if any(words in line for line in list(listener.lines)):
            return
        assert deliver(listener, b"alice@b.test")[:3] == b"250"
    pytest.fail(f"no line has {words!r}")


def test_a_misspelt_behaviour_is_refused_with_the_reason(listener: Listening):
    assert deliver(listener, b"rcpt-45@b.test").startswith(b"550 5.1.1 rcpt-45: a reply has a code from 400")


def test_what_a_client_sends_is_printed_without_control_characters(listener: Listening):
    client = RawClient(listener)
    client.reply()
    client.ask(b"EHLO \x1b[2Jx")
    client.ask(b"MAIL FROM:<a@a.test>")
    client.ask(b"RCPT TO:<\x1b[3J@b.test>")
    assert client.ask(b"RCPT TO:<rcpt-45\r\x1b[4J@b.test>").count(b"\r") == 1, "the end of the reply alone"
    client.ask(b"DATA")
    client.ask(b"Message-ID: <\x1b[5J@a.test>\r\n\r\n.")
    client.quit()
    listener.stop()
    for shown in (
        r"\x1b[2Jx", r"\x1b[3J@b.test is accepted", r"rcpt-45\r\x1b[4j: no such behaviour", r"Message-ID \x1b[5J@a.test",
    ):  # fmt: skip
        assert any(shown in line for line in listener.lines)
    assert [line for line in listener.lines if not line.isprintable()] == []


def test_the_secret_of_auth_is_neither_printed_nor_kept(listener: Listening):
    client = RawClient(listener)
    client.hello()
    client.ask(b"AUTH PLAIN AHVzZXIAc2VjcmV0")
    client.ask(b"auth plain AHVzZXIAc2VjcmV0")
    client.ask(b" AUTH PLAIN AHVzZXIAc2VjcmV0")
    for line in (b"AUTH PLAIN", b"AUTH LOGIN"):
        assert client.ask(line)[:1] == b"5"
    assert client.ask(b"AUTH PLAIN\r\nAHVzZXIAc2VjcmV0")[:1] == b"5", (
        "a client may send the response before the refusal"
    )
    assert client.reply()[:1] == b"5"
    assert client.ask(b"AUTH LOGIN\r\ndXNlcg==\r\nc2VjcmV0LXBhc3M=")[:1] == b"5"
    assert [client.reply()[:1] for _ in range(2)] == [b"5"] * 2
    client.quit()
    listener.stop()
    assert listener.record is not None
    for kept in (repr(listener.record), "".join(listener.lines)):
        assert "AUTH PLAIN (redacted)" in kept
        assert "AUTH LOGIN" in kept
        assert "AHVzZXIAc2VjcmV0" not in kept
        assert "c2VjcmV0LXBhc3M=" not in kept
