"""Planted mistakes that need two faults: the pair that each names shows it, and shows nothing in the reference itself."""

import pytest

from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from tests.explore.planted import MISTAKES
from tests.explore.planted_try import run_known_pair


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_planted_mistake_is_found_by_its_two_faults_and_not_without_faults(name: str) -> None:
    mistake = MISTAKES[name]
    with mistake.planted() as wrong:
        base, pair = run_known_pair(mistake, wrong)
    assert base.outcome == "sound"
    assert (pair.outcome, pair.fired) == ("violated", True), pair
    sound = run_known_pair(mistake, Assignment(REFERENCE))
    assert [result.outcome for result in sound] == ["sound", "sound"]
