"""Real servers are probed within ten seconds, and nothing is found in them that was not confirmed by hand (docs/probing.md)."""

import json
import time

import pytest

from conformance.cli import main
from conformance.testing import MailNode
from tests.docs.pages import ROOT

pytest_plugins = ["conformance.fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.slow]  # a server that is not installed is downloaded

CONFIRMED = {
    "postfix": {
        "fail lf-ends-no-line",
        "fail enhanced-codes-everywhere",
        "warn auth-unknown-mechanism",
        "warn help",
    },
    "exim": {
        "fail bdat-of-no-octets",
        "fail closes-after-221-or-421-only",
        "fail lf-ends-no-line",
        "fail over-long-line",
        "warn eight-bit-command",
        "warn unknown-parameter",
    },
    "sendmail": {
        "fail announced-commands-work",
        "fail lf-ends-no-line",
        "fail path-of-256-octets",
        "warn arguments-where-none-are",
        "warn eight-bit-command",
        "warn help",
    },
    "opensmtpd": {
        "fail dsn",
        "fail ehlo-again-resets",
        "fail vrfy",
        "warn arguments-where-none-are",
        "warn commands-before-ehlo",
        "warn noop-ignores-its-argument",
        "warn size-parameter",
        "warn trailing-space",
        "warn unknown-parameter",
    },
    "haraka": {
        "fail auth-cancelled",
        "fail lf-ends-no-line",
        "fail malformed-mail",
        "fail starttls-has-no-argument",
        "fail unknown-parameter",
        "warn 8bitmime",
        "warn auth-unknown-mechanism",
        "warn eight-bit-command",
        "warn malformed-rcpt",
    },
}
"""Server -> what was confirmed in it."""


def violations_on_the_page(server: str) -> set[str]:
    """Return `fail CHECK` for each check that the page has in its rows about a server."""
    lines = (ROOT / "docs" / "probing.md").read_text("utf-8").splitlines()
    rows = [line.split("|") for line in lines if line.startswith("|")]
    return {f"fail {check}" for row in rows if server in row[1].casefold() for check in row[2].split("`")[1::2]}


@pytest.mark.parametrize("server", CONFIRMED)
def test_a_server_has_the_confirmed_findings_and_no_other(server: str, mail_node, capsys: pytest.CaptureFixture[str]):
    confirmed = CONFIRMED[server]
    assert {finding for finding in confirmed if finding.startswith("fail ")} <= violations_on_the_page(server)
    node: MailNode = mail_node(server)
    began = time.monotonic()
    with pytest.raises(SystemExit) as left:
        main(["probe", f"{node.host}:{node.port}", "--json"])
    assert time.monotonic() - began < 10
    findings = json.loads(capsys.readouterr().out)
    attention = {f"{f['outcome']} {f['check']}" for f in findings if f["outcome"] not in ("pass", "not-applicable")}
    assert attention == confirmed, [f["sentence"] for f in findings if f["outcome"] == "inconclusive"]
    assert left.value.code == 1
