"""Pairs of faults: where the second one is put, what is left out, and that both occur."""

import random
from pathlib import Path

import pytest

from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.commands.explore import explore
from conformance.explore.injections import Injection
from conformance.explore.pairs import sweep_pairs
from conformance.explore.sweep import Enumeration, ObservedCell, Plan, ScenePlans, sweep, without_faults
from conformance.explore.trial import fired_faults, run_plan
from conformance.history.events import FaultFired
from tests.explore.test_explore import SCENARIO, SETTINGS, cell_of

SOUND = Assignment(REFERENCE)


def reason_against(plan: Plan, injection: Injection) -> str:
    return "left out by the test" if injection.kind in ("frozen", "without power") else ""


@pytest.fixture(scope="module")
def every() -> ScenePlans:
    """The single faults of a scenario."""
    cell = without_faults(cell_of(SCENARIO))
    run = run_plan(Plan("base", cell), SOUND, SETTINGS)
    return sweep(ObservedCell.from_run(cell, run.events), reason_against).plans


@pytest.fixture(scope="module")
def singles(every: ScenePlans) -> Enumeration:
    """Twelve of them, drawn by a seed."""
    return Enumeration(every.subset(random.Random(7).sample(range(len(every)), 12)))


def named(every: ScenePlans, *texts: str) -> Enumeration:
    """Return the single faults with these texts, in this order."""
    numbers = {injection.text: number for number, (_, injection) in enumerate(every.entries)}
    return Enumeration(every.subset([numbers[text] for text in texts]))


@pytest.fixture(scope="module")
def pairs(singles: Enumeration) -> Enumeration:
    return sweep_pairs(singles, SOUND, SETTINGS, 2, reason_against)


@pytest.mark.long
def test_a_second_fault_that_fires_in_a_drawn_pair_comes_after_the_first(pairs: Enumeration) -> None:
    ordered = 0
    for number in random.Random(8).sample(range(len(pairs.plans)), 12):
        plan = pairs.plans[number]
        assert len(set(plan.faults)) == 2
        events = run_plan(plan, SOUND, SETTINGS).events
        if plan.faults[1] in fired_faults(events):
            fired = [event.fault for event in events if isinstance(event, FaultFired)]
            assert fired.index(plan.faults[0]) < fired.index(plan.faults[1])
            ordered += 1
    assert ordered > 6


def test_a_point_that_the_first_fault_makes_unreachable_is_counted(every: ScenePlans) -> None:
    refused, later = "outside>mbx1 MAIL 1 answered 550", "outside>mbx1 RCPT 1 after drop"
    found = sweep_pairs(named(every, refused, later), SOUND, SETTINGS, 1, reason_against)
    assert found.pruned["the first fault makes the point of the second unreachable"] == 1
    assert not any(refused in plan.name and "outside>mbx1 RCPT" in plan.name for plan in found.plans)


def test_first_faults_with_the_same_history_have_pairs_once(every: ScenePlans) -> None:
    first, alike = (f"mbx1>mbx1-store {words}" for words in ("MAIL 1 heard drop", "MAIL 1 after drop"))
    other = "outside>mbx1 MAIL 1 answered 550"
    texts = (first, alike, other)
    alone = {text: sweep_pairs(named(every, text), SOUND, SETTINGS, 1, reason_against) for text in texts}
    together = sweep_pairs(named(every, *texts), SOUND, SETTINGS, 1, reason_against)
    names = [plan.name for text in (first, other) for plan in alone[text].plans]
    assert [plan.name for plan in together.plans] == names
    assert all(len(found.plans) > 0 for found in alone.values())
    assert together.pruned["another first fault has the same history"] == len(alone[alike].plans)


def test_pairs_do_not_depend_on_the_number_of_processes(singles: Enumeration, pairs: Enumeration) -> None:
    alone = sweep_pairs(singles, SOUND, SETTINGS, 1, reason_against)
    assert len(alone.plans) > 0
    assert [plan.name for plan in alone.plans] == [plan.name for plan in pairs.plans]
    assert alone.pruned == pairs.pruned


def test_a_first_fault_that_violates_the_model_has_no_pairs(every: ScenePlans) -> None:
    killed = named(every, "mbx1>mbx1-store LHLO 1 mbx1 killed")
    wrong = Assignment(REFERENCE.model_copy(update={"defect": "forgets-its-queue-on-restart"}))
    found = sweep_pairs(killed, wrong, SETTINGS, 1, reason_against)
    assert (len(found.plans), found.pruned) == (0, {"pairs whose first fault alone is violated": 1})
    assert len(sweep_pairs(killed, SOUND, SETTINGS, 1, reason_against).plans) > 0


def test_pairs_need_the_name_of_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = explore(
        [], faults=2, candidate="reference", plans=1, duration=None, seed=1, jobs=1, out=tmp_path, as_json=True
    )
    assert code == 2
    assert "give the id of one" in capsys.readouterr().err
    code = explore(
        ["no-such"], faults=2, candidate="reference", plans=1, duration=None, seed=1, jobs=1, out=tmp_path, as_json=True
    )
    said = capsys.readouterr().err
    assert (code, "no-such" in said, "give the id of one" in said) == (2, True, False), "a name is looked up"
    assert list(tmp_path.iterdir()) == []
