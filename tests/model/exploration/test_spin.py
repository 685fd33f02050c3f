"""Spin counts as many reachable states with servers.pml, a second model that shares no code with the first."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.model.exploration.scope import SCOPES, THREE_SERVERS, TWO_MESSAGES, Scope
from conformance.model.exploration.search import Model
from tests.report.conftest import unavailable

MODEL = Path(__file__).with_name("servers.pml")
SLOTS = 7
"""More custodies than a message has in any of these scopes."""

SMALL = [s for s in SCOPES if s.name in ("two-servers", "two-disks") and s.messages == ("outside",)]


def counted_by_spin(scope: Scope, folder: Path) -> int:
    """Return the number of states that Spin stores. Skip the test where Spin or a C compiler is not installed."""
    for program in ("spin", "gcc"):
        if shutil.which(program) is None:
            unavailable(f"{program}: .ci/programs installs it")
    values = {
        "SERVERS": scope.servers,
        "MESSAGES": len(scope.messages),
        "CRASHES": scope.crashes,
        "DATABASES": scope.databases,
        "REPLIES": scope.replies,
        "MANDATORY": int(scope.mandatory),
        "MAILBOX0": int(scope.messages[0] == "mailbox"),
        "MAILBOX1": int(scope.messages[-1] == "mailbox"),
        "SLOTS": SLOTS,
    }
    defined = [f"-D{name}={value}" for name, value in values.items()]
    (folder / MODEL.name).write_bytes(MODEL.read_bytes())
    run(folder, "spin", "-a", *defined, MODEL.name)
    run(folder, "gcc", "-O2", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c")
    report = run(folder, "./pan", "-E", "-m200000", "-w24")
    assert "errors: 0" in report
    assert "search depth too small" not in report
    stored = re.search(r"(\d+) states, stored", report)
    assert stored, report
    return int(stored[1])


def run(folder: Path, *words: str) -> str:
    """Run a program in a folder, and return what it printed. An exit code other than 0 fails the test."""
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=1500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize(
    "scope", SMALL, ids=lambda scope: f"{scope.name}-{'mandatory' if scope.mandatory else 'default'}"
)
def test_spin_counts_the_states_of_a_small_scope(scope: Scope, tmp_path: Path):
    assert counted_by_spin(scope, tmp_path) == Model(scope).size().states


@pytest.mark.long
@pytest.mark.integration
def test_spin_counts_the_states_of_three_servers(tmp_path: Path):
    assert counted_by_spin(THREE_SERVERS, tmp_path) == Model(THREE_SERVERS).size().states


@pytest.mark.slow
@pytest.mark.integration
def test_spin_counts_the_states_of_two_messages(tmp_path: Path):
    """Compare with docs/failure-analysis.md, whose number another test computes."""
    page = (Path(__file__).parents[3] / "docs" / "failure-analysis.md").read_text("utf-8")
    line = next(line for line in page.splitlines() if line.startswith(f"| {TWO_MESSAGES.name} |"))
    assert f"| {counted_by_spin(TWO_MESSAGES, tmp_path):,} |" in line
