"""`conformance listen`, as a user runs it: output, signals, exit codes, JSON, JUnit."""

import json
import re
import signal
import smtplib
import socket
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from conformance.faults import FAULTS
from conformance.listen.checks import judge_client
from conformance.listen.record import ListenRecord
from tests.suite.helpers import command, conformance_command, environment

pytestmark = pytest.mark.integration

LETTER = "Subject: x\r\nMessage-ID: <1@a.test>\r\n\r\n.dot\r\n"


@contextmanager
def listener(*options: str, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the command on a free port; yield the process and the port. It prints sessions to stderr with --json, else to stdout."""
    process = subprocess.Popen(
        command("listen", "0", *options),
        cwd=cwd,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        stream = process.stderr if "--json" in options else process.stdout
        assert stream is not None
        first = stream.readline()
        found = re.search(r"listening on [\d.]+:(\d+)", first)
        assert found, first
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


def send(port: int, *recipients: str, timeout: float = 20) -> None:
    """Send a message with smtplib, and let its exceptions pass."""
    with smtplib.SMTP("127.0.0.1", port, local_hostname="a.test", timeout=timeout) as session:
        session.sendmail("a@a.test", recipients, LETTER)


def test_sessions_are_printed_and_ctrl_c_ends_with_the_judgement(tmp_path: Path):
    with listener(cwd=tmp_path) as (process, port):
        send(port, "alice@b.test")
        with smtplib.SMTP("127.0.0.1", port, timeout=20) as second:
            second.ehlo()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 0, out + err
    assert err == ""
    assert re.search(r"\d+\.\d{3}  s1   C: mail FROM:<a@a.test>", out)
    assert "s1   S: 250 2.0.0 delivered" in out
    assert "s2   C: QUIT" in out
    assert re.search(r"^\d+ pass, \d+ not-applicable\n\Z", out, re.MULTILINE)


def test_a_violation_exits_with_1_and_names_clause_and_session(tmp_path: Path):
    with listener("--junit", "listen.xml", cwd=tmp_path) as (process, port):
        for _ in range(2):
            send(port, "alice@b.test")
        process.terminate()
        out, err = process.communicate(timeout=20)
    assert process.returncode == 1, out + err
    assert "✗ fail  s2  arrives-once  RFC 5321 4.5.4.1" in out
    suite = ET.parse(tmp_path / "listen.xml").getroot()
    assert suite.get("failures") == "1"
    assert suite.find("testcase[@name='arrives-once']/failure") is not None


def test_json_has_each_check_with_the_session_that_shows_it(tmp_path: Path):
    with listener("--json", cwd=tmp_path) as (process, port):
        with smtplib.SMTP("127.0.0.1", port, timeout=20) as first:
            first.ehlo()
        with pytest.raises(smtplib.SMTPServerDisconnected):
            send(port, "silent@b.test", timeout=0.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 3
    findings = {found["check"]: found for found in json.loads(out)}
    assert list(findings) == [found.check for found in judge_client(ListenRecord())]
    found = findings["dot-timeout"]
    assert (found["clause"], found["outcome"], found["session"]) == ("RFC 5321 4.5.3.2.6", "warn", "s2")
    assert any("stall after dot" in line for line in found["transcript"])
    assert findings["lost-reply"]["requirement"] == "RL-ACK-03"
    assert findings["lost-reply"]["outcome"] == "inconclusive"
    assert {"check", "requirement", "clause", "outcome", "sentence"} == set(findings["pipelining"])


def test_for_ends_the_listening_with_3_where_nobody_has_connected(tmp_path: Path):
    done = conformance_command("listen", "0", "--for", "300ms", cwd=tmp_path)
    assert done.returncode == 3
    assert "no client has connected" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--host", "0.0.0.0"), "--allow-hosts 0.0.0.0 permits it"),
        (("--host", "0.0.0.0", "--allow-hosts", "192.0.2.1"), "--allow-hosts 0.0.0.0 permits it"),
        (("--for", "soon"), "not a valid duration"),
        (("--junit", "missing/listen.xml"), "there is no folder missing"),
        (("70000",), "65535"),
        (("0", "--host", "192.0.2.1", "--allow-hosts", "192.0.2.1"), "192.0.2.1:0"),
    ],
)
def test_what_cannot_be_done_exits_with_2_and_the_reason(tmp_path: Path, words: tuple[str, ...], message: str):
    done = conformance_command("listen", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        done = conformance_command("listen", str(port), cwd=tmp_path)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}" in done.stderr


def test_another_address_is_used_where_it_is_allowed(tmp_path: Path):
    """A server on 127.0.0.1 would not be reached at 127.0.0.2."""
    with (
        listener("--host", "0.0.0.0", "--allow-hosts", "0.0.0.0", cwd=tmp_path) as (_, port),
        smtplib.SMTP("127.0.0.2", port, timeout=20) as session,
    ):
        assert session.ehlo()[0] == 250


def test_a_reader_that_has_ended_ends_the_listening(tmp_path: Path):
    with listener(cwd=tmp_path) as (process, port):
        assert process.stdout is not None
        process.stdout.close()
        with suppress(smtplib.SMTPException, OSError):  # its session ends with the listening
            send(port, "alice@b.test")
        assert process.wait(20) in (0, 3)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        process.stdout = None


def test_list_prints_the_language_of_addresses(tmp_path: Path):
    done = conformance_command("listen", "--list", cwd=tmp_path)
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    words = ("PLACE-CODE", "ehlo-250", "silent[-PLACE]", "PLACE: connect", "WHEN: before", "-x3", "-always", "+any")
    assert [word for word in words if word not in text] == []
    asked_otherwise = ("replace", "answer")  # by a code, as in rcpt-451
    assert [name for name, kind in FAULTS.items() if kind.about not in text and name not in asked_otherwise] == []
