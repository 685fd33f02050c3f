"""The terminal's text about a violation has everything that is needed to understand and to repeat it."""

import re
import shlex
from pathlib import Path

import pytest

from conformance import paths
from conformance.requirements.catalogue import clause
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration

SCENARIO = paths.corpus() / "creation" / "inbound.scenario.yaml"


@pytest.mark.long
def test_the_failure_names_clause_step_exchange_and_the_command_that_repeats_it(tmp_path: Path):
    ran = conformance_command(
        "run",
        str(SCENARIO),
        "-k",
        "inbound-acknowledgement-waits-for-the-shadow",
        "--candidate",
        "reference+acknowledges-before-shadow",
        "--run-dir",
        "run",
        cwd=tmp_path,
    )
    assert ran.returncode == 1, ran.stdout
    text = ran.stdout
    flat = " ".join(text.split())
    assert clause("SR-CRE-01") in flat, "the clause, in its words and with its source"
    step = re.search(r"inbound\.scenario\.yaml:(\d+)\n +(- .*)\n", text)
    assert step is not None, "the step's line"
    line = SCENARIO.read_text("utf-8").splitlines()[int(step[1]) - 1]
    assert line.strip().startswith(step[2].rstrip("…").strip()[:60]), "the step as it stands in the file"
    marked = re.findall(r"^  > #(\d+) +([\d.]+s) +s\d+ +(.*)$", text, re.MULTILINE)
    assert marked, "the offending exchange is marked, with its event, its moment and its session"
    assert any("outside" in words and " 250 " in words for _, _, words in marked), "the acknowledgement"
    repeat = re.search(r"^  repeat +(conformance run .*)$", text, re.MULTILINE)
    assert repeat is not None
    again = conformance_command(*shlex.split(repeat[1])[1:], "--run-dir", "again", cwd=tmp_path)
    assert again.returncode == 1, again.stdout
    assert "1 failed" in again.stdout, "this one cell and no other"
    assert first_failure(again.stdout) == first_failure(text), "and it fails in the same way"


def first_failure(text: str) -> str:
    """Return the first failure's sentence and exchange, without what names the run."""
    return text[text.index("✗ VIOLATION") : text.index("  repeat ")]
