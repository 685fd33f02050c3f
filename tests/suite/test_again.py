"""A cell that could not be judged, since the harness was late beside others, is run once more, alone; nothing else is."""

import json
from pathlib import Path

import pytest

from conformance.results.layout import CELLS, LATE, cell_files
from conformance.results.reader import read_run
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration

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


def test_what_lateness_has_spoilt_is_run_again_and_judged_then(tmp_path: Path):
    (tmp_path / "late_once.py").write_text(LATE_ONCE, "utf-8")
    description = {"name": "mine", "kind": "python", "factory": "late_once:create", "claims": ["relay"]}
    (tmp_path / "mine.yaml").write_text(json.dumps(description), "utf-8")
    (tmp_path / "wrong.scenario.yaml").write_text(WRONG, "utf-8")
    done = conformance_command(
        "run", "wrong.scenario.yaml", "--candidate", "mine.yaml", "--clock", "scaled", "--scale", "60", "--cells", "2",
        "--run-dir", "run", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[2]}",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout
    assert "1 cell was run once more, alone: the harness had been late beside others" in done.stdout
    run = read_run(tmp_path / "run")
    assert run.footer is not None
    assert list(run.footer.again) == [cell.header.nodeid for cell in run.cells([])]
    assert [path.name for path in cell_files(run.path, LATE)] == [path.name for path in cell_files(run.path, CELLS)]
    assert all("the harness itself ran" in path.read_text("utf-8") for path in cell_files(run.path, LATE))
