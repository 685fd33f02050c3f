"""Scenarios made of stored cells: the loader takes them, and where no fault was, the reference answers as it did."""

from dataclasses import replace
from pathlib import Path

import pytest

from conformance import paths
from conformance.export.scenario import NoSession, as_scenario
from conformance.history.events import Connected, FaultFired
from conformance.results.reader import StoredCell
from conformance.scenarios.loader import read_corpus
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration


def undisturbed(cell: StoredCell) -> bool:
    """Whether nothing but the senders of the harness had a part in what was answered."""
    return cell.header.candidate == "reference" and not any(
        isinstance(event, FaultFired) or (event.kind == "node" and event.action == "killed") for event in cell.events
    )


def written(cells: list[StoredCell], place: Path) -> int:
    """Write a scenario of each cell; return how many."""
    for number, cell in enumerate(cells):
        text = as_scenario(cell).replace(b"-as-seen", f"-{number}".encode(), 1)
        (place / f"{number}.scenario.yaml").write_bytes(text)
    return len(cells)


def test_the_loader_takes_them(cells: list[StoredCell], tmp_path: Path):
    count = written(cells, tmp_path)
    assert len(read_corpus([tmp_path], paths.fixtures())) == count


def test_what_was_said_undisturbed_is_answered_alike(cells: list[StoredCell], tmp_path: Path):
    chosen = [cell for cell in cells if undisturbed(cell)][::4]
    assert len(chosen) > 3
    written(chosen, tmp_path)
    ran = conformance_command("run", str(tmp_path), "--candidate", "reference", "--run-dir", "run", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout


def test_another_answer_than_was_seen_fails(cells: list[StoredCell], tmp_path: Path):
    text = next(text for text in map(as_scenario, filter(undisturbed, cells)) if b"code: 354" in text)
    (tmp_path / "one.scenario.yaml").write_bytes(text.replace(b"code: 354", b"code: 451", 1))
    ran = conformance_command(
        "run", str(tmp_path), "--candidate", "reference", "--should", "fail", "--run-dir", "run", cwd=tmp_path
    )
    assert ran.returncode == 1, ran.stdout


def test_a_cell_in_which_the_harness_said_nothing_is_refused(cells: list[StoredCell]):
    mute = replace(
        cells[0], events=tuple(e for e in cells[0].events if not (isinstance(e, Connected) and e.client == "outside"))
    )
    with pytest.raises(NoSession, match="held no session"):
        as_scenario(mute)
