"""Full and failing disks under the reference: a write without room is refused with 452, a failed sync is not a 250."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.lookup import find_candidate, reference_defects
from conformance.execute import judge
from conformance.history.events import Attempt, FaultFired, NodeEvent
from conformance.judge.incremental import IncrementalJudge
from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.node_disk import DiskKind
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_scenarios
from conformance.verdicts import Outcome, worst_in_cell

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(layer.unavailable_reason()), reason=layer.unavailable_reason() or "-"),
]


def run_cell(directory: Path, name: str, defect: str = "", disk: DiskKind = "layer") -> tuple[RecordedRun, set[str]]:
    """Run a cell with the reference, or with a defect of it; return the recorded run and the requirements that failed.

    Where none failed the cell has to pass.
    """
    corpus = read_scenarios(paths.corpus() / "faults" / "disks.scenario.yaml", paths.fixtures())
    cell = next(cell for scenario in corpus for cell in scenario.cells() if cell.id == name)
    candidate = find_candidate(f"exec:reference{'+' * bool(defect)}{defect}", Path())
    assignment, settings = Assignment(candidate), Settings(clock="shifted", disk=disk, should="fail")
    ran = run_without_loop(CellRunner(cell, assignment, settings, directory, IncrementalJudge()).run(OWN_LOOP))
    assert (ran.problem, ran.inapplicable) == ("", "")
    found = judge(cell, assignment, settings, ran.events, complete=True)
    # the rules of the model see the same failure in their own ways
    failed = [v for v in found if v.outcome is Outcome.FAIL and not v.check.startswith("model.")]
    assert failed or worst_in_cell(verdict.outcome for verdict in found) is Outcome.PASS
    return ran, {verdict.requirements[0] for verdict in failed}


def replies(ran: RecordedRun) -> list[tuple[str, int | None, str | None]]:
    attempts = [event for event in ran.events if isinstance(event, Attempt)]
    return [(event.message.partition("#")[0], event.code, event.enhanced) for event in attempts]


def exits(ran: RecordedRun) -> list[str]:
    """Return the detail of each unexpected exit of a node."""
    return [event.detail for event in ran.events if isinstance(event, NodeEvent) and event.action == "exited"]


@pytest.mark.skipif(bool(loop.unavailable_reason()), reason=loop.unavailable_reason() or "-")
def test_a_node_on_a_full_disk_refuses_every_message_and_keeps_running(tmp_path: Path) -> None:
    ran, failed = run_cell(tmp_path, "no-room-is-no-loss", disk="loop")
    assert failed == set()
    assert replies(ran) == [("early", 250, "2.6.0"), *[("m", 452, "4.3.1")] * 3, ("late", 250, "2.6.0")]
    assert exits(ran) == []


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_write_without_room_is_refused_with_452_and_the_node_goes_on(tmp_path: Path, at: int) -> None:
    ran, failed = run_cell(tmp_path, f"no-room-at-a-write-is-refused-for-now[at-write={at}]")
    assert failed == set()
    refused = [reply for reply in replies(ran) if reply[0] == "m"]
    assert ("m", 452, "4.3.1") in refused
    assert set(refused) <= {("m", 452, "4.3.1"), ("m", 250, "2.6.0")}
    assert replies(ran)[-1] == ("late", 250, "2.6.0")
    assert next(event.detail for event in ran.events if isinstance(event, FaultFired)).endswith("refused writes")
    assert exits(ran) == []


def test_a_message_whose_sync_failed_is_not_acknowledged(tmp_path: Path) -> None:
    ran, failed = run_cell(tmp_path, "a-sync-that-fails-is-no-acknowledgement")
    assert failed == set()
    codes = [code for message, code, _ in replies(ran) if message == "m"]
    assert codes
    assert 250 not in codes
    assert replies(ran)[-1] == ("late", 250, "2.6.0"), "it was sent when syncs succeeded again"
    assert next(event.detail for event in ran.events if isinstance(event, FaultFired)).endswith("failed syncs")


TROUBLED_TWICE = """
id: troubled-twice
title: The disk of a server has one trouble after another
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
steps:
  - disk: {as: first, node: mta1, is: slow, lasting: 1s}
BETWEEN  - disk: {as: second, node: mta1, is: SECOND}
  - send: {as: m, to: victor@outside.test, via: mta1}
"""


@pytest.mark.parametrize(
    ("between", "second", "problem"),
    [
        ("", "slow, lasting: 2s", "the disk of mta1 is slow already, by 'first'"),
        ("", "full, at-write: 1", ""),
        ("  - heal: first\n", "slow, lasting: 2s", ""),
    ],
    ids=["the same", "another", "the same after it was healed"],
)
def test_a_trouble_that_a_disk_has_already_is_an_error_and_another_one_is_not(
    tmp_path: Path, between: str, second: str, problem: str
) -> None:
    scenario = TROUBLED_TWICE.replace("BETWEEN", between).replace("SECOND", second)
    (tmp_path / "twice.scenario.yaml").write_text(scenario)
    (cell,) = read_scenarios(tmp_path / "twice.scenario.yaml", paths.fixtures())[0].cells()
    assignment = Assignment(find_candidate("exec:reference", Path()))
    runner = CellRunner(cell, assignment, Settings(clock="shifted", disk="layer"), tmp_path, IncrementalJudge())
    ran = run_without_loop(runner.run(OWN_LOOP))
    assert ran.problem.endswith(problem)
    assert (bool(ran.problem), ran.inapplicable) == (bool(problem), "")


CELL_OF_DEFECT = {
    "refuses-for-good-without-room": "no-room-at-a-write-is-refused-for-now[at-write=1]",
    "acknowledges-what-a-sync-failed-for": "a-sync-that-fails-is-no-acknowledgement",
    "relies-on-fsync-to-keep-a-directory": "acknowledged-means-name-synced[messages=1]",
}


def test_every_disk_defect_is_tried() -> None:
    assert CELL_OF_DEFECT.keys() == {name for name, defect in reference_defects().items() if defect.on_disks}


@pytest.mark.parametrize("defect", CELL_OF_DEFECT)
def test_each_disk_defect_fails_its_requirement(tmp_path: Path, defect: str) -> None:
    _, failed = run_cell(tmp_path, CELL_OF_DEFECT[defect], defect)
    assert failed == {reference_defects()[defect].breaks}


def test_a_server_that_relies_on_fsync_passes_where_the_file_system_keeps_the_name(tmp_path: Path) -> None:
    """A server is not accused under RL-ACK-01 of what only the stricter reading of POSIX forbids."""
    _, failed = run_cell(tmp_path, "acknowledged-means-synced[messages=1]", "relies-on-fsync-to-keep-a-directory")
    assert failed == set()
