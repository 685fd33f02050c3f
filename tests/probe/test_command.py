"""`conformance probe HOST:PORT`: options, output and exit codes."""

import asyncio
import json
import re
import socket
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiosmtpd.handlers import Sink
from aiosmtpd.smtp import SMTP

from conformance.cli import main
from conformance.probe import run
from conformance.probe.checks import CHECKS, Check, Judgement
from conformance.probe.server import Server
from conformance.probe.sink import ProbeSink
from conformance.testing import BackgroundLoop, MailNode

pytest_plugins = ["conformance.fixtures"]


@pytest.fixture(scope="module")
def aiosmtpd() -> Iterator[str]:
    background = BackgroundLoop()

    async def start() -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: SMTP(Sink(), hostname="aiosmtpd.test", loop=loop), "127.0.0.1", 0)

    server = background.run(start())
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    background.call(server.close)
    background.close()


def probe(*arguments: str) -> int:
    """Run the command in this process and return its exit code."""
    with pytest.raises(SystemExit) as left:
        main(["probe", *arguments])
    return int(left.value.code or 0)


@contextmanager
def lines_server(greeting: bytes, *, closes: bool) -> Iterator[str]:
    """Listen, send each client this greeting, and then close the connection or stay silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                client.sendall(greeting)
                if closes:
                    client.close()
                else:
                    kept.append(client)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for client in kept:
                client.close()


def test_json_has_every_check_once_and_the_exit_code_is_1_for_a_violation(
    aiosmtpd: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert probe(aiosmtpd, "--json", "--junit", str(tmp_path / "probe.xml")) == 1
    findings = json.loads(capsys.readouterr().out)
    assert sorted(finding["check"] for finding in findings) == sorted(CHECKS)
    failed = {finding["check"] for finding in findings if finding["outcome"] == "fail"}
    assert failed == {"lf-ends-no-line"}
    assert all(re.match(r"RFC \d+ \d", finding["clause"]) for finding in findings)
    suite = ET.parse(tmp_path / "probe.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == (str(len(CHECKS)), "1")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the checks that were made, in the order in which they began."""
    names: list[str] = []
    judge = run._judge

    async def noted(check: Check, server: Server) -> Judgement:
        names.append(check.name)
        return await judge(check, server)

    monkeypatch.setattr(run, "_judge", noted)
    return names


def test_checks_with_sessions_that_are_named_are_made_alone_and_a_pass_is_0(
    aiosmtpd: str, capsys: pytest.CaptureFixture[str], made: list[str]
):
    assert probe(aiosmtpd, "--check", "helo", "--check", "quit", "--all") == 0
    assert sorted(made) == ["helo", "quit"]
    out = capsys.readouterr().out
    assert "HELO is answered 250 aiosmtpd.test" in out
    assert [name for name in CHECKS if f" {name} " in out] == [name for name in CHECKS if name in ("helo", "quit")]
    assert out.splitlines()[-1] == "2 pass"


def test_a_check_of_all_sessions_that_is_named_is_made_after_those_with_sessions_and_reported_alone(
    aiosmtpd: str, capsys: pytest.CaptureFixture[str], made: list[str]
):
    name = "replies-well-formed"
    assert CHECKS[name].last
    assert probe(aiosmtpd, "--check", name, "--all") == 0
    assert sorted(made[:-1]) == sorted(one.name for one in CHECKS.values() if not one.last)
    assert made[-1] == name
    out = capsys.readouterr().out
    assert [one for one in CHECKS if f" {one} " in out] == [name]
    assert out.splitlines()[-1] == "1 pass"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mail.example.com:25",), "mail.example.com is not this machine; with --allow-hosts mail.example.com"),
        (("192.0.2.1:25", "--allow-hosts", "192.0.2.2"), "192.0.2.1 is not this machine"),
        (("127.0.0.1",), "'127.0.0.1' is not HOST:PORT"),
        (("127.0.0.1:70000",), "is not HOST:PORT"),
        (("127.0.0.1:25", "--check", "hello"), "no check 'hello' (did you mean 'helo'?)"),
        (("127.0.0.1:25", "--junit", "/no/such/folder/probe.xml"), "there is no folder /no/such/folder"),
        (("127.0.0.1:25", "--rcpt", "a@b>\r\nRSET"), "is not an address"),
    ],
)
def test_what_cannot_be_asked_for_is_2(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]):
    assert probe(*arguments) == 2
    assert message in capsys.readouterr().err


def test_a_permitted_host_is_dialled(capsys: pytest.CaptureFixture[str]):
    """0.0.0.0 is not an address of the loopback, and on Linux it leads to this machine."""
    with lines_server(b"554 mx.test no mail here\r\n", closes=True) as where:
        there = where.replace("127.0.0.1", "0.0.0.0")
        assert probe(there, "--check", "replies-well-formed") == 2
        assert probe(there, "--check", "replies-well-formed", "--allow-hosts", "a,0.0.0.0") == 0
    assert "1 pass" in capsys.readouterr().out


def test_no_server_is_3(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert probe(f"127.0.0.1:{port}") == 3
    assert "no connection to 127.0.0.1" in capsys.readouterr().err


def test_a_silent_server_is_inconclusive_within_the_time(capsys: pytest.CaptureFixture[str]):
    with lines_server(b"", closes=False) as where:
        began = time.monotonic()
        assert probe(where, "--timeout", "2") == 3
    assert time.monotonic() - began < 3
    out = capsys.readouterr().out
    assert re.search(r"\d+ inconclusive", out.splitlines()[-1])
    assert " pass" not in out


def test_a_server_that_refuses_everyone_gives_four_checks_an_occasion_and_passes_them(
    capsys: pytest.CaptureFixture[str],
):
    with lines_server(b"554 mx.test no mail here\r\n", closes=True) as where:
        assert probe(where, "--timeout", "4", "--json") == 0
    outcomes = {f["check"]: f["outcome"] for f in json.loads(capsys.readouterr().out)}
    assert outcomes.pop("replies-well-formed") == "pass"
    assert set(outcomes.values()) == {"not-applicable", "pass"}
    assert {check for check, outcome in outcomes.items() if outcome == "pass"} == {
        "reply-codes-in-range",
        "one-reply-for-each-command",
        "closes-after-221-or-421-only",
    }


def test_a_hostile_greeting_does_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]):
    with lines_server(b"220 \x1b[2J\x9b2J\x07\xff[red]\r\n", closes=True) as where:
        assert probe(where, "--timeout", "2", "--check", "greeting-names-the-host") == 1
        said = capsys.readouterr()
        assert probe(where, "--timeout", "2", "--check", "greeting-names-the-host", "--json") == 1
    assert r"220 \x1b[2J\x9b2J\x07\xff[red]" in said.out
    in_json = capsys.readouterr()
    assert "[2J" in in_json.out
    shown = said.out + said.err + in_json.out + in_json.err
    assert [character for character in shown if not character.isprintable() and character != "\n"] == []


@pytest.mark.integration
def test_the_reference_is_probed_within_ten_seconds(mail_node, capsys: pytest.CaptureFixture[str]):
    node: MailNode = mail_node("exec:reference")
    began = time.monotonic()
    probe(f"{node.host}:{node.port}", "--json")
    assert time.monotonic() - began < 10
    findings = {finding["check"]: finding["outcome"] for finding in json.loads(capsys.readouterr().out)}
    # aiosmtpd, which reads the reference's lines, ends a line at a bare LF.
    assert {check for check, outcome in findings.items() if outcome in ("fail", "warn")} == {"lf-ends-no-line"}
    assert "inconclusive" not in findings.values()


@pytest.mark.integration
def test_mail_for_the_recipient_of_the_option_rcpt_comes_back_to_the_sink(
    mail_node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    came: set[str] = set()
    deliver = ProbeSink.deliver

    def noted(sink: ProbeSink, port: int, sender: str, recipients: list[str], content: bytes) -> list[str]:
        came.update(recipients)
        return deliver(sink, port, sender, recipients, content)

    monkeypatch.setattr(ProbeSink, "deliver", noted)
    node: MailNode = mail_node("exec:reference")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    node.next_hop.connect_to("127.0.0.1", port)
    probe(f"{node.host}:{node.port}", "--json", "--rcpt", "victor@outside.test", "--sink", str(port))
    findings = {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)}
    for check in ("message-ends-at-crlf-dot-crlf-only", "relays-one-message", "arrives-once", "content-unchanged"):
        assert findings[check]["outcome"] == "pass", findings[check]["sentence"]
    assert came == {"victor@outside.test"}


def test_a_sink_without_a_recipient_or_at_a_taken_port_is_2(aiosmtpd: str, capsys: pytest.CaptureFixture[str]):
    assert probe(aiosmtpd, "--sink", "2526") == 2
    assert "--sink has no use without --rcpt" in capsys.readouterr().err
    assert probe(aiosmtpd, "--rcpt", "a@b.test", "--sink", aiosmtpd.rpartition(":")[2]) == 2
    assert "Address already in use" in capsys.readouterr().err
