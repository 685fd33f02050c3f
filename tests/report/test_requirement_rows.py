"""Each requirement's outcome in a run, and the cells that are its evidence."""

from conformance.report.cell_view import CellView
from conformance.report.requirement_rows import RequirementRow, requirement_rows
from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome, Verdict
from tests.report.samples import good, judged, passed, run_summary
from tests.requirements.test_catalogue import made, row


def rows(*cells: CellView) -> dict[str, RequirementRow]:
    return {row.id: row for row in requirement_rows(run_summary(*cells).cells, catalogue())}


def test_every_requirement_in_force_has_a_row() -> None:
    for cells in ((), (good(), judged(Outcome.FAIL, "SR-CRE-01"))):
        found = [row.id for row in requirement_rows(run_summary(*cells).cells, catalogue())]
        assert sorted(found) == sorted(catalogue().ids)
    with_a_retired_row = made(row(), row(id="SR-CRE-02", retired="it was the same as another"), row(id="SR-CRE-03"))
    assert [one.id for one in requirement_rows((), with_a_retired_row)] == ["SR-CRE-01", "SR-CRE-03"]


def test_a_requirement_that_no_check_judged_is_inconclusive_with_a_reason() -> None:
    row = rows(good(verdicts=()))["SR-CRE-01"]
    assert (row.outcome, row.reason) == (Outcome.INCONCLUSIVE, "no check of this run judged it")


def test_a_requirement_of_another_generation_is_not_applicable() -> None:
    found = rows(judged(Outcome.PASS, "SR-CRE-01", generations=("ex2010",)))
    assert found["SR-BND-01"].outcome is Outcome.NOT_APPLICABLE
    assert found["SR-BND-06"].outcome is Outcome.INCONCLUSIVE, "it binds every generation"


def test_a_violation_fails_the_first_requirement_and_makes_the_others_inconclusive() -> None:
    found = rows(good(), judged(Outcome.FAIL, "SR-CRE-01", "SR-CRE-02", "SR-CRE-03"))
    assert found["SR-CRE-01"].outcome is Outcome.FAIL
    for other in ("SR-CRE-02", "SR-CRE-03"):
        assert found[other].outcome is Outcome.INCONCLUSIVE
        assert "because SR-CRE-01 is violated" in found[other].reason
    assert found["SR-CRE-05"].outcome is Outcome.PASS


def test_a_pass_in_a_cell_with_a_harness_error_does_not_count() -> None:
    broken = Verdict(check="harness.run", outcome=Outcome.ERROR, sentence="broke")
    held = passed("expect.x", "SR-CRE-01")
    found = rows(good(verdicts=(held, broken)))
    assert found["SR-CRE-01"].outcome is Outcome.ERROR
    assert rows(good(verdicts=(held,)))["SR-CRE-01"].outcome is Outcome.PASS


def test_a_violation_in_one_cell_is_not_undone_by_an_error_in_another() -> None:
    error, violation = judged(Outcome.ERROR, "SR-CRE-01"), judged(Outcome.FAIL, "SR-CRE-01")
    for cells, slug in (((error, violation), "cell-1"), ((violation, error), "cell-0")):
        found = rows(*cells)["SR-CRE-01"]
        assert found.outcome is Outcome.FAIL
        assert [one.slug for one in found.evidence] == [slug]
