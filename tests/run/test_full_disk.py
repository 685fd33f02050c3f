"""A full disk under the reference: messages are refused, the node keeps running, and no acknowledged message is lost."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.lookup import find_candidate
from conformance.execute import judge
from conformance.history.events import Attempt, NodeEvent
from conformance.judge.incremental import IncrementalJudge
from conformance.nodes.disks import loop
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_scenarios
from conformance.verdicts import Outcome, worst_in_cell


@pytest.mark.integration
@pytest.mark.skipif(bool(loop.unavailable_reason()), reason=loop.unavailable_reason() or "-")
def test_a_node_on_a_full_disk_refuses_every_message_and_keeps_running(tmp_path: Path) -> None:
    corpus = read_scenarios(paths.corpus() / "faults" / "disks.scenario.yaml", paths.fixtures())
    cell = next(cell for scenario in corpus for cell in scenario.cells() if cell.id == "no-room-is-no-loss")
    assignment, settings = Assignment(find_candidate("exec:reference", Path())), Settings(clock="shifted")
    ran = run_without_loop(CellRunner(cell, assignment, settings, tmp_path, IncrementalJudge()).run(OWN_LOOP))
    assert ran.problem == ""
    attempts = [event for event in ran.events if isinstance(event, Attempt)]
    refused = [(event.code, event.enhanced) for event in attempts if event.message.startswith("m#")]
    assert refused == [(452, "4.3.1")] * 3
    assert [e.detail for e in ran.events if isinstance(e, NodeEvent) and e.action == "exited"] == []
    verdicts = judge(cell, assignment, settings, ran.events, complete=True)
    assert worst_in_cell(verdict.outcome for verdict in verdicts) is Outcome.PASS
