"""Scenarios with `timers: own`: their bounds are the documented timers of each candidate."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.scenarios import own_timers
from conformance.scenarios.document import Cell
from conformance.scenarios.expectations import Copies
from conformance.scenarios.loader import Scenario, read_scenarios
from conformance.scenarios.own_timers import OwnTimers
from conformance.scenarios.steps.action import Expect
from tests.scenarios.documents import problems, written

HASTY = OwnTimers.model_validate(
    {
        "source": "its manual, page 1",
        "tries-in-first-hour": {"min": 3, "max": 4},
        "tries-in-half-a-day": 80,
        "given-up-after": "4d",
        "given-up-by": "4d30m",
    }
)

SCENARIO = """
id: patience
title: A message is given up when the server itself says so
requirements: [RL-RTY-01]
topology: relay
timers: own
steps:
  - send: {as: m, to: wendy@second.test, via: mta1}
    label: sent
  - expect: {issued: {by: mta1, to: outside2, verb: MAIL, times: "${own-tries-in-first-hour}"}}
  - expect: {report: {of: m, to: alice@outside.test, since: sent, after: "${own-given-up-after}", within: "${own-given-up-by}"}}
"""

CORPUS = "".join(path.read_text("utf-8") for path in paths.corpus().rglob("*.scenario.yaml"))
"""The text of all scenarios."""


def expectations(cell: Cell) -> list[Any]:
    return [step.action.expectation for step in cell.steps if isinstance(step.action, Expect)]


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    (found,) = read_scenarios(written(tmp_path, SCENARIO), paths.fixtures())
    return found


def test_each_candidate_has_its_own_bounds(scenario: Scenario) -> None:
    warns = OwnTimers.model_validate({**HASTY.model_dump(by_alias=True), "warned-after": "2h", "warned-by": "3h"})
    hasty_bounds, bounds = warns.placeholder_values, REFERENCE.own_timers.placeholder_values
    assert hasty_bounds["own-tries-in-half-a-day"] == {"min": 80, "max": 80}
    assert [hasty_bounds[f"own-{name}"] for name in ("warnings", "warned-after", "warned-by")] == [1, 7200, 10800]
    assert {name for name in bounds if bounds[name] == hasty_bounds[name]} == set()
    (hasty,) = scenario.cells("smoke", HASTY)
    (reference,) = scenario.cells("smoke", REFERENCE.own_timers)
    tried, reported = expectations(hasty)
    assert tried.times == Copies(min=3, max=4)
    assert (reported.after, reported.within) == (4 * 86400, 4 * 86400 + 1800)
    tried, reported = expectations(reference)
    assert tried.times == Copies(min=50, max=61)
    assert (reported.after, reported.within) == (2 * 86400, 2 * 86400 + 60)
    assert (hasty.id, hasty.sha256) == (reference.id, reference.sha256), "it is the same cell of the same suite"


def test_timers_without_warning_times_have_the_placeholder_of_no_warning() -> None:
    names = ("own-warnings", "own-warned-after", "own-warned-by")
    assert [HASTY.placeholder_values[name] for name in names] == [0, 0, own_timers.NEVER_WARNED]
    warns = OwnTimers.model_validate({**HASTY.model_dump(by_alias=True), "warned-after": "4h", "warned-by": "5h"})
    assert [warns.placeholder_values[name] for name in names] == [1, 4 * 3600, 5 * 3600]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"warned-by": "5h"}, "go together"),
        ({"warned-after": "5h"}, "go together"),
        ({"given-up-by": "3d"}, "cannot be earlier"),
        ({"warned-after": "5h", "warned-by": "4h"}, "cannot be earlier"),
    ],
)
def test_a_latest_time_before_the_earliest_and_one_without_the_other_are_refused(
    wrong: dict[str, str], why: str
) -> None:
    with pytest.raises(ValidationError, match=why):
        OwnTimers.model_validate({**HASTY.model_dump(by_alias=True), **wrong})


@pytest.mark.parametrize(("tries", "refused"), [({"max": 2}, True), ({"max": 3}, False), ({"min": 1}, False)])
def test_fewer_tries_in_half_a_day_than_in_its_first_hour_are_refused(tries: dict[str, int], refused: bool) -> None:
    timers = {**HASTY.model_dump(by_alias=True), "tries-in-half-a-day": tries}
    with pytest.raises(ValidationError, match="cannot be less") if refused else nullcontext():
        OwnTimers.model_validate(timers)


def test_candidates_with_different_timers_have_none_in_common() -> None:
    mine = REFERENCE.model_copy(update={"name": "mine", "own_timers": HASTY})
    assert Assignment(REFERENCE, {"mbx1": mine}).own_timers(["mbx1", "mbx2"]) is None
    alike = REFERENCE.model_copy(update={"name": "alike"})
    assert Assignment(REFERENCE, {"mbx1": alike}).own_timers(["mbx1", "mbx2"]) == REFERENCE.own_timers != HASTY


def test_a_default_candidate_without_a_server_does_not_count() -> None:
    mine = REFERENCE.model_copy(update={"name": "mine", "own_timers": HASTY})
    assert Assignment(REFERENCE, {"mta1": mine}).own_timers(["mta1"]) == HASTY


def test_an_unknown_placeholder_is_reported_with_a_suggestion(tmp_path: Path) -> None:
    reported = problems(tmp_path, SCENARIO.replace("${own-given-up-by}", "${own-given-up}"))
    assert any("did you mean 'own-given-up-by'" in one.message for one in reported)


def test_placeholders_without_timers_own_are_unknown_axes(tmp_path: Path) -> None:
    reported = problems(tmp_path, SCENARIO.replace("timers: own\n", ""))
    assert sum(
        f"axis '{name}'" in one.message for one in reported for name in own_timers.PLACEHOLDERS
    ) == SCENARIO.count("${own-")


def test_a_candidates_timers_give_every_placeholder_a_value() -> None:
    warns = OwnTimers.model_validate({**HASTY.model_dump(by_alias=True), "warned-after": "4h", "warned-by": "5h"})
    for timers in (HASTY, warns):
        assert set(timers.placeholder_values) == set(own_timers.PLACEHOLDERS)
        assert None not in timers.placeholder_values.values()
    assert all(f"${{{name}}}" in CORPUS for name in own_timers.PLACEHOLDERS), "and a scenario uses each"


def test_the_example_on_the_page_is_valid() -> None:
    page = Path(__file__).parents[2] / "docs" / "shifted-clock.md"
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    timers = OwnTimers.model_validate(YAML(typ="safe", pure=True).load(example)["own-timers"])
    assert timers.placeholder_values["own-given-up-after"] == 5 * 86400
