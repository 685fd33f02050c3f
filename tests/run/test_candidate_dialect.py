"""A server that spells every shadow verb differently is judged as any other if its description has its dialect."""

import re
import shutil
from pathlib import Path

import pytest

from conformance.history.events import FaultFired
from conformance.results.reader import read_run
from tests.docs.pages import ROOT
from tests.suite.helpers import conformance_command

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("cc") is None, reason="--clock shifted needs a C compiler"),
]

EXAMPLE = ROOT / "examples" / "minimal-shadow-node"
PAGE = (ROOT / "docs" / "testing-your-server.md").read_text("utf-8")
(DIALECT,) = re.findall(r"^```yaml\n(dialect:\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

SPELLED = {
    "session.py": {"XSHADOWREQUEST": "MIRROR", "XQDISCARD": "SETTLED", "XSHADOW": "MIRRORED"},
    "primary.py": {
        "XSHADOWREQUEST": "MIRROR",
        "XSHADOW": "MIRRORED",
        "2.0.0 database {": "2.0.0 journal {",
        "2.0.0 discard {": "2.0.0 drop {",
        "2.0.0 end {": "2.0.0 remaining {",
    },
    "shadow.py": {"XQDISCARD": "SETTLED"},
}

HUB = r"""
name: hub
kind: exec
contract: 2
claims: [relay, dsn, shadow-2010, delayed-acknowledgement, inspect]
generations: [ex2010]
argv: ["{python}", "{here}/spelled.py", --config, "{config}"]
commands: {inspect: ["{python}", "{here}/spelled.py", --config, "{config}", inspect]}
"""

HUBS_DIALECT = r"""
dialect:
  name: hubs
  keywords: {follow: XSHADOW}
  verbs: {follow: XSHADOW, due: XQDISCARD, stilldue: XQUERYDISCARD}
  commands:
    - {operation: track-shadow, pattern: '^FOLLOW (?P<server>\S+) (?P<database>\S+)$'}
    - {operation: shadow-message, pattern: '^MAIL FROM:.* FOLLOW=(?P<shadow_id>[A-Za-z0-9-]+)'}
    - {operation: query-discard, pattern: '^(?:STILL)?DUE (?P<server>\S+) (?P<limit>\d+)$'}
  replies:
    - {operation: track-shadow, to: track-shadow, patterns: ['^2\.0\.0 (?P<server>\S+) (?P<database>\S+)$']}
    - operation: discard-list
      to: query-discard
      patterns:
        - '^2\.0\.0 ledger (?P<database>\S+)$'
        - '^2\.0\.0 forget (?P<shadow_id>\S+)$'
        - '^2\.0\.0 more (?P<left>\d+)$'
"""

HUBS_WORDS = {
    r"XQUERYDISCARD": "STILLDUE", r"XQDISCARD": "DUE", r"XSHADOW(?!REQUEST)": "FOLLOW",
    r'2\.0\.0 database': "2.0.0 ledger", r'2\.0\.0 discard': "2.0.0 forget", r'2\.0\.0 end': "2.0.0 more",
    r"database\|discard\|end": "ledger|forget|more",
    r'word == "database"': 'word == "ledger"', r'word == "discard"': 'word == "forget"', r'word == "end"': 'word == "more"',
}  # fmt: skip


@pytest.fixture
def description(tmp_path: Path) -> Path:
    """Copy the example node, with every verb and every line of a reply spelled differently; return its description."""
    shutil.copytree(EXAMPLE, tmp_path / "node")
    for name, words in SPELLED.items():
        text = (tmp_path / "node" / name).read_text("utf-8")
        for word, other in words.items():
            assert word in text
            text = text.replace(word, other)
        (tmp_path / "node" / name).write_text(text, "utf-8")
    return tmp_path / "node" / "minimal.yaml"


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """Copy the reference as a hub of 2010 that spells everything differently; return its description."""
    shutil.copytree(ROOT / "conformance", tmp_path / "hub" / "conformance")
    unseen = set(HUBS_WORDS)
    for path in (tmp_path / "hub" / "conformance" / "reference").rglob("*.py"):
        text = path.read_text("utf-8")
        for word, other in HUBS_WORDS.items():
            text, count = re.subn(word, other, text)
            unseen -= {word} if count else set()
        path.write_text(text, "utf-8")
    assert unseen == set()
    (tmp_path / "hub" / "spelled.py").write_text(
        "import runpy\nrunpy.run_module('conformance.reference', run_name='__main__', alter_sys=True)\n", "utf-8"
    )
    (tmp_path / "hub" / "hub.yaml").write_text(HUB, "utf-8")
    return tmp_path / "hub" / "hub.yaml"


def run_scenarios(description: Path, *scenarios: str) -> str:
    """Run scenarios with a candidate on the shifted clock; return what the command printed."""
    words = [word for scenario in scenarios for word in ("--only", scenario)]
    where = ("--run-dir", str(description.parent / "run"), "--fresh")
    return conformance_command(
        "run", "--candidate", str(description), "--clock", "shifted", *words, *where, cwd=ROOT
    ).stdout


def fired_at_verbs(description: Path) -> set[str]:
    """Return what the last run's faults fired at: the fault, the verb in the harness's words, the line without its last word."""
    events = (event for cell in read_run(description.parent / "run").cells() for event in cell.events)
    fired = (f"{one.fault} {one.detail.rpartition(' ')[0]}" for one in events if isinstance(one, FaultFired))
    return {text for text in fired if " dot: " not in text}


@pytest.mark.long
def test_a_server_with_its_dialect_passes_and_faults_fire_at_its_verbs(description: Path):
    description.write_text(description.read_text("utf-8") + DIALECT, "utf-8")
    cells = (
        "inbound-acknowledgement-waits-for-the-shadow",
        "an-answer-that-was-lost-is-told-again[lost-by=drop]",
        "xshadowrequest-is-offered-where-it-may-be",  # in conversations that say nothing but EHLO
        "refused-by-the-shadow-server[answer=554 5.6.0 never,at=XSHADOWREQUEST,reject=no]",
    )
    said = run_scenarios(description, *cells, "malformed-shadow-verbs")
    assert "4 pass, 1 not applicable" in said, said
    assert fired_at_verbs(description) == {
        "lost-answer after XQDISCARD: 250 2.0.0 journal", "unwilling before XSHADOWREQUEST: MIRROR mbx1",
    }  # fmt: skip


@pytest.mark.long
def test_a_server_without_its_dialect_fails_for_want_of_a_shadow(description: Path):
    said = run_scenarios(description, "inbound-acknowledgement-waits-for-the-shadow")
    assert "1 failed" in said, said
    assert (
        "SR-CRE-01: expected a shadow copy of each message of m on mbx2, before acknowledgement; seen: m#1" in said
    ), said
    assert "no server had stored one" in said, said


@pytest.mark.long
def test_a_hub_of_2010_with_its_dialect_passes_and_faults_fire_at_its_verbs(hub: Path):
    hub.write_text(hub.read_text("utf-8") + HUBS_DIALECT, "utf-8")
    cells = (
        "no-right-to-send-it",  # what is offered, and which verb is used how often
        "a-lost-answer-of-a-2010-primary-is-told-again[lost-by=drop]",
        "a-silent-primary-is-left-and-the-message-goes-on[idle-limit=2m,silent-from=XSHADOW]",
    )
    said = run_scenarios(hub, *cells, "no-delay-for-who-keeps-a-shadow[tracks=yes]")
    assert "3 pass, 1 not applicable" in said, said
    assert "remark" not in said, said
    assert fired_at_verbs(hub) == {
        "lost-answer after XQDISCARD: 250 2.0.0 ledger", "silence before XSHADOW: FOLLOW hub1",
    }  # fmt: skip
