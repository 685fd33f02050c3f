"""Stored cells to export: a relay whose sessions break, a conversation, and a server with a defect."""

import shutil
from pathlib import Path

import pytest

from conformance.results.reader import StoredCell, read_run
from tests.report.conftest import unavailable
from tests.suite.helpers import ROOT, conformance_command

SCENARIOS = [
    "scenarios/relay/losses.scenario.yaml", "scenarios/wire/shadow-verbs.scenario.yaml",
    "scenarios/creation/inbound.scenario.yaml",
]  # fmt: skip
DEFECT = "reference+acknowledges-before-shadow"


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run three files of scenarios with the reference and with one of its defects; return the run directory."""
    run = tmp_path_factory.mktemp("exported") / "run"
    ran = conformance_command(
        "run", *SCENARIOS, "--candidate", "reference", "--candidate", DEFECT, "--run-dir", str(run), cwd=ROOT
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return run


@pytest.fixture(scope="session")
def cells(run_dir: Path) -> list[StoredCell]:
    """Return all cells of the run."""
    stored = list(read_run(run_dir).cells())
    assert stored
    return stored


@pytest.fixture(scope="session")
def tshark() -> str:
    """Return the path of tshark; skip the test where it is not installed."""
    found = shutil.which("tshark")
    if found is None:
        unavailable("tshark: .ci/programs installs it")
    assert found is not None
    return found
