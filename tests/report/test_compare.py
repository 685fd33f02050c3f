"""The comparison of two runs: kinds of changes and their causes."""

from typing import Any

import pytest

from conformance.report.compare import compare_runs, comparison_text
from conformance.verdicts import Outcome
from conformance.verdicts.changes import CellState, ChangeKind
from tests.report.samples import REFERENCE, cell_view, good, judged, passed, run_summary


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"candidate_sha256": "0" * 64}, ("candidate",)),
        ({"scenario_sha256": "0" * 64}, ("suite",)),
        ({"environment_sha256": "0" * 64}, ("environment",)),
        ({"seed": 8}, ("settings",)),
        ({"clock": "real"}, ("settings",)),
        ({"scale": 2.0}, ("settings",)),
        ({"tolerance": 1.0}, ("settings",)),
        ({"should": "warn"}, ("settings",)),
        ({"started": "2026-01-02T04:00:00Z"}, ()),
        ({"candidate_sha256": "0" * 64, "seed": 8}, ("candidate", "settings")),
        ({}, ()),
    ],
)
def test_a_regression_names_its_causes(changes: dict[str, Any], cause: tuple[str, ...]) -> None:
    found = compare_runs(run_summary(good()), run_summary(judged(Outcome.FAIL, "SR-CRE-01", **changes)))
    assert [change.causes for change in found.changes_of(ChangeKind.REGRESSION)] == [cause]
    said = f"(changed: {', '.join(cause)})" if cause else "(nothing recorded changed: it may be flaky)"
    assert said in comparison_text(found)


def test_fixed_added_removed_and_unchanged_cells_are_distinguished() -> None:
    before = run_summary(judged(Outcome.FAIL, "SR-CRE-01"), good(axes={"a": "1"}), good(axes={"a": "2"}))
    after = run_summary(good(), good(axes={"a": "1"}), good(axes={"a": "3"}))
    found = compare_runs(before, after)
    assert [(change.kind, change.states) for change in found.changes] == [
        (ChangeKind.FIXED, (CellState.FAIL, CellState.PASS)),
        (ChangeKind.OTHER, (CellState.ABSENT, CellState.PASS)),
        (ChangeKind.LOST, (CellState.PASS, CellState.ABSENT)),
    ]
    assert found.same == 1


def test_a_run_of_a_part_of_the_suite_loses_nothing() -> None:
    found = compare_runs(run_summary(good(), good(axes={"a": "2"})), run_summary(good(), filtered=True))
    assert (found.changes, found.same, found.left_out) == ((), 1, 1)
    assert "a part of the suite: 1" in comparison_text(found)
    whole = compare_runs(run_summary(good(), good(axes={"a": "2"})), run_summary(good()))
    assert [change.kind for change in whole.changes] == [ChangeKind.LOST]


def test_a_remark_is_a_regression_only_where_should_is_to_fail() -> None:
    verdict = passed("expect.x", "SR-CRE-01").model_copy(update={"remark": True, "sentence": "broken"})
    before, after = run_summary(good()), run_summary(cell_view(verdicts=(verdict,), candidate=REFERENCE))
    assert [change.kind for change in compare_runs(before, after).changes] == [ChangeKind.OTHER]
    assert [change.kind for change in compare_runs(before, after, should="fail").changes] == [ChangeKind.REGRESSION]
