"""docs/listening.md: its commands are run with a client that connects, and its tables name what there is."""

import re
import shlex
import signal
import smtplib
import subprocess
from pathlib import Path

import pytest

from conformance.listen.behaviours import parse_behaviour
from conformance.listen.checks import judge_client
from conformance.listen.record import ListenRecord
from tests.docs.pages import ROOT, commands
from tests.suite.helpers import command, environment

PAGE = ROOT / "docs" / "listening.md"
TEXT = PAGE.read_text("utf-8")
ADDRESSES = TEXT.partition("## Addresses")[2].partition("## What is judged")[0]
JUDGED = TEXT.partition("## What is judged")[2].partition("## What it finds")[0]


@pytest.mark.integration
@pytest.mark.parametrize("words", [shlex.split(line.text) for line in commands(PAGE)], ids=" ".join)
def test_its_commands_end_with_0_for_an_orderly_client(words: list[str], tmp_path: Path):
    numbers = [word for word in words if word.isdecimal()] or ["listen"]
    given = [*words[1:2], "0", *[word for word in words[2:] if word not in numbers]]
    process = subprocess.Popen(
        command(*given), cwd=tmp_path, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        stream = process.stderr if "--json" in words else process.stdout
        assert stream is not None
        if "--list" not in words:
            found = re.search(r"listening on 127\.0\.0\.1:(\d+)", stream.readline())
            assert found
            with smtplib.SMTP("127.0.0.1", int(found[1]), local_hostname="a.test") as session:
                session.sendmail("a@a.test", ["alice@b.test"], "Subject: x\r\n\r\nx\r\n")
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, out + err
    assert ("--junit" in words) == (tmp_path / "listen.xml").exists()


def test_it_names_every_check():
    rows = re.findall(r"^\| ((?:`[^|]+)) \| RFC", JUDGED, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)]
    assert sorted(named) == sorted(found.check for found in judge_client(ListenRecord()))


def test_every_clause_is_that_of_the_check():
    """A row has a clause for each of its checks, or one for all of them; the timeouts have those of a range."""
    stated: dict[str, str] = {}
    for checks, rfc, places in re.findall(r"^\| (`[^|]+) \| (RFC \d+) ?([^|]*?) \|", JUDGED, re.MULTILINE):
        names = re.findall(r"`([a-z0-9-]+)`", checks)
        first, _, last = places.partition(" to ")
        base, _, number = first.rpartition(".")
        clauses = [f"{base}.{int(number) + n}" for n in range(len(names))] if last else places.split(", ")
        assert not last or clauses[-1] == last
        clauses *= len(names) if len(clauses) == 1 else 1
        stated |= {name: f"{rfc} {clause}".strip() for name, clause in zip(names, clauses, strict=True)}
    assert stated == {found.check: found.clause for found in judge_client(ListenRecord())}


def test_every_behaviour_that_it_shows_is_one():
    rows = re.findall(r"^\| (`[^|]+`) \|", ADDRESSES, re.MULTILINE)
    shown = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(shown) > 10
    in_sentences = re.findall(r"`([\w+-]+)@[^`]*`", TEXT)
    assert "rcpt-451+1" in in_sentences
    shown += in_sentences
    assert [name for name in shown if parse_behaviour(f"{name}@b.test") is None] == []
