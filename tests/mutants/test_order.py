"""In which cells a mutant is tried first."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.commands.mutants import plan_trial
from conformance.mutants.differences import Differences
from conformance.mutants.operators import Site
from conformance.mutants.pins import Pins
from conformance.scenarios.loader import read_corpus

CORPUS = read_corpus(
    [paths.corpus() / "timeouts" / "sessions.scenario.yaml", paths.corpus() / "duplicates" / "tracking.scenario.yaml"],
    paths.fixtures(),
)
CELLS = [cell for scenario in CORPUS for cell in scenario.cells("smoke", REFERENCE.own_timers)]
SITE = Site("duplicates.py", "f", "remove-call", 1, 1)
PINS = Pins({}, frozenset(), {"duplicates.py": ("DUP",)}, {})


def planned(site: Site, numbers: Sequence[int] = range(len(CELLS))) -> list[int]:
    """Return the cells that are planned for a site whose mutant makes a difference in the cells of these numbers."""
    found = Differences({site.id: list(numbers)}, dict.fromkeys(range(len(CELLS)), 0.1))
    return list(plan_trial(site, CELLS, found, PINS).cells)


@pytest.mark.parametrize("in_class", [False, True])
def test_every_cell_in_which_the_mutant_makes_a_difference_is_planned_once_and_no_other(in_class: bool):
    site = replace(SITE, in_class=in_class)
    assert len(CELLS) > 10
    assert sorted(planned(site)) == list(range(len(CELLS)))
    every_second = list(range(1, len(CELLS), 2))
    assert sorted(planned(site, every_second)) == every_second


def test_six_of_the_first_seven_cells_are_about_the_changed_module_and_each_kind_begins_with_one_of_each_scenario():
    order = [CELLS[number] for number in planned(SITE)]
    related = [any(row.startswith("SR-DUP") for row in cell.judged_requirements) for cell in order]
    assert related[:7] == [
        True,
        True,
        True,
        False,
        True,
        True,
        True,
    ]  # six of seven, as no cell is about another of its groups
    for kind in (True, False):
        scenarios = [cell.scenario for cell, one in zip(order, related, strict=True) if one is kind]
        assert len(set(scenarios[: len(set(scenarios))])) == len(set(scenarios)) > 1


def test_a_default_is_tried_first_where_parameters_are_left_out():
    left_out = [cell.parameters == "default" for cell in CELLS]
    assert any(left_out)
    first = planned(replace(SITE, in_class=True))[: sum(left_out)]
    assert all(left_out[number] for number in first)
    assert not all(left_out[number] for number in planned(SITE)[: sum(left_out)]), "other sites have another order"
