"""What docs/coverage.md calls covered is judged in fact: in a run on the reference, a check of the group has an occasion."""

import pytest

from conformance.defects.plan import PlannedTrial
from conformance.defects.trial import FinishedTrial, run_planned
from conformance.execute import judge
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.coverage.__main__ import corpus_cells
from conformance.scenarios.coverage.detection import groups_by_dimension
from conformance.scenarios.coverage.table import pairs, read_dimensions
from conformance.scenarios.document import Cell

Pair = tuple[str, str]


def pairs_by_cell(cells: list[Cell]) -> list[tuple[Cell, set[Pair]]]:
    """Return the pairs of a dimension and a group for which each cell is said to have an occasion."""
    group_of = {row.id: row.group for row in catalogue().requirements}
    found = []
    for cell in cells:
        judged = {group_of[row] for row in cell.judged_requirements if row in group_of}
        found.append((cell, {(one, g) for one, groups in groups_by_dimension(cell).items() for g in groups & judged}))
    return found


def judged_groups(cell: Cell) -> set[str]:
    """Run a cell on the sound reference, and return the groups of which a row that the cell judges had an occasion."""
    finished = run_planned(PlannedTrial(defect=None, cell=cell), seed=1)
    if not isinstance(finished, FinishedTrial):
        return set()
    verdicts = judge(cell, finished.assignment, finished.settings, finished.ran.events, complete=finished.ran.complete)
    rows = {row for verdict in verdicts if verdict.occasions for row in verdict.requirements}
    group_of = {row.id: row.group for row in catalogue().requirements}
    return {group_of[row] for row in rows & cell.judged_requirements}


@pytest.mark.slow
def test_every_covered_pair_is_judged_in_a_run() -> None:
    cells = corpus_cells()
    missing = {(p.dimension, p.group) for p in pairs(catalogue(), read_dimensions(), cells) if p.is_covered}
    assert missing
    candidates = pairs_by_cell(cells)
    while missing and candidates:  # the cell with the most of what is missing first
        index = max(range(len(candidates)), key=lambda number: len(candidates[number][1] & missing))
        cell, said = candidates.pop(index)
        if not said & missing:
            break
        judged = judged_groups(cell)
        missing -= {(dimension, group) for dimension, group in said if group in judged}
    assert missing == set()
