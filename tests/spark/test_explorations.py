"""The tables of explorations: what is new in each, and which findings are the same, over all explorations of a candidate."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from conformance.commands.aggregate import aggregate_runs
from conformance.results.exploration import ExplorationHeader, ExplorationSummary
from conformance.results.layout import RunDirectoryError, SchemaTooNew
from conformance.results.schema import CandidateRecord
from conformance.spark.explorations import read_explorations
from conformance.spark.ingest import find_directories
from tests.report.exploration_samples import finding, header, summary
from tests.spark.synthetic import MadeCell, make_run


def make_exploration(
    folder: Path, explored: ExplorationHeader | None = None, found: ExplorationSummary | None = None
) -> Path:
    """Write the files of an exploration that is named like its folder."""
    folder.mkdir(parents=True)
    named = (explored or header()).model_copy(update={"exploration": folder.name})
    (folder / "header.json").write_text(named.model_dump_json(by_alias=True), "utf-8")
    (folder / "exploration.json").write_text((found or summary()).model_dump_json(), "utf-8")
    return folder


def test_explorations_are_found_beside_runs_and_not_in_them(tmp_path: Path) -> None:
    run = make_run(tmp_path / "all" / "run", [MadeCell("fine")])
    make_exploration(run / "cells" / "planted")
    one = make_exploration(tmp_path / "all" / "deep" / "one")
    make_exploration(one / "original" / "nested")
    found = find_directories([tmp_path / "all", one])
    assert (found.runs, found.explorations) == ((run.resolve(),), (one.resolve(),))


def test_two_explorations_of_one_name_are_refused_and_a_copy_counts_once(tmp_path: Path) -> None:
    one, copy = (make_exploration(tmp_path / folder / "found") for folder in "ab")
    other = make_exploration(tmp_path / "c" / "found", found=summary(plans=61))
    assert list(read_explorations([one, copy]).explorations) == ["found"]
    with pytest.raises(RunDirectoryError, match="different explorations named 'found'"):
        read_explorations([one, other])


def test_an_exploration_that_cannot_be_read_is_reported_and_one_of_a_later_version_is_refused(tmp_path: Path) -> None:
    good, bad = make_exploration(tmp_path / "good"), make_exploration(tmp_path / "bad")
    (bad / "exploration.json").write_text("{", "utf-8")
    found = read_explorations([bad, good])
    assert list(found.explorations) == ["good"]
    (line,) = found.unreadable
    assert "bad/exploration.json" in line
    make_exploration(tmp_path / "later", header().model_copy(update={"schema_number": 2}))
    with pytest.raises(SchemaTooNew):
        read_explorations([tmp_path / "later"])


@pytest.mark.long
@pytest.mark.spark
def test_a_finding_is_new_in_the_first_exploration_of_its_candidate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost, twice = finding(), finding(check="model.SR-DUP-01", requirement="SR-DUP-01")
    other = CandidateRecord(name="other", kind="exec", version="2", sha256="b")
    for name, started, found, candidate in (
        ("second", "2026-11-26T00:00:00Z", summary(lost, twice), header().candidate),
        ("first", "2026-11-25T00:00:00Z", summary(lost), header().candidate),
        ("third", "2026-11-27T00:00:00Z", summary(plans=0, faults={"drawn": 0, "fired": 0}), header().candidate),
        ("others", "2026-11-28T00:00:00Z", summary(lost), other),
    ):
        make_exploration(tmp_path / "all" / name, header(started=started, candidate=candidate), found)
    assert aggregate_runs([tmp_path / "all" / "first"], tmp_path / "out", "local[1]", [], "") == 0
    assert aggregate_runs([tmp_path / "all"], tmp_path / "out", "local[1]", [], "") == 0
    assert "4 explorations, 4 findings" in capsys.readouterr().out

    def table(name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads((tmp_path / "out" / "tables" / f"{name}.json").read_text("utf-8"))
        return rows

    explorations = table("explorations")
    assert [(row["exploration"], row["findings"], row["new_findings"]) for row in explorations] == [
        ("first", 1, 1), ("second", 2, 1), ("third", 0, 0), ("others", 1, 1),
    ]  # fmt: skip
    first, third = explorations[0], explorations[2]
    assert (first["drawn"], first["fired"], first["fired_share"], first["plans_per_second"]) == (84, 82, 0.97619, 0.8)
    assert (first["sometimes"], first["seen"], first["never_seen"]) == (2, 1, "two servers were down at once")
    assert (third["fired_share"], third["plans_per_second"]) == (None, 0.0)
    findings = table("findings")
    assert [(row["exploration"], row["check"], row["first_exploration"], row["explorations"]) for row in findings] == [
        ("first", lost.check, "first", 2), ("second", lost.check, "first", 2), ("second", twice.check, "second", 1),
        ("others", lost.check, "others", 1),
    ]  # fmt: skip
    assert (findings[0]["steps"], findings[0]["original_steps"], findings[0]["original_faults"]) == (2, 30, 4)
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "What explorations found: 4 rows" in page
