"""Findings about a live peer: JSON, JUnit, the terminal, the exit code."""

import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.console import Console

from conformance.live_checks import LiveFinding, LiveOutcome, exit_code, json_text, print_findings, write_junit
from tests.docs.pages import ROOT

FINDINGS = [
    LiveFinding("helo", "RFC 5321 3.2", LiveOutcome.PASS, "250 mx.test"),
    LiveFinding(
        "replies", "RFC 5321 4.2", LiveOutcome.FAIL, "a line \x1b[2J without CRLF", "RL-RPL-02", "s1", ("S: 250\0",)
    ),
    LiveFinding("help", "RFC 5321 4.1.1.8", LiveOutcome.WARN, "502 [bold]no[/bold]"),
    LiveFinding("bdat", "RFC 3030 2", LiveOutcome.NOT_APPLICABLE, "CHUNKING is not offered"),
    LiveFinding("rset", "RFC 5321 4.1.1.5", LiveOutcome.INCONCLUSIVE, "silence"),
]


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ("pass warn not-applicable", 0),
        ("pass fail inconclusive", 1),
        ("inconclusive fail warn", 1),
        ("pass inconclusive", 3),
        ("inconclusive warn", 3),
        ("", 3),
    ],
)
def test_the_exit_code_is_that_of_the_worst_finding(outcomes: str, code: int):
    assert exit_code([LiveFinding("a", "RFC 5321", LiveOutcome(word), "") for word in outcomes.split()]) == code


def test_json_has_the_promised_keys_and_the_session_where_there_is_one():
    passed, failed, *others = json.loads(json_text(FINDINGS))
    for name in ("listening.md", "probing.md"):
        (promised,) = re.findall(
            r'`--json` \| print a list of `\{("check".*?)\}`', (ROOT / "docs" / name).read_text("utf-8")
        )
        assert list(passed) == json.loads(f"[{promised}]"), name
    assert all(one.keys() == passed.keys() for one in others)
    assert passed == {
        "check": "helo",
        "requirement": None,
        "clause": "RFC 5321 3.2",
        "outcome": "pass",
        "sentence": "250 mx.test",
    }
    assert failed.keys() == {*passed, "session", "transcript"}
    assert (failed["requirement"], failed["session"], failed["outcome"]) == ("RL-RPL-02", "s1", "fail")
    assert failed["transcript"] == [r"S: 250\x00"]


def test_junit_has_a_case_for_each_finding_with_its_clause(tmp_path: Path):
    write_junit(FINDINGS, "probe 127.0.0.1:25", tmp_path / "probe.xml")
    suite = ET.parse(tmp_path / "probe.xml").getroot()
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "1"]
    clauses = [
        (case.get("name"), {p.get("name"): p.get("value") for p in case.iter("property")}["clause"]) for case in suite
    ]
    assert clauses == [(finding.check, finding.clause) for finding in FINDINGS]
    failed = suite[1]
    assert failed.get("name") == "replies"
    assert {p.get("name"): p.get("value") for p in failed.iter("property")} == {
        "clause": "RFC 5321 4.2",
        "requirement": "RL-RPL-02",
        "session": "s1",
    }
    failure = failed.find("failure")
    assert failure is not None
    assert failure.text == r"S: 250\x00"
    message = failure.get("message")
    assert message == r"a line \x1b[2J without CRLF"


def test_the_terminal_shows_what_needs_attention_with_the_failures_last():
    out = io.StringIO()
    print_findings(FINDINGS, Console(file=out, width=200), everything=False)
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines if not line.startswith(" ")][:-1] == ["inconclusive", "warn", "fail"]
    assert lines[-1] == "1 fail, 1 warn, 1 inconclusive, 1 pass, 1 not-applicable"
    assert "[bold]no[/bold]" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_a_finding_names_a_row_of_the_catalogue_or_none():
    for row in ("RL-RPL-02", None):
        assert LiveFinding("a", "RFC 5321", LiveOutcome.PASS, "", row).requirement == row
    with pytest.raises(ValueError, match="RL-NOT-01"):
        LiveFinding("a", "RFC 5321", LiveOutcome.PASS, "", "RL-NOT-01")
