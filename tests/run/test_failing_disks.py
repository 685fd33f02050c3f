"""Disks that fail under the reference: without room it refuses for now and goes on, and a failed sync is no 250."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.lookup import find_candidate
from conformance.execute import judge
from conformance.history.events import Attempt, FaultFired, NodeEvent
from conformance.judge.incremental import IncrementalJudge
from conformance.nodes.disks import layer
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_scenarios
from conformance.verdicts import Outcome

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(layer.unavailable_reason()), reason=layer.unavailable_reason() or "-"),
]


def played(directory: Path, name: str, defect: str = "") -> tuple[RecordedRun, set[str]]:
    """Return what was run, and the requirements of the checks that failed."""
    corpus = read_scenarios(paths.corpus() / "faults" / "disks.scenario.yaml", paths.fixtures())
    cell = next(cell for scenario in corpus for cell in scenario.cells() if cell.id == name)
    candidate = find_candidate(f"exec:reference{'+' * bool(defect)}{defect}", Path())
    assignment, settings = Assignment(candidate), Settings(clock="shifted", disk="layer", should="fail")
    ran = run_without_loop(CellRunner(cell, assignment, settings, directory, IncrementalJudge()).run(OWN_LOOP))
    assert (ran.problem, ran.inapplicable) == ("", "")
    found = judge(cell, assignment, settings, ran.events, complete=True)
    return ran, {verdict.requirements[0] for verdict in found if verdict.outcome is Outcome.FAIL}


def replies(ran: RecordedRun) -> list[tuple[str, int | None, str | None]]:
    attempts = [event for event in ran.events if isinstance(event, Attempt)]
    return [(event.message.partition("#")[0], event.code, event.enhanced) for event in attempts]


@pytest.mark.parametrize("at", [1, 2, 4])
def test_without_room_at_a_write_it_refuses_for_now_and_goes_on(tmp_path: Path, at: int) -> None:
    ran, failed = played(tmp_path, f"no-room-at-a-write-is-refused-for-now[at-write={at}]")
    assert failed == set()
    refused = [reply for reply in replies(ran) if reply[0] == "m"]
    assert ("m", 452, "4.3.1") in refused
    assert set(refused) <= {("m", 452, "4.3.1"), ("m", 250, "2.6.0")}
    assert replies(ran)[-1] == ("late", 250, "2.6.0")
    assert next(event.detail for event in ran.events if isinstance(event, FaultFired)).endswith("refused writes")
    assert [event.detail for event in ran.events if isinstance(event, NodeEvent) and event.action == "exited"] == []


def test_a_sync_that_fails_is_no_acknowledgement(tmp_path: Path) -> None:
    ran, failed = played(tmp_path, "a-sync-that-fails-is-no-acknowledgement")
    assert failed == set()
    assert [code for message, code, _ in replies(ran) if message == "m"] != [250]
    assert next(event.detail for event in ran.events if isinstance(event, FaultFired)).endswith("failed syncs")


@pytest.mark.parametrize(
    ("defect", "name", "blamed"),
    [
        ("refuses-for-good-without-room", "no-room-at-a-write-is-refused-for-now[at-write=1]", "RL-ACK-06"),
        ("acknowledges-what-a-sync-failed-for", "a-sync-that-fails-is-no-acknowledgement", "RL-ACK-01"),
    ],
)
def test_each_defect_is_caught(tmp_path: Path, defect: str, name: str, blamed: str) -> None:
    _, failed = played(tmp_path, name, defect)
    assert failed == {blamed}
