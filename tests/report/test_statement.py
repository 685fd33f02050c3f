"""The badge and the three forms of a statement of conformance."""

import json
import re
from typing import Any

import pytest

from conformance.report.cell_view import CellView
from conformance.report.statement import (
    Badge,
    BadgeRefused,
    Statement,
    make_badge,
    make_statement,
    statement_html,
    statement_json,
    statement_markdown,
)
from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome, Verdict
from tests.report.samples import REFERENCE, cell_view, good, judged, run_summary
from tests.report.test_diagram import read


def stated(*cells: CellView, **changes: Any) -> Statement:
    return make_statement(run_summary(*cells, **changes), REFERENCE, catalogue())


def test_a_whole_run_without_a_violation_gets_a_badge() -> None:
    made = make_badge(stated(good()))
    assert f"{len(catalogue().ids)} of {len(catalogue().ids)} shown" in made.text
    svg = made.as_svg()
    read(svg)
    assert made.text in svg


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"filtered": True}, "only a part"),
        ({"interrupted": True}, "interrupted"),
        ({"planned": 2}, "1 missing"),
        ({"ended": False}, "no end"),
    ],
)
def test_a_part_of_a_run_gets_no_badge(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(BadgeRefused, match=why):
        make_badge(stated(good(), **changes))


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.ERROR])
def test_a_failed_run_gets_no_badge(outcome: Outcome) -> None:
    with pytest.raises(BadgeRefused, match=f"cells ended as {outcome}"):
        make_badge(stated(good(), judged(outcome, "SR-CRE-01")))


def test_a_run_in_which_nothing_passed_gets_no_badge() -> None:
    with pytest.raises(BadgeRefused, match="nothing passed"):
        make_badge(stated(judged(Outcome.NOT_APPLICABLE, "SR-CRE-01")))


def test_a_run_with_an_incomplete_cell_gets_no_badge() -> None:
    whole = good()
    cut = CellView(header=whole.header, events=whole.events, verdicts=whole.verdicts, cut_short=True)
    with pytest.raises(BadgeRefused, match="cut short"):
        make_badge(stated(cut))


def test_the_badge_counts_open_requirements() -> None:
    both = judged(Outcome.INCONCLUSIVE, "SR-CRE-01", "SR-CRE-02")
    assert ", 2 open" in make_badge(stated(good(), both)).text


def test_the_badge_endpoint_has_the_fields_that_shields_reads() -> None:
    endpoint = json.loads(Badge("112 of 112 shown", "#0a6449").as_endpoint())
    assert endpoint == {
        "schemaVersion": 1,
        "label": "mail conformance",
        "message": "112 of 112 shown",
        "color": "0a6449",
    }


def test_the_json_statement_can_be_read_back() -> None:
    made = stated(good(), judged(Outcome.FAIL, "SR-CRE-01"))
    assert Statement.model_validate_json(statement_json(made)) == made


def test_the_markdown_statement_has_a_row_for_each_requirement_and_no_live_markup() -> None:
    """The candidate, and a cell's file, axis, check, message, sentence and reply have markup."""
    markup = "a|b<script>![c](d)`*"
    reply = next(event.n for event in cell_view().events if event.kind == "reply" and event.to == "MAIL")
    wrong = Verdict(
        check=markup,
        outcome=Outcome.FAIL,
        requirements=("SR-CRE-01",),
        sentence=markup,
        evidence=(reply,),
        message=markup,
    )
    names = {"candidate": markup, "path": markup, "axes": {"x": markup}}
    cell = cell_view(hostile=markup, verdicts=(wrong,), **names)
    text = statement_markdown(make_statement(run_summary(cell, filtered=True), markup, catalogue()))
    rows = re.findall(r"^\| ((?:SR|RL)-\S+) (.*)$", text, re.MULTILINE)
    assert sorted(row for row, _ in rows) == sorted(catalogue().ids)
    assert f"\n- candidate: ``{markup} " in text, "a code span, with more backticks than it contains"
    outside = "\n".join(line for line in text.splitlines() if not line.startswith("- "))
    assert outside.count(r"a\|b&lt;script&gt;\!\[c\]\(d\)\`\*") == outside.count("script") == 7
    assert all(len(re.findall(r"(?<!\\)\|", rest)) == 4 for _, rest in rows)


def test_the_html_statement_says_that_the_run_was_filtered() -> None:
    page = statement_html(stated(good(), filtered=True))
    read(page)
    assert "only a part of the suite was asked for" in page
    assert "only a part of the suite was asked for" not in statement_html(stated(good()))
