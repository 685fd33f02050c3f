"""A cell written as a document is read back as the same cell."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.explore.documents import read_cell, write_cell
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus
from conformance.scenarios.steps.action import Parallel, Repeat, Step

OF_THE_FILE = {"scenario", "title", "path", "line", "axes", "implied", "sha256", "steps"}


def without_lines(steps: tuple[Step, ...]) -> list[object]:
    """Return steps without the lines and paths that they have in a file."""
    found: list[object] = []
    for step in steps:
        action = step.action
        inner = without_lines(action.steps) if isinstance(action, Parallel | Repeat) else action
        found.append((step.verb, step.label, inner))
    return found


def described(cell: Cell) -> object:
    return cell.model_dump(exclude=OF_THE_FILE), without_lines(cell.steps)


@pytest.mark.long
def test_every_scenario_of_the_corpus_is_written_and_read_back(tmp_path: Path) -> None:
    scenarios = read_corpus([paths.corpus()], paths.fixtures())
    last = [scenario.cells("smoke", REFERENCE.own_timers)[-1] for scenario in scenarios]
    cells = [cell.model_copy(update={"tags": ("slow", "of-the-test")}) for cell in last]  # no scenario has any
    assert cells
    wrong = []
    for number, cell in enumerate(cells):
        path = tmp_path / f"plan-{number}.scenario.yaml"
        write_cell(cell, path, title="A scenario that was written by the test", description="")
        if described(read_cell(path, paths.fixtures())) != described(cell):
            wrong.append(cell.id)
    assert wrong == []
