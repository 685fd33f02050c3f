"""Random plans: each is a valid scenario, depends on its seed and number alone, and its faults fire."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.commands.explore import explore
from conformance.explore.documents import read_cell, write_cell
from conformance.explore.grammar import Bias
from conformance.explore.random_plans import RandomPlans
from conformance.explore.sometimes import SOMETIMES
from conformance.explore.sweep import Plan
from conformance.explore.trial import fired_faults, run_plan
from conformance.run.settings import Settings

SETTINGS = Settings(clock="virtual", seed=1, should="fail")


def plans(seed: int = 1, number: int = 8) -> RandomPlans:
    return RandomPlans(seed, number, Assignment(REFERENCE), SETTINGS)


def test_a_random_plan_depends_on_its_seed_and_number_and_not_on_what_was_drawn_before() -> None:
    third = plans()[3]
    random.seed("another")
    drawn = [*plans(number=4)]
    assert third == drawn[3], "plans that were drawn before make no difference, nor how many there are"
    for other in (drawn[2], plans(seed=2)[3]):
        assert third.cell.topology != other.cell.topology or third.cell.steps != other.cell.steps, "not only its name"


@pytest.mark.long
def test_a_bias_draws_other_plans_and_the_usual_one_the_same() -> None:
    def drawn(bias: Bias) -> list[Plan]:
        return [RandomPlans(1, 4, Assignment(REFERENCE), SETTINGS, bias)[number] for number in range(4)]

    usual = [plans()[number] for number in range(4)]
    assert drawn(Bias(leaves_out=True, aimed=True)) == usual
    for bias in (Bias(leaves_out=False), Bias(aimed=False)):
        assert drawn(bias) == drawn(bias)
        assert [(plan.cell.topology, plan.cell.steps) for plan in drawn(bias)] != [
            (plan.cell.topology, plan.cell.steps) for plan in usual
        ]


@pytest.mark.long
def test_more_plans_have_faults_that_all_fire_where_they_are_aimed() -> None:
    aimed, timed = (
        sum(
            RandomPlans(3, 12, Assignment(REFERENCE), SETTINGS, Bias(aimed=aimed)).run(number).result.fired
            for number in range(12)
        )
        for aimed in (True, False)
    )
    assert aimed > timed


@pytest.mark.long
def test_random_plans_are_valid_scenarios_and_nearly_all_come_to_their_end(tmp_path: Path) -> None:
    drawn = list(plans())
    for number, plan in enumerate(drawn):
        path = tmp_path / f"plan-{number}.scenario.yaml"
        write_cell(plan.cell, path, title="A random plan that was written by the test", description="")
        read = read_cell(path, paths.fixtures())
        assert [step.action for step in read.steps] == [step.action for step in plan.cell.steps]
        assert read.topology == plan.cell.topology
    outcomes = [run_plan(plan, Assignment(REFERENCE), SETTINGS).result.outcome for plan in drawn]
    assert len(outcomes) == 8
    assert outcomes.count("sound") >= 6
    assert set(outcomes) <= {"sound", "unfinished"}, "the reference violates nothing"


@pytest.mark.long
def test_nearly_all_drawn_faults_fire() -> None:
    runs = [plans(number=16).run(number) for number in range(16)]
    drawn = sum(len(set(run.plan.faults)) for run in runs)
    fired = sum(len(set(run.plan.faults) & fired_faults(run.events)) for run in runs)
    assert drawn >= 12
    assert fired >= 0.9 * drawn
    assert [run.result.fired for run in runs].count(False) <= 1, "in nearly all plans, all of them"


@pytest.mark.long
def test_a_campaign_says_what_it_saw_and_the_same_with_two_processes_as_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for jobs in (1, 2):
        explore(
            [],
            at_random=True, candidate="reference", plans=10, duration=None, seed=3, jobs=jobs, out=tmp_path / str(jobs), as_json=True,
        )  # fmt: skip
        found.append(json.loads(capsys.readouterr().out))
    one, two = found
    assert one == two
    results = [json.loads(line) for line in (tmp_path / "1" / "plans.jsonl").read_text("utf-8").splitlines()]
    observed = [result["observed"] for result in results if result["observed"] is not None]
    assert one["plans"] == len(results) == 10
    assert one["outcomes"] == Counter(result["outcome"] for result in results)
    assert one["faults"] == {
        "drawn": sum(seen["faults"] for seen in observed), "fired": sum(seen["fired"] for seen in observed),
    }  # fmt: skip
    times = Counter(state for seen in observed for state in seen["visited"]["states"])
    assert (one["states"], one["states_seen_once"]) == (len(times), list(times.values()).count(1))
    assert one["sometimes"] == {sentence: sum(sentence in seen["seen"] for seen in observed) for sentence in SOMETIMES}
    assert one["faults"]["fired"] >= 0.9 * one["faults"]["drawn"] > 0
    assert one["states"] > one["states_seen_once"] > 0
    assert set(one["never_seen"]) == {sentence for sentence, count in one["sometimes"].items() if count == 0}


def test_the_name_of_a_scenario_is_refused_where_plans_are_random(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = explore(
        ["alone-in-its-boundary"],
        at_random=True, candidate="reference", plans=1, duration=None, seed=1, jobs=1, out=tmp_path, as_json=True,
    )  # fmt: skip
    assert code == 2
    problem = "random plans are made without scenarios: leave out their names, or --random\n"
    assert capsys.readouterr().err == problem
    assert list(tmp_path.iterdir()) == []
