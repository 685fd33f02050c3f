"""Runs of the command line in a folder of their own, as a user would start them."""

import os
import subprocess
import sys
from pathlib import Path

import conformance
from tests import markers

ROOT = Path(__file__).parents[2]
"""The repository."""


def command(*arguments: str) -> list[str]:
    """Return the command's words."""
    return [sys.executable, "-m", "conformance", *arguments]


def environment() -> dict[str, str]:
    """Return an environment in which the package is found, installed or not, and output is plain."""
    plain = {"PYTHONPATH": str(Path(conformance.__file__).parents[1]), "COLUMNS": "200", "NO_COLOR": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    return {**kept, **plain}


def conformance_command(
    *arguments: str, cwd: Path, timeout: float = 240, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `conformance ARGUMENTS` to its end, with these environment variables added to its own.

    `timeout` (seconds) only bounds a test that has failed already. A test whose cells run under a scaled clock must be
    marked `timed`: beside other tests a cell is late now and then, and then it is inconclusive.
    """
    completed = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )
    ran_cells = completed.returncode in (0, 1, 3)
    assert not (ran_cells and "scaled" in arguments) or markers.timed, "mark this test as timed"
    return completed
