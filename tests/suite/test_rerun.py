"""A cell that was inconclusive because the harness was late while other cells ran is run once more, alone."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from conformance.results.layout import CELLS_FOLDER, LATE_FOLDER, cell_files
from conformance.results.reader import read_run
from tests.results.stored import plain
from tests.suite.helpers import conformance_command

pytestmark = [pytest.mark.integration, pytest.mark.timed]

LATE_ONCE = """\
import asyncio
import time

from conformance.reference.node import create as reference

nodes = []


def create(*args, **named):
    nodes.append(reference(*args, **named))
    if len(nodes) == 1:
        asyncio.get_running_loop().call_later(0.5, time.sleep, 1.0)
    return nodes[-1]
"""

WRONG = """\
id: wrong
title: What never happens is expected
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
drain: 1m
steps:
  - advance: 2m
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {delivered: {of: m, at: outside, copies: 2, within: 30s}}
"""


REFUSED = """\
id: refused
title: Another refusal is expected than there is, and a delivery that never happens
requirements: [RL-CNT-02]
needs: [relay]
topology:
  name: relay-of-small-messages
  servers: [{name: mta1, site: Main, transport: {MaxMessageSize: 65536}}]
  sinks: [{name: outside, domains: ["*"]}]
  routes: [{domain: "*", next-hops: [outside]}]
drain: 1m
steps:
  - advance: 2m
  - send: {as: m, to: victor@outside.test, via: mta1, size: 80KB}
  - expect: {reply: {of: m, code: 554}}
  - expect: {delivered: {of: m, copies: 1, within: 30s}}
"""
"""The refusal is judged however late the harness was, the delivery is not."""

KNOWN = {
    "candidate": "mine",
    "known": [
        {"scenario": "refused", "check": check, "requirement": "RL-CNT-02", "comment": "it is so in this test"}
        for check in ("expect.reply", "expect.delivered")
    ],
}


def run(folder: Path, scenario: str, *more: str) -> CompletedProcess[str]:
    """Run a scenario with a reference whose first start makes the harness late."""
    (folder / "late_once.py").write_text(LATE_ONCE, "utf-8")
    description = {"name": "mine", "kind": "python", "factory": "late_once:create", "claims": ["relay"]}
    (folder / "mine.yaml").write_text(json.dumps(description), "utf-8")
    (folder / "one.scenario.yaml").write_text(scenario, "utf-8")
    return conformance_command(
        "run", "one.scenario.yaml", "--candidate", "mine.yaml", "--clock", "scaled", "--scale", "60", "--cells", "2",
        "--run-dir", "run", *more, cwd=folder, PYTHONPATH=f"{folder}:{Path(__file__).parents[2]}",
    )  # fmt: skip


def assert_rerun(folder: Path, printed: str) -> None:
    """Assert that the only cell was run again, and that its late first attempt is kept and reported."""
    assert "1 cell was run once more, alone: the harness was late while other cells ran" in printed
    stored = read_run(folder / "run")
    assert stored.footer is not None
    assert list(stored.footer.again) == [cell.header.nodeid for cell in stored.cells([])]
    assert [path.name for path in cell_files(stored.path, LATE_FOLDER)] == [
        path.name for path in cell_files(stored.path, CELLS_FOLDER)
    ]
    assert all('"reason":"late"' in plain(path).decode() for path in cell_files(stored.path, LATE_FOLDER))


@pytest.mark.long
def test_a_cell_made_inconclusive_by_lateness_is_run_again_and_judged(tmp_path: Path):
    done = run(tmp_path, WRONG)
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout
    assert_rerun(tmp_path, done.stdout)


@pytest.mark.long
def test_a_known_failure_made_partly_inconclusive_by_lateness_is_run_again(tmp_path: Path):
    (tmp_path / "known.yaml").write_text(json.dumps(KNOWN), "utf-8")
    done = run(tmp_path, REFUSED, "--baseline", "known.yaml")
    assert done.returncode == 0, done.stdout
    assert "1 xfailed" in done.stdout
    assert_rerun(tmp_path, done.stdout)
    (late,) = cell_files(tmp_path / "run", LATE_FOLDER)
    assert '"check":"expect.reply","outcome":"fail"' in plain(late).decode(), "only the other check was inconclusive"
