"""A server that spells every shadow verb differently is judged as any other, once its description has its dialect."""

import re
import shutil
from pathlib import Path

import pytest

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


@pytest.fixture
def description(tmp_path: Path) -> Path:
    """A copy of the example node in which every verb and every line of a reply is spelled differently."""
    shutil.copytree(EXAMPLE, tmp_path / "node")
    for name, words in SPELLED.items():
        text = (tmp_path / "node" / name).read_text("utf-8")
        for word, other in words.items():
            assert word in text
            text = text.replace(word, other)
        (tmp_path / "node" / name).write_text(text, "utf-8")
    return tmp_path / "node" / "minimal.yaml"


def ran(description: Path, *scenarios: str) -> str:
    words = [word for scenario in scenarios for word in ("--only", scenario)]
    where = ("--run-dir", str(description.parent / "run"), "--fresh")
    return conformance_command(
        "run", "--candidate", str(description), "--clock", "shifted", *words, *where, cwd=ROOT
    ).stdout


def test_with_its_dialect_it_passes_and_faults_meet_its_verbs(description: Path):
    description.write_text(description.read_text("utf-8") + DIALECT, "utf-8")
    cells = ("inbound-acknowledgement-waits-for-the-shadow", "an-answer-that-was-lost-is-told-again[lost-by=drop]")
    said = ran(description, *cells, "malformed-shadow-verbs")
    assert "2 pass, 1 not applicable" in said, said


def test_without_it_no_copy_is_seen(description: Path):
    said = ran(description, "inbound-acknowledgement-waits-for-the-shadow")
    assert "1 failed" in said, said
