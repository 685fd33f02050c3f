"""`conformance defects`: a page is written, and held against the table."""

from pathlib import Path

import pytest

from conformance.commands.defects import print_defects

DEFECT = "refuses-local-only"


def defects(*, write: Path | None = None, check: Path | None = None) -> int:
    return print_defects([DEFECT], as_json=False, gate=False, write=write, check=check, jobs=1, seed=1)


def test_a_page_is_held_against_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, stale = tmp_path / "defects.md", tmp_path / "stale.md"
    stale.write_text("# Another page\n", "utf-8")
    assert defects(write=page, check=stale) == 1
    told = capsys.readouterr().err
    assert "-# Another page" in told
    assert f"{stale} is another table's" in told
    assert f"| `{DEFECT}` |" in page.read_text("utf-8")
    assert defects(check=page) == 0
    assert "no gap" in capsys.readouterr().err
