"""Real clients and relays: each verdict here was compared by hand with the session and the text of the RFC."""

import os
import shutil
import smtplib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.lookup import find_candidate
from conformance.testing import MailNodes
from tests.listen.listening import Listening, listening

pytestmark = pytest.mark.integration

LETTER = "Subject: x\r\nMessage-ID: <%s@app.test>\r\n\r\n.dot\r\n..\r\n"


@pytest.fixture
def listener():
    with listening(held_back=0.1) as running:
        yield running


def send(host: str, port: int, *recipients: str, timeout: float = 20.0) -> None:
    """Send a message with smtplib."""
    with smtplib.SMTP(host, port, local_hostname="app.test", timeout=timeout) as session:
        session.sendmail("app@app.test", recipients, LETTER % recipients[0].partition("@")[0])


def test_smtplib_fails_no_check_and_gives_up_when_it_is_told_to(listener: Listening):
    def attempt(*recipients: str, timeout: float = 20.0) -> None:
        try:
            send(listener.host, listener.port, *recipients, timeout=timeout)
        except (smtplib.SMTPException, OSError):
            return

    attempt("alice@b.test", "rcpt-450@b.test")
    attempt("rcpt-550@b.test")
    attempt("silent@b.test", timeout=0.5)
    attempt("ehlo-502@b.test")
    attempt("bob@b.test")
    outcomes = listener.outcomes()
    assert [name for name, outcome in outcomes.items() if outcome == "fail"] == []
    assert [name for name, outcome in outcomes.items() if outcome == "warn"] == ["dot-timeout"]
    assert {"retry", "lost-reply"} == {name for name, outcome in outcomes.items() if outcome == "inconclusive"}
    assert {"command-syntax", "parameters", "dot-stuffing", "helo-fallback", "reply-wait", "pipelining", "quit", "quit-wait",
            "no-retry-after-5yz", "arrives-once"} <= set(outcomes)  # fmt: skip


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.parametrize("relay", [pytest.param("exim", marks=pytest.mark.slow), "postfix"])
def test_a_relay_tries_again_what_was_deferred_and_nothing_else(listener: Listening, tmp_path: Path, relay: str):
    missing = find_candidate(relay, paths.fixtures() / "candidates").check_availability().missing
    if missing:
        pytest.skip(missing)
    nodes = MailNodes(tmp_path)
    try:
        node = nodes.start(relay, next_hop=(listener.host, listener.port), transport={"MessageRetryInterval": 4})
        for recipients in (
            ["rcpt-451@b.test"],
            ["alice@b.test", "rcpt-450@b.test"],
            ["drop-heard-dot@b.test"],
            ["dot-550@b.test"],
        ):
            send(node.host, node.port, *recipients)
        for accepted in ("rcpt-451@b.test", "rcpt-450@b.test", "drop-heard-dot@b.test"):
            listener.wait_for(f"{accepted} is accepted", within=60)
        found = listener.findings()  # before the relay is stopped, which ends its sessions
    finally:
        nodes.close()
    assert [name for name, one in found.items() if one.outcome == "fail"] == []
    for check in (
        "retry",
        "lost-reply",
        "retry-delay",
        "no-retry-after-5yz",
        "arrives-once",
        "pipelining",
        "dot-stuffing",
    ):
        assert str(found[check].outcome) == "pass", found[check]
    assert str(found["retry-interval"].outcome) == "warn"  # that of this test is short


MSMTP = Path("~/.cache/smtp-conformance/candidates/msmtp").expanduser()
NODEMAILER = Path("~/.cache/smtp-conformance/candidates/nodemailer/node_modules/nodemailer").expanduser()
_NODEMAILER_PROGRAM = """
const [module, port, to] = process.argv.slice(1)
const transport = require(module).createTransport({ host: '127.0.0.1', port: +port, secure: false, ignoreTLS: true })
transport.sendMail({ from: 'a@app.test', to, subject: 'x', text: '.dot' }, () => {})
"""


def with_msmtp(port: int, to: str) -> None:
    program = MSMTP / "usr" / "bin" / "msmtp"
    libraries = next((MSMTP / "usr" / "lib").glob("*-linux-gnu"))
    command = [str(program), "--host=127.0.0.1", f"--port={port}", "--from=a@app.test", to]
    letter = "Subject: x\n\nä\n".encode()
    subprocess.run(
        command, input=letter, env=os.environ | {"LD_LIBRARY_PATH": str(libraries)}, capture_output=True, check=False
    )


def with_nodemailer(port: int, to: str) -> None:
    subprocess.run(["node", "-e", _NODEMAILER_PROGRAM, str(NODEMAILER), str(port), to], capture_output=True, check=True)


def with_swaks(port: int, to: str) -> None:
    command = ["swaks", "--server", f"127.0.0.1:{port}", "--from", "a@app.test", "--to", to, "--helo", "app.test"]
    subprocess.run(command, capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "present", "failed"),
    [
        (with_nodemailer, NODEMAILER.exists(), {"quit", "command-syntax"}),  # closes without QUIT; HELO [127.0.0.1]
        (with_msmtp, MSMTP.exists(), {"quit", "eight-bit-content"}),  # no QUIT after a refusal; no BODY=8BITMIME
        (with_swaks, shutil.which("swaks") is not None, set()),
    ],
)
def test_other_clients_fail_the_confirmed_checks_and_no_other(
    listener: Listening, client: Callable[[int, str], None], present: bool, failed: set[str]
) -> None:
    if not present:
        pytest.skip("not installed")
    for to in ("alice@b.test", "rcpt-451@b.test", "ehlo-502@b.test", "bob@b.test"):
        client(listener.port, to)
    found = listener.findings()
    assert str(found["arrives-once"].outcome) == "pass", "the message for alice was accepted"
    assert {name for name, one in found.items() if one.outcome == "fail"} == failed
