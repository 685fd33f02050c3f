"""The pages of a run on the disk: their names, links, and notes about missing parts."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance import paths
from conformance.cli import app
from conformance.report.cell_pages import PageSelection, cell_page_path, file_stem
from conformance.report.run_page import run_page
from conformance.report.run_summary import cells_of_candidate, read_run_summary
from conformance.report.site import AllureOptions, build_site
from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome
from tests.report.samples import REFERENCE, cell_view, good, judged, run_summary, write_run
from tests.report.test_diagram import read


@pytest.fixture
def run(tmp_path: Path) -> Path:
    cells = (good(axes={"a": "1"}), cell_view(candidate="a b/c"), judged(Outcome.NOT_APPLICABLE, "SR-CRE-01"))
    return write_run(tmp_path / "r1", cells)


@pytest.mark.parametrize(("paged", "cells"), [(PageSelection(every=True), 3), (None, 1)], ids=["all", "with findings"])
def test_every_link_has_a_target_and_every_page_is_well_formed(
    run: Path, tmp_path: Path, paged: PageSelection | None, cells: int
) -> None:
    built = build_site(run, tmp_path / "site", paged=paged)
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) == 1 + cells + 2
    ids = {page: {v for _, n, v in read(page.read_text()).attributes if n == "id"} for page in pages}
    leading: set[Path] = set()
    for page in pages:
        for tag, name, value in read(page.read_text()).attributes:
            if tag == "link" and name == "href":
                assert (page.parent / value).is_file(), value
            if tag == "a" and name == "href":
                place, _, anchor = value.partition("#")
                target = (page.parent / place).resolve() if place else page
                assert target in ids, value
                assert not anchor or anchor in ids[target], value
                leading |= {page} if target != page else set()
    assert leading == set(pages), "each page has a link to another one"
    assert built.run.outcomes[Outcome.FAIL] == 1


def test_a_badge_of_an_earlier_build_is_deleted_when_the_badge_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "site"
    assert build_site(write_run(tmp_path / "r1", (good(),)), out).badges
    files = {"reference.svg", "reference.badge.json"}
    assert files <= {path.name for path in (out / "statements").iterdir()}
    assert not build_site(write_run(tmp_path / "r2", (judged(Outcome.FAIL, "SR-CRE-01"),)), out).badges
    assert not files & {path.name for path in (out / "statements").iterdir()}


def test_a_site_without_allure_results_has_a_note(run: Path, tmp_path: Path) -> None:
    allure = AllureOptions(paths.allure(), tmp_path / "cache")
    notes = build_site(run, tmp_path / "site", allure=allure).notes
    assert any("no Allure site: the run has no allure-results" in note for note in notes)
    assert not any("allure-results" in note for note in build_site(run, tmp_path / "site").notes), (
        "nobody asked for one"
    )


def test_a_site_without_the_pinned_allure_notes_how_to_install_it(run: Path, tmp_path: Path) -> None:
    (run / "allure-results").mkdir()
    pinned = tmp_path / "pinned"
    pinned.mkdir()
    (pinned / "package-lock.json").write_text("{}")
    notes = build_site(run, tmp_path / "site", allure=AllureOptions(pinned, tmp_path / "cache")).notes
    (command,) = re.findall(r"the pinned Allure is not installed: run `conformance (.*)` once", "\n".join(notes))
    assert "--install-allure" in command
    for words, code in ((command, 0), (f"{command} --no-such-option", 2)):
        assert CliRunner().invoke(app, f"{words} --help").exit_code == code, "the command has the option"
    assert not any("the run has no allure-results" in note for note in notes)


def test_the_statement_file_of_a_candidate_counts_its_cells(run: Path, tmp_path: Path) -> None:
    build_site(run, tmp_path / "site")
    made = json.loads((tmp_path / "site" / "statements" / "reference.json").read_text())
    assert made["candidate"]["name"] == REFERENCE
    assert made["cells"] == {"fail": 0, "error": 0, "inconclusive": 0, "pass": 1, "not-applicable": 1}


def test_a_damaged_cell_is_reported_and_the_others_are_shown(run: Path) -> None:
    (run / "cells" / "bad.jsonl").write_text("{\n")
    found = read_run_summary(run)
    assert len(found.cells) == 3
    assert [line.startswith("bad.jsonl:1: ") for line in found.damage] == [True]
    page = run_page(found, catalogue())
    assert "could not be read" in page
    matrix = re.search(r'<h2 id="matrix">.*?</table>', page, re.DOTALL)
    assert matrix is not None
    cells = [("pass", "a=1"), ("not-applicable", "messages=1"), ("fail", "messages=1")]
    assert re.findall(r'<li><span class="dot (\S+)".*?class="mono">([^<]*)<', matrix[0]) == cells


def test_the_path_of_a_page_has_candidate_scenario_and_all_axes() -> None:
    header = cell_view(scenario="s", candidate="a+b", axes={"x": "1", "y": "v" * 90}).header
    assert cell_page_path(header) == f"a+b/s/x=1,y={'v' * 90}.html"
    assert cell_page_path(cell_view(scenario="s", candidate="a+b", axes={}).header) == "a+b/s.html"
    long = cell_page_path(cell_view(axes={"x": "v" * 500}).header)
    assert long.count("v") >= 500
    assert max(map(len, long.split("/"))) <= 255


def test_paths_of_different_cells_differ_and_need_no_quoting_in_urls() -> None:
    values = ["a/b", "a b", "a-b", "..", "é", "%41", "A", "a#b", "a?b", "~2E.", ""]
    names = [cell_page_path(cell_view(scenario="s", axes={"x": value}).header) for value in values]
    names += [cell_page_path(cell_view(scenario="t", axes={}).header)]
    names += [
        cell_page_path(cell_view(scenario="t", axes={}, candidate=name).header)
        for name in ("other", "other/t", "é", "..", "~2E.")
    ]
    header = cell_view(path="other/file.scenario.yaml").header
    names += [cell_page_path(header), cell_page_path(header, {cell_page_path(header)})]
    assert len(set(names)) == len(values) + 8
    assert all(re.fullmatch(r"[A-Za-z0-9_+=,@.~/-]+", name) for name in names)
    assert ".." not in [part for name in names for part in name.split("/")]


def test_different_candidates_have_different_file_names() -> None:
    names = ["reference", "a/b", "a-b", "a b", "..", ""]
    assert len({file_stem(name) for name in names}) == len(names)
    assert not [name for name in names if "/" in file_stem(name) or file_stem(name).startswith(".")]


def test_cells_are_selected_by_candidate() -> None:
    cells = run_summary(good(), cell_view(candidate="other"), good(axes={"a": "2"})).cells
    assert cells_of_candidate(cells, "other") == (cells[1],)
    assert cells_of_candidate(cells, REFERENCE) == (cells[0], cells[2])
