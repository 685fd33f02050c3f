"""Root causes: violated requirements that may follow from another one are listed below it in every report."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.report.allure_run_files import allure_categories, write_categories
from conformance.report.cell_view import CellView
from conformance.report.failure_text import failure_text
from conformance.report.root_causes import find_root_causes, order_by_root_cause
from conformance.report.run_page import run_page
from conformance.report.terminal import github_step_summary, terminal_summary
from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome, Verdict
from tests.report.samples import cell_view, good, judged, run_summary

RUN = run_summary(
    judged(Outcome.FAIL, "SR-MNT-04", axes={"a": "1"}),
    judged(Outcome.FAIL, "RL-CNT-01", axes={"a": "2"}),
    judged(Outcome.FAIL, "SR-PRF-01", axes={"a": "3"}),
    judged(Outcome.FAIL, "SR-CRE-01", axes={"a": "4"}),
    judged(Outcome.INCONCLUSIVE, "SR-CRE-01", axes={"a": "5"}),
    good(axes={"a": "6"}),
)
SENTENCE = "SR-CRE-01 is violated (3 cells); 2 rows may follow from SR-CRE-01: SR-MNT-04, SR-PRF-01"


def failed(check: str, *requirements: str) -> Verdict:
    return Verdict(check=check, outcome=Outcome.FAIL, requirements=requirements, sentence=f"{check} is wrong")


def test_the_cause_of_most_cells_comes_first_with_the_requirements_that_may_follow():
    first, second = find_root_causes(RUN.cells)
    assert first.sentence == SENTENCE
    assert second.sentence == "RL-CNT-01 is violated (1 cell)"


def test_cells_that_violate_a_cause_come_before_cells_that_may_follow_from_it():
    troubles = [cell for cell in RUN.cells if cell.outcome is not Outcome.PASS]
    places = [(cell.name[-4:], root) for cell, root in order_by_root_cause(troubles, find_root_causes(RUN.cells))]
    assert places == [("a=4]", ""), ("a=1]", "SR-CRE-01"), ("a=3]", "SR-CRE-01"), ("a=2]", ""), ("a=5]", "")]


def test_every_candidate_has_its_own_causes():
    found = find_root_causes(
        run_summary(judged(Outcome.FAIL, "SR-MNT-04"), judged(Outcome.FAIL, "SR-CRE-01", candidate="mine")).cells
    )
    assert [(one.candidate, one.requirement, one.following) for one in found] == [
        ("reference", "SR-MNT-04", ()),
        ("mine", "SR-CRE-01", ()),
    ]
    rows = ("SR-MNT-04", "SR-CRE-01")
    (one,) = find_root_causes(run_summary(*(judged(Outcome.FAIL, row, axes={"a": row}) for row in rows)).cells)
    assert (one.requirement, one.following) == ("SR-CRE-01", ("SR-MNT-04",)), "of one candidate, one follows"


def test_a_row_does_not_follow_from_one_that_is_blamed_in_fewer_cells():
    cells = run_summary(
        judged(Outcome.FAIL, "SR-PRF-01", axes={"a": "1"}),
        judged(Outcome.FAIL, "SR-PRF-01", axes={"a": "2"}),
        judged(Outcome.FAIL, "SR-CRE-01", axes={"a": "3"}),
        judged(Outcome.FAIL, "SR-CRE-01", axes={"a": "4"}),
    ).cells
    assert [(one.requirement, one.cells, one.following) for one in find_root_causes(cells[:3])] == [
        ("SR-PRF-01", 2, ()),
        ("SR-CRE-01", 1, ()),
    ]
    assert [(one.requirement, one.cells, one.following) for one in find_root_causes(cells)] == [
        ("SR-CRE-01", 4, ("SR-PRF-01",))
    ]


def contrasted(**changes: Any) -> CellView:
    """Return a cell in which SR-ENA-01 is violated, and SR-CRE-01 holds after ShadowRedundancyEnabled was switched on."""
    on = Verdict(check="expect.shadow", outcome=Outcome.PASS, requirements=("SR-CRE-01",), step="9")
    off = failed("expect.shadow", "SR-ENA-01").model_copy(update={"step": "2"})
    return cell_view(verdicts=(off, on), candidate="reference", **changes)


def test_an_independently_violated_requirement_is_the_cause_of_the_one_it_presupposes_and_its_followers():
    cells = run_summary(
        judged(Outcome.FAIL, "SR-CRE-01", axes={"a": "1"}),
        judged(Outcome.FAIL, "SR-CRE-01", axes={"a": "2"}),
        judged(Outcome.FAIL, "SR-MNT-04", axes={"a": "3"}),
        contrasted(axes={"a": "4"}),
    ).cells
    assert [(one.requirement, one.cells, one.following) for one in find_root_causes(cells)] == [
        ("SR-ENA-01", 4, ("SR-CRE-01", "SR-MNT-04"))
    ]
    assert [cell.name[-4:] for cell, _ in order_by_root_cause(cells, find_root_causes(cells))] == [
        "a=4]",
        "a=1]",
        "a=2]",
        "a=3]",
    ]
    known = [replace(cell, known="since May") if "a=4" in cell.name else cell for cell in cells]
    assert [one.requirement for one in find_root_causes(known)] == ["SR-CRE-01"]


def test_of_causes_with_equal_numbers_of_cells_the_one_that_fewer_cells_judge_comes_first():
    cells = run_summary(
        judged(Outcome.FAIL, "RL-RTY-01", axes={"a": "1"}, requirements=("RL-RTY-01",)),
        judged(Outcome.FAIL, "SR-MNT-14", axes={"a": "2"}, requirements=("SR-MNT-14",)),
        judged(Outcome.PASS, "RL-RTY-01", axes={"a": "3"}, requirements=("RL-RTY-01",)),
        judged(Outcome.NOT_APPLICABLE, "SR-MNT-14", axes={"a": "4"}, requirements=("SR-MNT-14",)),
        judged(Outcome.NOT_APPLICABLE, "SR-MNT-14", axes={"a": "5"}, requirements=("SR-MNT-14",)),
    ).cells
    assert [one.requirement for one in find_root_causes(cells)] == ["SR-MNT-14", "RL-RTY-01"]


def test_a_known_failure_is_not_a_cause():
    cells = run_summary(judged(Outcome.FAIL, "SR-CRE-01")).cells
    known = tuple(replace(cell, known="since May") for cell in cells)
    assert [len(find_root_causes(some)) for some in (cells, known)] == [1, 0]


def test_terminal_step_summary_and_page_show_the_cause_first():
    other = "RL-CNT-01 is violated (1 cell)"
    text = " ".join(terminal_summary(RUN, width=100, colour=False).split())
    assert text.index(SENTENCE) < text.index(other) < text.index("[a=4]") < text.index("[a=1]") < text.index("[a=2]")
    assert text.count("may follow from SR-CRE-01 ") == 2
    markdown = github_step_summary(RUN).replace("\\", "")
    cells = [markdown.index(f"[a={number}]") for number in range(1, 6)]
    assert markdown.index(SENTENCE) < markdown.index(other) < min(cells)
    page = run_page(RUN, catalogue())
    assert page.index(SENTENCE) < page.index(other) < page.index("<article")
    assert page.count("May follow from SR-CRE-01.") == 2
    assert page.count("<article") == 5


def test_allure_has_a_category_for_a_cause_and_one_for_what_may_follow(tmp_path: Path):
    write_categories(tmp_path, find_root_causes(RUN.cells))
    written = json.loads((tmp_path / "categories.json").read_text("utf-8"))
    assert [one["name"] for one in written[:3]] == [
        "SR-CRE-01 is violated (3 cells)",
        "may follow from SR-CRE-01",
        "RL-CNT-01 is violated (1 cell)",
    ]
    assert written[3:] == allure_categories()
    for category, rows in enumerate((["SR-CRE-01"], ["SR-MNT-04", "SR-PRF-01"], ["RL-CNT-01"])):
        for row in rows:
            text = failure_text(cell_view(verdicts=(failed("expect.x", row),)))
            found = [bool(re.fullmatch(one["messageRegex"], text)) for one in written[:3]]
            assert found == [number == category for number in range(3)], row


def test_a_cells_failure_text_separates_findings_that_may_follow():
    text = failure_text(
        cell_view(
            verdicts=(
                failed("expect.shadow", "SR-CRE-01"),
                failed("expect.other", "RL-CNT-01"),
                failed("expect.queried", "SR-MNT-03"),
            )
        )
    )
    also, follows = text.index("also found"), text.index("may follow from SR-CRE-01")
    assert also < text.index("expect.other") < follows < text.index("expect.queried")
