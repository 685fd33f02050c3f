"""The plan of the trials: in which cells a defect is tried, and in which round."""

from collections import Counter

from conformance import paths
from conformance.defects.plan import BROAD_CELLS_OF_A_ROUND, MAX_CELLS_PER_SCENARIO, Defect, PlannedTrial, plan_trials
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_scenarios


def cells_of(file: str, scenario: str) -> list[Cell]:
    found = read_scenarios(paths.corpus() / f"{file}.scenario.yaml", paths.fixtures())
    return list(next(one for one in found if one.id == scenario).cells("smoke"))


def planned(cells: list[Cell]) -> list[PlannedTrial]:
    """Return the trials of a defect that breaks a requirement which all the cells judge."""
    judged_by_all = set.intersection(*(set(cell.judged_requirements) for cell in cells))
    wrong = Defect("wrong", min(judged_by_all), "Does it wrong.")
    return [one for one in plan_trials([wrong], cells) if one.defect is not None]


def test_every_cell_of_broad_scenarios_has_its_round_and_the_smallest_come_first() -> None:
    cells = [
        *cells_of("variations/thousand", "more-than-a-thousand-messages"),
        *cells_of("variations/mixed-organisation", "mail-of-every-kind-in-a-mixed-organisation"),
    ]
    tried = planned(cells)
    assert sorted(one.cell.id for one in tried) == sorted(cell.id for cell in cells)
    assert tried[-1].cell.scenario == "more-than-a-thousand-messages"
    of_a_round = Counter(one.round for one in tried)
    assert sorted(of_a_round) == list(range(2, 2 + len(of_a_round)))
    assert max(of_a_round.values()) == BROAD_CELLS_OF_A_ROUND < len(cells)


def test_a_narrow_scenario_has_one_round_of_cells_at_even_distances():
    cells = cells_of("creation/copies", "shadow-carries-envelope-and-content")
    tried = planned(cells)
    assert len(cells) > len(tried) == MAX_CELLS_PER_SCENARIO
    assert {one.round for one in tried} == {1}
    assert (tried[0].cell.id, tried[-1].cell.id) == (cells[0].id, cells[-1].id)
