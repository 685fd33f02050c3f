"""The plan of the trials: in which cells a defect is tried."""

from itertools import pairwise

import pytest

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.defects import plan
from conformance.defects.plan import MAX_CELLS_PER_SCENARIO, Defect, PlannedTrial, plan_trials
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus, read_scenarios


def cells_of(file: str, scenario: str) -> list[Cell]:
    found = read_scenarios(paths.corpus() / f"{file}.scenario.yaml", paths.fixtures())
    return list(next(one for one in found if one.id == scenario).cells("smoke"))


def planned(cells: list[Cell]) -> list[PlannedTrial]:
    """Return the trials of a defect that breaks a requirement which all the cells judge."""
    judged_by_all = set.intersection(*(set(cell.judged_requirements) for cell in cells))
    wrong = Defect("wrong", min(judged_by_all), "Does it wrong.")
    return [one for one in plan_trials([wrong], cells) if one.defect is not None]


def test_a_defect_is_tried_in_the_one_broad_cell_that_is_named_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cells_of("variations/mixed-organisation", "mail-of-every-kind-in-a-mixed-organisation")
    for name, tried in (("wrong", [cells[3].id]), ("another", [])):
        monkeypatch.setattr(plan, "broad_cells", {name: cells[3].id}.copy)
        assert [one.cell.id for one in planned(cells)] == tried


def test_every_broad_cell_and_every_defect_that_is_named_exists() -> None:
    named = plan.broad_cells()
    assert named
    corpus = read_scenarios_of(plan.BROAD_FOLDER)
    assert sorted(set(named.values()) - corpus) == []
    assert sorted(named.keys() - {defect.name for defect in plan.active_defects()}) == []


def read_scenarios_of(folder: str) -> set[str]:
    found = read_corpus([paths.corpus() / folder], paths.fixtures())
    return {cell.id for scenario in found for cell in scenario.cells("smoke", REFERENCE.own_timers)}


def test_a_defect_is_tried_in_a_few_cells_of_a_narrow_scenario_at_even_distances():
    cells = cells_of("creation/copies", "shadow-carries-envelope-and-content")
    assert len(cells) > 2 * MAX_CELLS_PER_SCENARIO
    for count in range(1, len(cells) + 1):
        numbers = [cells.index(one.cell) for one in planned(cells[:count])]
        assert len(numbers) == min(count, MAX_CELLS_PER_SCENARIO)
        assert (numbers[0], numbers[-1]) == (0, count - 1)
        distances = [after - before for before, after in pairwise(numbers)] or [0]
        assert max(distances) - min(distances) <= 1, count
    another = [cell.model_copy(update={"scenario": "another"}) for cell in cells]
    assert [one.cell for one in planned([*cells, *another])] == [
        one.cell for own in (cells, another) for one in planned(own)
    ]
