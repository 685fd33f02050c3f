"""An expiry of two days on the shifted clock: lateness that adds up over 49 hours does not change the verdict."""

import shutil
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.lookup import find_candidate
from conformance.execute import judge
from conformance.history.events import Lag
from conformance.judge.incremental import IncrementalJudge
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_scenarios
from conformance.verdicts import Outcome, worst_in_cell

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("cc") is None, reason="--clock shifted needs a C compiler"),
]

CELL = "a-shadow-that-never-finds-a-route-expires"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "outcome"),
    [("exec:reference", Outcome.PASS), ("exec:reference+hub-keeps-shadows-for-ever", Outcome.FAIL)],
)
def test_a_shadow_that_expires_passes_and_one_that_never_does_fails(
    name: str, outcome: Outcome, tmp_path: Path
) -> None:
    scenarios = read_scenarios(paths.corpus() / "exchange-2010" / "heartbeat.scenario.yaml", paths.fixtures())
    (cell,) = (cell for scenario in scenarios for cell in scenario.cells("smoke") if cell.id == CELL)
    assignment, settings = Assignment(find_candidate(name, Path())), Settings(clock="shifted", should="fail")
    ran = run_without_loop(CellRunner(cell, assignment, settings, tmp_path, IncrementalJudge()).run(OWN_LOOP))
    last = ran.events[-1].n + 1
    for late in (0.0, 900.0):  # as it ran, and as late as a busy machine may make it
        events = (*ran.events, Lag(n=last, t=ran.events[-1].t, kind="lag", seconds=late))
        verdicts = judge(cell, assignment, settings, events, complete=not ran.problem)
        found = [one for one in verdicts if one.check == "expect.queue"]
        assert found
        assert worst_in_cell(one.outcome for one in found) is outcome, [one.sentence for one in verdicts]
        assert {one.requirements[0] for one in found if one.outcome is Outcome.FAIL} <= {"SR-E10-12"}
