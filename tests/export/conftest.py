"""Stored cells to be exported: of a relay whose sessions break, of a conversation, of a server that is wrong."""

from pathlib import Path

import pytest

from conformance.results.reader import StoredCell, read_run
from tests.suite.helpers import ROOT, conformance_command

WORDS = [
    "scenarios/relay/losses.scenario.yaml", "scenarios/wire/shadow-verbs.scenario.yaml",
    "scenarios/creation/inbound.scenario.yaml",
]  # fmt: skip
DEFECT = "reference+acknowledges-before-shadow"


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run three files of scenarios with the reference and with a defect of it."""
    place = tmp_path_factory.mktemp("exported") / "run"
    ran = conformance_command(
        "run", *WORDS, "--candidate", "reference", "--candidate", DEFECT, "--run-dir", str(place), cwd=ROOT
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return place


@pytest.fixture(scope="session")
def cells(run_dir: Path) -> list[StoredCell]:
    """All cells of the run."""
    return list(read_run(run_dir).cells())
