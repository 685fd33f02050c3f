"""Earlier runs: which of them count, how a cell ended in them, and when that makes it flaky."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from conformance.report.cell_page import cell_page
from conformance.report.earlier_runs import find_earlier_runs, find_flaky_outcome, read_earlier_outcomes
from conformance.report.run_page import run_page
from conformance.report.run_summary import read_run_summary
from conformance.report.site import build_site
from conformance.requirements.catalogue import catalogue
from conformance.results.layout import cell_files, slug_of
from conformance.results.writer import finish_run
from conformance.verdicts import Outcome
from tests.report.samples import cell_view, passed, write_run
from tests.results.stored import plain, rewrite

CANDIDATE = cell_view().header.candidate


def made(folder: Path, name: str, started: str, *, ended: bool = True, **changes: Any) -> Path:
    """Write a run of one cell that began at `started`."""
    cell = changes.pop("cell", None) or cell_view(**changes)
    path = write_run(folder / name, (cell,), run=name, started=started)
    if not ended:
        (path / "footer.json").unlink()
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write two runs that differ in nothing but time and outcome, the earlier passed; return the later."""
    made(tmp_path, "first", "2026-01-02T03:04:05Z", verdicts=(passed(),))
    return made(tmp_path, "second", "2999-01-01T00:00:00Z")


def test_earlier_runs_of_the_same_candidate_count_the_oldest_first(runs: Path) -> None:
    folder = runs.parent
    third = made(folder, "a-third", "2998-01-01T00:00:00Z")
    later = made(folder, "later", "2998-01-01T00:00:00Z")
    for run, moment in ((folder / "first", "2026-01-03"), (third, "2998-01-02"), (later, "2999-01-02")):
        footer = json.loads((run / "footer.json").read_bytes())
        (run / "footer.json").write_text(json.dumps(footer | {"finished": f"{moment}T00:00:00Z"}))
    made(folder, "unended", "2026-01-02T03:04:05Z", ended=False)
    made(folder, "other-candidate", "2026-01-02T03:04:05Z", candidate="another")
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    assert [run_before.header.run for run_before in find_earlier_runs(runs, folder)] == ["first", "a-third"]
    assert [run_before.header.run for run_before in find_earlier_runs(runs, folder, max_runs=1)] == ["a-third"]


def test_a_cell_whose_outcome_changed_without_a_cause_is_flaky(runs: Path) -> None:
    before = find_earlier_runs(runs, runs.parent)
    slug = slug_of(cell_files(runs)[0])
    earlier_outcomes = read_earlier_outcomes(before, slug, cell_view().header)
    assert [(one.run, one.outcome, one.causes) for one in earlier_outcomes] == [("first", Outcome.PASS, ())]
    assert find_flaky_outcome(Outcome.FAIL, earlier_outcomes) == earlier_outcomes[0]
    assert find_flaky_outcome(Outcome.PASS, earlier_outcomes) is None
    assert "flaky" in cell_page(cell_view(), earlier_outcomes=earlier_outcomes)


def test_a_cell_of_another_candidate_build_is_not_flaky(runs: Path) -> None:
    slug = slug_of(cell_files(runs)[0])
    changed = cell_view(candidate_sha256="0" * 64).header
    earlier_outcomes = read_earlier_outcomes(find_earlier_runs(runs, runs.parent), slug, changed)
    assert earlier_outcomes[0].causes == ("candidate",)
    assert find_flaky_outcome(Outcome.FAIL, earlier_outcomes) is None
    assert "flaky" not in cell_page(cell_view(candidate_sha256="0" * 64), earlier_outcomes=earlier_outcomes)


def test_an_earlier_outcome_that_was_not_finished_is_skipped(runs: Path) -> None:
    first = runs.parent / "first"
    file = cell_files(first)[0]
    whole = plain(file)
    made(runs.parent, "whole", "2026-01-02T03:04:05Z", verdicts=(passed(),))

    def found() -> list[str]:
        before = find_earlier_runs(runs, runs.parent)
        assert {run_before.path for run_before in before} == {first, runs.parent / "whole"}
        return sorted(one.run for one in read_earlier_outcomes(before, slug_of(file), cell_view().header))

    assert found() == ["first", "whole"]
    for content in (b"".join(whole.splitlines(keepends=True)[:-1]), b"{}\n"):
        rewrite(file, content)
        finish_run(first, wall_seconds=1)
        assert found() == ["whole"]


def test_the_run_page_shows_an_earlier_run_and_how_a_cell_ended_in_it(runs: Path, tmp_path: Path) -> None:
    build_site(runs, tmp_path / "site", earlier=find_earlier_runs(runs, runs.parent))
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    trend = page[page.index('id="trend"') :]
    assert re.findall(r'<tr><th scope="row"><span class="mono">([^<]*)</span>', trend) == ["first", "second"]
    assert "In run first this cell ended as pass" in page
    assert 'id="trend"' not in run_page(read_run_summary(runs), catalogue())
