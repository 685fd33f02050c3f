"""Whole cells in virtual time have the same history in every run, also beside a busy core."""

import shutil
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import read_assignment
from conformance.history.events import Drained
from conformance.judge.incremental import IncrementalJudge
from conformance.run import memory_directory
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import DEFAULT_SEED, Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_scenarios


@pytest.fixture(scope="module", autouse=True)
def _own_memory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Create the process's directory in memory, which stays open until the process ends, before `no_leaks` counts."""
    memory_directory.make_directory("none-", tmp_path_factory.mktemp("none")).rmdir()


CREATION = "creation/inbound.scenario.yaml"


def cell_of(file: str, scenario: str, **axes: str) -> Cell:
    """Return one cell of the corpus."""
    (found,) = (
        cell
        for one in read_scenarios(paths.corpus() / file, paths.fixtures())
        if one.id == scenario
        for cell in one.cells("smoke")
        if axes.items() <= cell.axes.items()
    )
    return found


def history(cell: Cell, directory: Path, seed: int) -> RecordedRun:
    """Run a cell with the reference in a directory that is empty again afterwards."""
    assignment = read_assignment("reference", paths.fixtures() / "candidates")
    try:
        return run_without_loop(
            CellRunner(cell, assignment, Settings(seed=seed), directory, IncrementalJudge()).run(OWN_LOOP)
        )
    finally:
        shutil.rmtree(directory)


def words(ran: RecordedRun) -> tuple[str, ...]:
    """Return every event with its number, its virtual time and all that it says."""
    assert ran.problem == ""
    return tuple(map(repr, ran.events))


DRAWN_ORDER = 7
"""A seed that draws the order of what happens at the same time; the default one does not."""

CELLS = pytest.mark.parametrize(
    ("cell", "seed"),
    [
        (
            cell_of(CREATION, "inbound-acknowledged-after-shadow", messages="20", **{"sender-offers-xshadow": "yes"}),
            DRAWN_ORDER,
        ),
        (
            cell_of("outage/mailbox-outage.scenario.yaml", "same-database-after-the-resubmit-time", messages="1"),
            DEFAULT_SEED,
        ),
    ],
    ids=lambda value: value.scenario if isinstance(value, Cell) else f"seed-{value}",
)


@CELLS
def test_three_runs_of_a_cell_have_the_same_history(cell: Cell, seed: int, tmp_path: Path) -> None:
    runs = [history(cell, tmp_path / "cell", seed) for _ in range(3)]
    assert len(set(map(words, runs))) == 1
    assert isinstance(runs[0].events[-2], Drained), "the cell ran to its end"


@CELLS
@pytest.mark.slow
def test_two_hundred_runs_of_a_cell_have_the_same_history_beside_a_busy_core(
    cell: Cell, seed: int, tmp_path: Path, busy: None
) -> None:
    histories = {words(history(cell, tmp_path / "cell", seed)) for _ in range(200)}
    (only,) = histories
    assert only[-2].startswith("Drained("), "the cell ran to its end"


def test_another_seed_gives_another_history(tmp_path: Path) -> None:
    cell = cell_of(CREATION, "inbound-acknowledged-after-shadow", messages="1", **{"sender-offers-xshadow": "yes"})
    one, again, other = (history(cell, tmp_path / "cell", seed) for seed in (1, 1, 2))
    assert words(one) == words(again) != words(other)
    assert isinstance(one.events[-2], Drained)
