"""The selection of cells that get a page, and links only to pages that exist."""

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.cli import app
from conformance.report.cell_pages import PageSelection
from conformance.report.earlier_runs import EarlierOutcome
from conformance.report.site import build_site
from conformance.verdicts import Outcome, Verdict
from tests.report.samples import cell_view, passed, write_run
from tests.report.test_diagram import read

WITH_A_FINDING = {"bad", "broken", "unsure", "remarked", "torn"}
WITHOUT_FINDING = {"good", "well", "absent"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    broken, unsure, absent = (
        Verdict(check="c", outcome=outcome, sentence="late")
        for outcome in (Outcome.ERROR, Outcome.INCONCLUSIVE, Outcome.NOT_APPLICABLE)
    )
    remark = passed().model_copy(update={"remark": True, "sentence": "a should row is broken"})
    cells = (
        cell_view(axes={"x": "bad"}),
        cell_view(axes={"x": "good"}, verdicts=(passed(),)),
        cell_view(axes={"x": "well"}, verdicts=(passed(),)),
        cell_view(axes={"x": "broken"}, verdicts=(broken, passed())),
        cell_view(axes={"x": "unsure"}, verdicts=(unsure, passed())),
        cell_view(axes={"x": "absent"}, verdicts=(absent,)),
        cell_view(axes={"x": "remarked"}, verdicts=(remark,)),
        replace(cell_view(axes={"x": "torn"}, verdicts=(passed(),)), cut_short=True),
    )
    return write_run(tmp_path / "run", cells)


def paged(run: Path, out: Path, selection: PageSelection | None = None) -> set[str]:
    """Build a site, and return the value of x of each cell that has a page."""
    build_site(run, out, paged=selection)
    return words_with_page(out)


def words_with_page(out: Path) -> set[str]:
    """Assert that no link of a site is dead, and return the value of x of each cell that has a page."""
    for page in out.rglob("*.html"):
        for tag, name, value in read(page.read_text("utf-8")).attributes:
            if tag == "a" and name == "href" and not value.startswith("#"):
                assert (page.parent / value.partition("#")[0]).is_file(), (page, value)
    pages = [path.read_text("utf-8") for path in (out / "cells").rglob("*.html")]
    return {word for word in WITH_A_FINDING | WITHOUT_FINDING if any(f"[x={word}]" in page for page in pages)}


def test_only_cells_with_a_finding_have_a_page_and_the_run_page_names_the_command_for_the_others(
    run: Path, tmp_path: Path
) -> None:
    """A cell has a finding too if it has a remark, was cut short, or is flaky."""
    assert paged(run, tmp_path / "site") == WITH_A_FINDING
    text = (tmp_path / "site" / "index.html").read_text("utf-8")
    command = f"conformance report {run} --out {tmp_path / 'site'} --all"
    assert command in text
    assert "x=good" in text
    with pytest.raises(SystemExit) as ended:
        app(args=command.split()[1:])
    assert ended.value.code == 0
    assert words_with_page(tmp_path / "site") == WITH_A_FINDING | WITHOUT_FINDING
    well, other = cell_view(verdicts=(passed(),)), EarlierOutcome("r0", Outcome.FAIL, causes=("candidate",))
    assert PageSelection().includes(well, [replace(other, causes=())]), "it is flaky"
    assert not PageSelection().includes(well, [other, replace(other, outcome=Outcome.PASS, causes=())])


def test_all_cells_have_a_page_on_request(run: Path, tmp_path: Path) -> None:
    assert paged(run, tmp_path / "site", PageSelection(every=True)) == WITH_A_FINDING | WITHOUT_FINDING
    assert "--all" not in (tmp_path / "site" / "index.html").read_text("utf-8")


def test_a_cell_selected_by_its_text_has_a_page_too(run: Path, tmp_path: Path) -> None:
    assert paged(run, tmp_path / "site", PageSelection(texts=("x=good",))) == WITH_A_FINDING | {"good"}
