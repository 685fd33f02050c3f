"""Mutants of a correct server: on both kinds of disk it passes, and each way to lose mail fails or gets a remark."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import Candidate
from conformance.execute import judge
from conformance.history.events import AnyEvent, Attempt
from conformance.judge.incremental import IncrementalJudge
from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.node_disk import DiskKind
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_scenarios
from conformance.verdicts import Outcome, Verdict, worst_in_cell
from conformance.verdicts.changes import Should
from tests.run.spooling import LOSES, REFUSES_FOR_GOOD, REFUSES_FOR_NOW, RELIES_ON_FSYNC, server

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(layer.unavailable_reason()), reason=layer.unavailable_reason() or "-"),
]

on_both = pytest.mark.parametrize(
    "disk",
    [
        "layer",
        pytest.param(
            "loop", marks=pytest.mark.skipif(bool(loop.unavailable_reason()), reason=loop.unavailable_reason() or "-")
        ),
    ],
)


def cell_of(name: str) -> Cell:
    corpus = read_scenarios(paths.corpus() / "faults" / "disks.scenario.yaml", paths.fixtures())
    return next(cell for scenario in corpus for cell in scenario.cells() if cell.id == name)


def ran_and_judged(
    directory: Path, text: str, cell: Cell, disk: DiskKind, should: Should = "warn"
) -> tuple[tuple[AnyEvent, ...], tuple[Verdict, ...]]:
    program = directory / "server.py"
    program.write_text(text)
    argv = ("{python}", str(program), "{data}", "{listen.frontend}", "{next_hop.host}", "{next_hop.port}")
    assignment = Assignment(
        Candidate(name="spooling", kind="exec", claims=("relay",), argv=argv, listeners=("frontend",))
    )
    settings = Settings(clock="shifted", disk=disk, should=should)
    ran = run_without_loop(CellRunner(cell, assignment, settings, directory, IncrementalJudge()).run(OWN_LOOP))
    assert (ran.problem, ran.inapplicable, ran.wrong_state) == ("", "", "")
    return tuple(ran.events), judge(cell, assignment, settings, ran.events, complete=True)


def verdicts(directory: Path, text: str, cell: Cell, disk: DiskKind, should: Should = "warn") -> tuple[Verdict, ...]:
    return ran_and_judged(directory, text, cell, disk, should)[1]


def failed(found: tuple[Verdict, ...]) -> set[str]:
    return {verdict.requirements[0] for verdict in found if verdict.outcome is Outcome.FAIL}


def remarked(found: tuple[Verdict, ...]) -> set[str]:
    return {verdict.requirements[0] for verdict in found if verdict.remark}


@on_both
@pytest.mark.parametrize("messages", [1, 20])
def test_a_correct_server_passes_without_a_remark(tmp_path: Path, disk: DiskKind, messages: int) -> None:
    found = verdicts(tmp_path, server(), cell_of(f"acknowledged-means-synced[messages={messages}]"), disk)
    assert worst_in_cell(verdict.outcome for verdict in found) is Outcome.PASS
    assert remarked(found) == set()


def test_a_correct_server_passes_in_the_stricter_reading(tmp_path: Path) -> None:
    found = verdicts(tmp_path, server(), cell_of("acknowledged-means-name-synced[messages=20]"), "layer", "fail")
    assert worst_in_cell(verdict.outcome for verdict in found) is Outcome.PASS
    assert "RL-ACK-05" in {row for v in found if v.outcome is Outcome.PASS for row in v.requirements}
    relies = tmp_path / "relies"
    relies.mkdir()
    text = server(RELIES_ON_FSYNC["rename, then fsync of the file"])
    lost = verdicts(relies, text, cell_of("acknowledged-means-name-synced[messages=1]"), "layer", "fail")
    assert failed(lost) == {"RL-ACK-05"}, "the reading is the stricter one"


NO_ROOM = "no-room-at-a-write-is-refused-for-now[at-write=1]"


def test_a_server_that_refuses_for_now_without_room_passes(tmp_path: Path) -> None:
    events, found = ran_and_judged(tmp_path, server(REFUSES_FOR_NOW), cell_of(NO_ROOM), "layer", "fail")
    assert {event.code for event in events if isinstance(event, Attempt)} == {250, 452}, "it met the full disk"
    assert worst_in_cell(verdict.outcome for verdict in found) is Outcome.PASS
    assert "RL-ACK-06" in {row for v in found if v.outcome is Outcome.PASS for row in v.requirements}


@pytest.mark.parametrize("name", REFUSES_FOR_GOOD)
def test_a_server_that_refuses_for_good_without_room_fails(tmp_path: Path, name: str) -> None:
    events, found = ran_and_judged(tmp_path, server(REFUSES_FOR_GOOD[name]), cell_of(NO_ROOM), "layer", "fail")
    assert {event.code for event in events if isinstance(event, Attempt)} == {250, 550}, "it met the full disk"
    assert failed(found) == {"RL-ACK-06"}


FAST = "fsync, then rename without any later sync"


@on_both
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == FAST else pytest.mark.slow) for name in LOSES])
def test_each_way_to_lose_mail_fails(tmp_path: Path, disk: DiskKind, name: str) -> None:
    found = verdicts(tmp_path, server(LOSES[name]), cell_of("acknowledged-means-synced[messages=1]"), disk)
    assert failed(found) == {"RL-ACK-01"}


@pytest.mark.slow
@on_both
@pytest.mark.parametrize("name", RELIES_ON_FSYNC)
def test_a_server_that_relies_on_fsync_to_keep_names_gets_a_remark(tmp_path: Path, disk: DiskKind, name: str) -> None:
    """It passes in the cell of what all file systems keep; the stricter cell always cuts the power of the layer."""
    text = server(RELIES_ON_FSYNC[name])
    for part in ("kept", "warn", "fail"):
        (tmp_path / part).mkdir()
    strict = cell_of("acknowledged-means-name-synced[messages=1]")
    kept = verdicts(tmp_path / "kept", text, cell_of("acknowledged-means-synced[messages=1]"), disk)
    assert worst_in_cell(verdict.outcome for verdict in kept) is Outcome.PASS
    assert remarked(kept) == set()
    warned = verdicts(tmp_path / "warn", text, strict, disk)
    assert (failed(warned), remarked(warned)) == (set(), {"RL-ACK-05"})
    assert failed(verdicts(tmp_path / "fail", text, strict, disk, "fail")) == {"RL-ACK-05"}
