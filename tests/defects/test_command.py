"""`conformance defects`: writes a page, and compares one with the table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.commands import defects as command
from conformance.commands.defects import print_defects
from conformance.defects.trial import Blame, Trial
from conformance.results import writer
from conformance.results.reader import read_run
from conformance.verdicts import Outcome

DEFECT = "refuses-local-only"


def defects(**options: Any) -> int:
    usual: dict[str, Any] = {"as_json": False, "gate": False, "write": None, "check": None, "jobs": 1, "seed": 1}
    return print_defects([DEFECT], **usual | options)


@pytest.mark.long
def test_a_page_that_differs_from_the_table_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, stale = tmp_path / "defects.md", tmp_path / "stale.md"
    stale.write_text("# Another page\n", "utf-8")
    assert defects(write=page, check=stale) == 1
    error = capsys.readouterr().err
    assert "-# Another page" in error
    assert f"{stale} differs from the table" in error
    assert f"| `{DEFECT}` |" in page.read_text("utf-8")
    assert defects(check=page) == 0
    assert "no gap" in capsys.readouterr().err


@pytest.mark.long
def test_a_sample_is_compared_with_its_own_lines_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, stale = tmp_path / "defects.md", tmp_path / "stale.md"
    assert defects(write=page) == 0
    whole = page.read_text("utf-8")
    page.write_text(whole + "\n| `another-defect` | Does it wrong. |\n", "utf-8")
    stale.write_text(whole.replace(f"| `{DEFECT}` |", f"| `{DEFECT}` | More."), "utf-8")
    assert defects(sample=1, gate=True, check=page) == 0
    assert defects(sample=1, gate=True, check=stale) == 1
    assert f"-| `{DEFECT}` | More." in capsys.readouterr().err


def test_the_json_has_the_row_that_is_blamed_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The first cell that blames any counts: there the row that the defect breaks is blamed later."""
    blames = (Blame("expect.shadow", "SR-CRE-01"), Blame("expect.reply", "SR-CFG-02"))
    wrong = Trial(DEFECT, "s", "s", Outcome.FAIL, blames, "")
    passed, later = replace(wrong, outcome=Outcome.PASS, blames=()), replace(wrong, blames=blames[::-1])
    monkeypatch.setattr(command, "run_trials", lambda *_: [passed, wrong, later])
    assert defects(as_json=True) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["breaks"], row["first_blame"]) == (DEFECT, "SR-CFG-02", "SR-CRE-01")


@pytest.mark.long
def test_without_expectations_only_the_model_blames(capsys: pytest.CaptureFixture[str]):
    caught_by = []
    for blind in (False, True):
        assert defects(as_json=True, blind=blind) == 0
        (row,) = json.loads(capsys.readouterr().out)
        caught_by.append({check.partition(".")[0] for check in row["caught_by"]})
    assert caught_by == [{"expect", "model"}, {"model"}]


@pytest.mark.long
def test_trials_are_stored_as_a_run_that_only_fresh_replaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    place = tmp_path / "trials"
    assert defects(as_json=True, run_dir=place) == 0
    (row,) = json.loads(capsys.readouterr().out)
    run = read_run(place)
    cells = list(run.cells([]))
    assert len(cells) == run.header.cells_planned > 0
    assert run.header.candidates[0].name == f"reference+{DEFECT}"
    assert {cell.header.candidate for cell in cells} == {f"reference+{DEFECT}"}
    assert (
        sum(cell.footer is not None and cell.footer.outcome is Outcome.FAIL for cell in cells) == row["cells"]["caught"]
    )
    assert all(cell.events and cell.verdicts for cell in cells)
    assert run.footer is not None
    assert run.footer.missing == 0

    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert defects(run_dir=place) == 2
    assert "holds another run" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    footer = (place / "footer.json").read_bytes()
    (place / "footer.json").unlink()  # as after an interruption
    assert defects(run_dir=place) == 2
    assert "holds an interrupted run" in capsys.readouterr().err
    (place / "footer.json").write_bytes(footer)
    left = place / "cells" / "left-behind.jsonl.gz"
    left.write_bytes(b"of the run before")
    assert defects(run_dir=place, fresh=True) == 0
    assert (place / "footer.json").read_bytes() != before[place / "footer.json"], "it has other times"
    assert not left.exists()
    assert {path for path in place.rglob("*") if path.is_file()} == before.keys()


def test_a_run_that_fresh_cannot_delete_is_a_wrong_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "run.json").write_text("{}", "utf-8")
    monkeypatch.setattr(writer, "delete_tree", lambda path: False)  # as where the file system refuses it
    monkeypatch.setattr(command, "read_corpus", lambda *_: [])
    assert defects(run_dir=tmp_path, fresh=True) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'run.json'} cannot be deleted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
