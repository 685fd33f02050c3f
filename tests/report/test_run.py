"""What is told of a whole run: ledger, statement, badge, comparison, terminal, and the site on the disk."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from conformance import paths
from conformance.report.cell_pages import PageSelection, cell_page_path, file_stem
from conformance.report.cell_view import CellView
from conformance.report.compare import compare_runs, comparison_text
from conformance.report.requirement_rows import RequirementRow, requirement_rows
from conformance.report.run_page import run_page
from conformance.report.run_summary import RunSummary, cells_of_candidate, read_run_summary, summarize_cell
from conformance.report.site import AllureOptions, build_site
from conformance.report.statement import (
    BadgeRefused,
    Statement,
    make_badge,
    make_statement,
    statement_html,
    statement_json,
    statement_markdown,
)
from conformance.report.terminal import github_annotations, github_step_summary, terminal_summary
from conformance.requirements.catalogue import catalogue
from conformance.results.schema import RunFooter
from conformance.verdicts import Outcome, Verdict
from conformance.verdicts.changes import CellState, ChangeKind
from tests.report.samples import material, passed, run_header, write_run
from tests.report.test_diagram import read

REFERENCE = "reference"


def good(**changes: Any) -> CellView:
    """A cell that confirms every requirement in force."""
    every = tuple(row.id for row in catalogue().requirements)
    return material(**({"verdicts": (passed("expect.all", *every),), "candidate": REFERENCE} | changes))


def judged(outcome: Outcome, *requirements: str, **changes: Any) -> CellView:
    verdict = Verdict(check="expect.x", outcome=outcome, requirements=requirements, sentence=f"it is {outcome}")
    return material(**({"verdicts": (verdict,), "candidate": REFERENCE} | changes))


def book(*cells: CellView, planned: int | None = None, ended: bool = True, **changes: Any) -> RunSummary:
    names = tuple(dict.fromkeys(cell.header.candidate for cell in cells)) or (REFERENCE,)
    count = len(cells) if planned is None else planned
    footer = RunFooter(
        finished="2026-01-02T03:05:05Z",
        outcomes=dict.fromkeys(Outcome, 0),
        cells=count,
        wall_seconds=1,
        cells_per_second=1,
        simulated_per_wall_second=1,
        cpu_per_cell=0,
        interrupted=changes.pop("interrupted", False),
    )
    entries = tuple(summarize_cell(cell, f"cell-{number}") for number, cell in enumerate(cells))
    return RunSummary(run_header(cells=count, candidates=names, **changes), footer if ended else None, entries)


def rows(*cells: CellView) -> dict[str, RequirementRow]:
    return {row.id: row for row in requirement_rows(book(*cells).cells, catalogue())}


def stated(*cells: CellView, **changes: Any) -> Statement:
    return make_statement(book(*cells, **changes), REFERENCE, catalogue())


class TestLedger:
    """Each requirement's verdict."""

    def test_every_requirement_in_force_has_a_row(self) -> None:
        assert set(rows()) == catalogue().ids

    def test_what_nobody_judged_is_inconclusive_and_says_so(self) -> None:
        row = rows(good(verdicts=()))["SR-CRE-01"]
        assert (row.outcome, row.reason) == (Outcome.INCONCLUSIVE, "no check of this run judged it")

    def test_what_binds_other_generations_is_not_applicable(self) -> None:
        row = rows(judged(Outcome.PASS, "SR-CRE-01", generations=("ex2010",)))["SR-BND-01"]
        assert row.outcome is Outcome.NOT_APPLICABLE

    def test_a_violation_is_blamed_on_the_first_requirement_and_leaves_the_others_in_doubt(self) -> None:
        found = rows(good(), judged(Outcome.FAIL, "SR-CRE-01", "SR-CRE-02"))
        assert found["SR-CRE-01"].outcome is Outcome.FAIL
        assert found["SR-CRE-02"].outcome is Outcome.INCONCLUSIVE
        assert "because SR-CRE-01 is violated" in found["SR-CRE-02"].reason
        assert found["SR-CRE-05"].outcome is Outcome.PASS

    def test_a_pass_in_a_cell_that_broke_proves_nothing(self) -> None:
        broken = Verdict(check="harness.run", outcome=Outcome.ERROR, sentence="broke")
        found = rows(good(verdicts=(passed("expect.x", "SR-CRE-01"), broken)))
        assert found["SR-CRE-01"].outcome is Outcome.ERROR

    def test_a_violation_in_one_cell_is_not_undone_by_an_error_in_another(self) -> None:
        found = rows(judged(Outcome.ERROR, "SR-CRE-01"), judged(Outcome.FAIL, "SR-CRE-01"))
        assert found["SR-CRE-01"].outcome is Outcome.FAIL
        assert [one.slug for one in found["SR-CRE-01"].evidence] == ["cell-1"]


class TestBadge:
    """Who may wear it."""

    def test_a_whole_run_without_a_violation_may(self) -> None:
        made = make_badge(stated(good()))
        assert f"{len(catalogue().ids)} of {len(catalogue().ids)} shown" in made.text
        read(made.as_svg())

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"filtered": True}, "only a part"),
            ({"interrupted": True}, "interrupted"),
            ({"planned": 2}, "1 missing"),
            ({"ended": False}, "no end"),
        ],
    )
    def test_a_part_of_a_run_may_not(self, changes: dict[str, Any], why: str) -> None:
        with pytest.raises(BadgeRefused, match=why):
            make_badge(stated(good(), **changes))

    @pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.ERROR])
    def test_a_failed_run_may_not(self, outcome: Outcome) -> None:
        with pytest.raises(BadgeRefused, match=f"cells ended as {outcome}"):
            make_badge(stated(good(), judged(outcome, "SR-CRE-01")))

    def test_a_run_in_which_nothing_passed_may_not(self) -> None:
        with pytest.raises(BadgeRefused, match="nothing passed"):
            make_badge(stated(judged(Outcome.NOT_APPLICABLE, "SR-CRE-01")))

    def test_a_cell_cut_short_takes_it_away(self) -> None:
        whole = good()
        cut = CellView(header=whole.header, events=whole.events, verdicts=whole.verdicts, cut_short=True)
        with pytest.raises(BadgeRefused, match="cut short"):
            make_badge(stated(cut))

    def test_what_is_open_is_told(self) -> None:
        assert ", 1 open" in make_badge(stated(good(), judged(Outcome.INCONCLUSIVE, "SR-CRE-01"))).text


class TestStatement:
    """The three forms of it."""

    def test_json_is_whole_and_can_be_read_again(self) -> None:
        made = stated(good(), judged(Outcome.FAIL, "SR-CRE-01"))
        assert Statement.model_validate_json(statement_json(made)) == made

    def test_markdown_has_a_row_for_each_requirement_and_no_markup_of_others(self) -> None:
        text = statement_markdown(stated(judged(Outcome.FAIL, "SR-CRE-01", axes={"x": "a|b<script>"})))
        assert len(re.findall(r"^\| (?:SR|RL)-", text, re.MULTILINE)) == len(catalogue().ids)
        assert "<script>" not in text
        assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in text.splitlines() if line.startswith("| SR"))

    def test_html_says_why_it_is_no_whole_run(self) -> None:
        page = statement_html(stated(good(), filtered=True))
        read(page)
        assert "only a part of the suite was asked for" in page


class TestCompare:
    """Two runs: the kinds of changes and their causes."""

    @pytest.mark.parametrize(
        ("changes", "cause"),
        [
            ({"candidate_sha256": "0" * 64}, ("candidate",)),
            ({"scenario_sha256": "0" * 64}, ("suite",)),
            ({"environment_sha256": "0" * 64}, ("environment",)),
            ({"seed": 8}, ("settings",)),
            ({}, ()),
        ],
    )
    def test_a_regression_names_what_changed(self, changes: dict[str, Any], cause: tuple[str]) -> None:
        found = compare_runs(book(good()), book(judged(Outcome.FAIL, "SR-CRE-01", **changes)))
        assert [change.causes for change in found.changes_of(ChangeKind.REGRESSION)] == [cause]
        assert (", ".join(cause) or "flaky") in comparison_text(found)

    def test_fixed_added_and_removed_cells_and_the_rest_are_told_apart(self) -> None:
        before = book(judged(Outcome.FAIL, "SR-CRE-01"), good(axes={"a": "1"}), good(axes={"a": "2"}))
        after = book(good(), good(axes={"a": "1"}), good(axes={"a": "3"}))
        found = compare_runs(before, after)
        assert [(change.kind, change.states) for change in found.changes] == [
            (ChangeKind.FIXED, (CellState.FAIL, CellState.PASS)),
            (ChangeKind.OTHER, (CellState.ABSENT, CellState.PASS)),
            (ChangeKind.LOST, (CellState.PASS, CellState.ABSENT)),
        ]
        assert found.same == 1

    def test_a_run_of_a_part_of_the_suite_loses_nothing(self) -> None:
        found = compare_runs(book(good(), good(axes={"a": "2"})), book(good(), filtered=True))
        assert (found.changes, found.same, found.left_out) == ((), 1, 1)
        assert "a part of the suite: 1" in comparison_text(found)

    def test_a_remark_is_a_regression_only_where_should_is_to_fail(self) -> None:
        verdict = passed("expect.x", "SR-CRE-01").model_copy(update={"remark": True, "sentence": "broken"})
        before, after = book(good()), book(material(verdicts=(verdict,), candidate=REFERENCE))
        assert [change.kind for change in compare_runs(before, after).changes] == [ChangeKind.OTHER]
        assert [change.kind for change in compare_runs(before, after, should="fail").changes] == [ChangeKind.REGRESSION]


class TestTerminal:
    """The end of a run."""

    def test_plain_text_has_no_escape_and_keeps_to_its_width(self) -> None:
        text = terminal_summary(
            book(good(), judged(Outcome.FAIL, "SR-CRE-01", axes={"a": "1"})), width=80, colour=False
        )
        assert all(line.isprintable() and len(line) <= 80 for line in text.splitlines())
        assert "1 fail, 1 pass" in text

    def test_colour_is_given_where_it_is_wanted(self) -> None:
        assert "\x1b[" in terminal_summary(book(good()), width=80, colour=True)

    def test_square_brackets_of_a_name_are_no_markup(self) -> None:
        text = terminal_summary(book(judged(Outcome.FAIL, "SR-CRE-01", axes={"a": "[red]"})), width=80, colour=False)
        assert "[a=[red]]" in text

    def test_github_is_told_of_violations_as_errors_with_their_line(self) -> None:
        lines = list(
            github_annotations(book(material(candidate=REFERENCE), judged(Outcome.INCONCLUSIVE, "SR-CRE-01"), good()))
        )
        assert [line.split(" ")[0] for line in lines] == ["::error", "::warning"]
        assert "file=scenarios/creation/inbound.scenario.yaml,line=5," in lines[0]

    def test_the_step_summary_has_the_matrix_and_the_sentences(self) -> None:
        text = github_step_summary(book(good(), judged(Outcome.FAIL, "SR-CRE-01", scenario="other")))
        assert "| ✗ 1 |" in text
        assert "it is fail" in text


class TestSite:
    """The pages of a run on the disk."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Path:
        cells = (good(axes={"a": "1"}), material(candidate="a b/c"), judged(Outcome.NOT_APPLICABLE, "SR-CRE-01"))
        return write_run(tmp_path / "r1", cells)

    @pytest.mark.parametrize(
        ("paged", "cells"), [(PageSelection(every=True), 3), (None, 1)], ids=["all", "with findings"]
    )
    def test_every_link_leads_somewhere_and_every_page_is_sound(
        self, run: Path, tmp_path: Path, paged: PageSelection | None, cells: int
    ) -> None:
        built = build_site(run, tmp_path / "site", paged=paged)
        pages = list((tmp_path / "site").rglob("*.html"))
        assert len(pages) == 1 + cells + 2
        ids = {page: {v for _, n, v in read(page.read_text()).attributes if n == "id"} for page in pages}
        for page in pages:
            for tag, name, value in read(page.read_text()).attributes:
                if tag == "a" and name == "href":
                    place, _, anchor = value.partition("#")
                    target = (page.parent / place).resolve() if place else page
                    assert target in ids, value
                    assert not anchor or anchor in ids[target], value
        assert built.run.outcomes[Outcome.FAIL] == 1

    def test_a_badge_of_an_earlier_build_does_not_outlive_a_refusal(self, tmp_path: Path) -> None:
        out = tmp_path / "site"
        assert build_site(write_run(tmp_path / "r1", (good(),)), out).badges
        assert not build_site(write_run(tmp_path / "r2", (judged(Outcome.FAIL, "SR-CRE-01"),)), out).badges
        assert not list(out.rglob("*.svg"))

    def test_without_allures_results_it_says_so(self, run: Path, tmp_path: Path) -> None:
        allure = AllureOptions(paths.allure(), tmp_path / "cache")
        notes = build_site(run, tmp_path / "site", allure=allure).notes
        assert any("no Allure site: the run has no allure-results" in note for note in notes)

    def test_without_the_pinned_allure_it_says_how_to_get_it(self, run: Path, tmp_path: Path) -> None:
        (run / "allure-results").mkdir()
        pinned = tmp_path / "pinned"
        pinned.mkdir()
        (pinned / "package-lock.json").write_text("{}")
        notes = build_site(run, tmp_path / "site", allure=AllureOptions(pinned, tmp_path / "cache")).notes
        assert any("--install-allure" in note for note in notes)

    def test_the_statement_on_the_disk_is_that_of_the_candidate(self, run: Path, tmp_path: Path) -> None:
        build_site(run, tmp_path / "site")
        made = json.loads((tmp_path / "site" / "statements" / "reference.json").read_text())
        assert made["candidate"]["name"] == REFERENCE
        assert made["cells"] == {"fail": 0, "error": 0, "inconclusive": 0, "pass": 1, "not-applicable": 1}

    def test_a_damaged_cell_is_told_and_the_others_are_shown(self, run: Path) -> None:
        (run / "cells" / "bad.jsonl").write_text("{\n")
        found = read_run_summary(run)
        assert len(found.cells) == 3
        assert found.damage
        assert "could not be read" in run_page(found, catalogue())

    def test_a_page_is_called_by_candidate_scenario_and_axes_and_nothing_is_cut(self) -> None:
        header = material(scenario="s", candidate="a+b", axes={"x": "1", "y": "v" * 90}).header
        assert cell_page_path(header) == f"a+b/s/x=1,y={'v' * 90}.html"
        assert cell_page_path(material(scenario="s", candidate="a+b", axes={}).header) == "a+b/s.html"
        long = cell_page_path(material(axes={"x": "v" * 500}).header)
        assert long.count("v") >= 500
        assert max(map(len, long.split("/"))) <= 255

    def test_pages_of_different_cells_differ_and_their_names_stand_in_addresses_as_they_are(self) -> None:
        values = ["a/b", "a b", "a-b", "..", "é", "%41", "A", "a#b", "a?b", "~2E.", ""]
        names = [cell_page_path(material(scenario="s", axes={"x": value}).header) for value in values]
        assert len(set(names)) == len(values)
        assert all(re.fullmatch(r"[A-Za-z0-9_+=,@.~/-]+", name) for name in names)
        assert ".." not in [part for name in names for part in name.split("/")]
        header = material(path="other/file.scenario.yaml").header
        assert cell_page_path(header, {cell_page_path(header)}) != cell_page_path(header)

    def test_two_candidates_never_share_a_file(self) -> None:
        names = ["reference", "a/b", "a-b", "a b", "..", ""]
        assert len({file_stem(name) for name in names}) == len(names)
        assert not [name for name in names if "/" in file_stem(name) or file_stem(name).startswith(".")]


def test_cells_are_told_by_candidate() -> None:
    cells = book(good(), material(candidate="other")).cells
    assert [cell.outcome for cell in cells_of_candidate(cells, "other")] == [Outcome.FAIL]
