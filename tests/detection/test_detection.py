"""How many random plans catch a defect: what counts, in which order plans are run, and what the page says of the rest."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from conformance.candidates.assignment import Assignment
from conformance.defects.plan import Defect, active_defects
from conformance.detection import trial
from conformance.detection.__main__ import main
from conformance.detection.campaign import Measurement, run_trials, visible_defects
from conformance.detection.page import depth, page
from conformance.detection.store import SeriesResult, Store
from conformance.detection.trial import BIASES, USUAL, PlanTrial, Series, run_trial
from conformance.explore.sweep import Plan
from conformance.explore.trial import PlanResult, PlanRun, Violation, run_plan
from conformance.run.settings import Settings

KNOWN = "acknowledges-before-shadow"
"""Is caught by the first plan of seed 1."""
ONE = Series(USUAL, 1, "one")


def measurement(*names: str, **limits: int) -> Measurement:
    return Measurement(tuple(Defect(name, breaks="RL-ACK-01", says="") for name in names), seed=1, **limits)


def caught(number: int, series: Series = ONE, requirement: str = "RL-ACK-01") -> PlanTrial:
    return PlanTrial(series, number, "model.check", requirement, faults=2, fired=1)


def missed(number: int, series: Series = ONE) -> PlanTrial:
    return PlanTrial(series, number)


def store_of(path: Path, *trials: PlanTrial) -> Store:
    store = Store.open(path / "store.jsonl", "key")
    store.add(trials)
    return store


@pytest.mark.long
def test_a_defect_is_caught_by_a_plan_that_the_reference_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = []

    def recording(plan: Plan, assignment: Assignment, settings: Settings) -> PlanRun:
        sound.append(run_plan(plan, assignment, settings))
        return sound[-1]

    monkeypatch.setattr(trial, "run_plan", recording)
    found = run_trial(Series(USUAL, 1, KNOWN), 0)
    assert [run.result.outcome for run in sound] == ["sound"]
    assert (found.check, found.requirement, found.accused) == (
        "invariant.two-copies-at-acknowledgement",
        "SR-CRE-01",
        False,
    )
    assert found == next(run_trials([(found.series, 0)], 1))


@pytest.mark.long
def test_a_check_that_fails_in_the_reference_too_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def accuses(plan: Plan, assignment: Assignment, settings: Settings) -> PlanRun:
        run = run_plan(plan, assignment, settings)
        wrong = Violation(check="invariant.two-copies-at-acknowledgement", requirement="SR-CRE-01", sentence="")
        return PlanRun(plan, PlanResult(plan.name, "violated", violations=(wrong,)), run.events)

    monkeypatch.setattr(trial, "run_plan", accuses)
    found = run_trial(Series(USUAL, 1, KNOWN), 0)
    assert found.check != "invariant.two-copies-at-acknowledgement"
    assert found.accused


def test_plans_are_run_one_of_each_defect_at_a_time_until_it_is_caught(tmp_path: Path) -> None:
    measured = measurement("one", "two", most_plans=3, most_plans_of_a_bias=0)
    store = store_of(tmp_path, missed(0))
    order = []
    for series, number in measured.trials(store):
        order.append((series.defect, number))
        store.add([PlanTrial(series, number, "check" if (series.defect, number) == ("two", 1) else "")])
    assert order == [("two", 0), ("one", 1), ("two", 1), ("one", 2)]


def test_biases_are_compared_on_the_same_defects_with_three_seeds(tmp_path: Path) -> None:
    measured = measurement(*(f"d{number:02}" for number in range(60)), most_plans=1, most_plans_of_a_bias=1)
    assert len(measured.sample) == 40
    assert measured.sample == measurement(*(f"d{number:02}" for number in range(60))).sample
    expected = {Series(bias, seed, name) for bias in BIASES for seed in (1, 2, 3) for name in measured.sample}
    assert len(measured.comparison) == len({*measured.comparison} & expected) == 40 * len(BIASES) * 3
    store = store_of(tmp_path)
    assert {series for series, _ in measured.trials(store, "biases")} == {*measured.comparison}
    in_both = len(measured.sample)  # with the usual bias and the first seed
    assert len({*measured.comparison, *measured.table}) == 60 + len(measured.comparison) - in_both
    assert {series for series, _ in measured.trials(store)} == {*measured.comparison, *measured.table}


def test_the_store_goes_on_with_its_own_results_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    store_of(tmp_path, missed(0), caught(1))
    Store.open(path, "other").add([missed(5)])
    path.write_text(path.read_text("utf-8") + '["key", "left', "utf-8")
    store = Store.open(path, "key")
    assert store.results == {ONE: SeriesResult({0: missed(0), 1: caught(1)})}
    store.add([missed(2)])
    assert Store.open(path, "key").results == store.results


def test_a_catch_counts_once_all_plans_before_it_were_run() -> None:
    result = SeriesResult({0: missed(0), 2: caught(2), 3: caught(3)})
    assert (result.tried, result.catch, result.is_caught) == (1, None, True)
    result.trials[1] = missed(1)
    assert (result.tried, result.catch) == (4, caught(2))


def test_a_depth_counts_what_was_tried_as_far() -> None:
    results = [
        SeriesResult({0: caught(0)}), SeriesResult({0: missed(0), 1: caught(1)}),
        SeriesResult({0: missed(0), 1: missed(1)}), SeriesResult({0: missed(0)}),
    ]  # fmt: skip
    assert [(one.caught, one.missed) for one in (depth(results, 1), depth(results, 2), depth(results, 3))] == [
        (1, 3), (2, 1), (2, 0),
    ]  # fmt: skip
    assert depth([], 1).text == "not measured"


def test_the_page_says_what_is_missing_and_lists_the_hardest_defects_first(tmp_path: Path) -> None:
    measured = measurement("early", "late", "one", most_plans=2, most_plans_of_a_bias=1)
    early, late = Series(USUAL, 1, "early"), Series(USUAL, 1, "late")
    store = store_of(tmp_path, missed(0), caught(0, early, "SR-CRE-01"), missed(0, late), caught(1, late))
    text = page(measured, store)
    assert "**The measurement is not complete.** 1 of the 3 defects were neither caught nor tried with 2 plans" in text
    assert "| 1 | 1 of 3 (33 %) |" in text
    assert "\n| 2 |" not in text
    assert re.findall(r"^\| `\w+` \| RL-ACK-01 \| .*$", text, re.MULTILINE) == [
        "| `one` | RL-ACK-01 | not in 1 | | |",
        "| `late` | RL-ACK-01 | 2 | `model.check` | RL-ACK-01 |",
        "| `early` | RL-ACK-01 | 1 | `model.check` | SR-CRE-01 |",
    ]
    assert "blamed first is the broken one for 1 of them" in text
    store.add(
        [missed(1), *(missed(0, series) for series in measured.comparison if series.bias != USUAL or series.seed != 1)]
    )
    whole = page(measured, store)
    assert "not complete" not in whole
    assert "| 2 | 2 of 3 (67 %) |" in whole
    words = BIASES["all-timed"][1]
    assert f"| {words} | 0 of 9 (0 %) | 0 of 9 | none drawn |" in whole


@pytest.mark.long
def test_the_command_does_not_run_again_the_plans_that_its_store_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # results of another package are not read, and its files may change while this test runs
    monkeypatch.setattr("conformance.detection.__main__.inputs_sha256", lambda: "key")
    words = [
        str(tmp_path / "page.md"),
        "--store",
        str(tmp_path / "s" / "store.jsonl"),
        "--defect",
        KNOWN,
        "--part",
        "table",
    ]
    assert main([*words, "--plans", "1", "-n", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 plans in")
    before = (tmp_path / "page.md").read_text("utf-8")
    assert "| `acknowledges-before-shadow` | SR-CRE-01 | 1 |" in before
    asked: list[tuple[Series, int]] = []

    def note(trials: Iterable[tuple[Series, int]], *_: object) -> Iterator[PlanTrial]:
        asked.extend(trials)
        return iter(())

    monkeypatch.setattr("conformance.detection.__main__.run_trials", note)
    assert main([*words, "--plans", "1", "-n", "1"]) == 0
    assert asked == []
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 plans in")
    assert (tmp_path / "page.md").read_text("utf-8") == before
    assert main([*words, "--plans", "1", "-n", "1", "--seed", "2"]) == 0
    assert asked == [(Series(USUAL, 2, KNOWN), 0)], "a plan that it lacks"


def test_an_unknown_defect_and_one_that_needs_an_expectation_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = {defect.name for defect in active_defects() if defect.needs_expectation}
    assert hidden
    assert {defect.name for defect in visible_defects()} == {defect.name for defect in active_defects()} - hidden
    for name in ("no-such", min(hidden)):
        assert main([str(tmp_path / "page.md"), "--defect", KNOWN, "--defect", name]) == 2
        assert name in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
