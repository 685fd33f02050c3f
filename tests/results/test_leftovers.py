"""What a run that was killed leaves is no obstacle to the next one into the same place, and nothing else is deleted."""

from pathlib import Path

import pytest

from conformance.results import writer
from conformance.results.writer import begin_run, holds_run, is_beginning, remove_run
from tests.results.samples import run_header
from tests.suite.helpers import conformance_command

SCENARIO = "scenarios/creation/inbound.scenario.yaml"


def beginning(run: Path) -> Path:
    """Make what a run has made before its `run.json` is there."""
    (run / "cells").mkdir(parents=True)
    (run / "allure-results").mkdir()
    (run / ".run.json.4711").write_bytes(b'{"sch')
    return run


def test_what_a_run_makes_first_is_told_from_other_folders(tmp_path: Path):
    run = beginning(tmp_path / "run")
    assert is_beginning(run)
    (run / "cells" / "x.jsonl").touch()
    assert not is_beginning(run)
    (run / "cells" / "x.jsonl").unlink()
    (run / "letters.txt").touch()
    assert not is_beginning(run)
    remove_run(run)
    assert (run / "letters.txt").is_file()
    assert not is_beginning(tmp_path / "nothing")


def test_a_deletion_that_is_interrupted_leaves_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = tmp_path / "run"
    begin_run(run, run_header())
    (run / "cells" / "x.jsonl").touch()
    (run / "zzz").touch()
    gone: list[str] = []

    def dies(path: Path) -> bool:
        if gone:
            raise KeyboardInterrupt
        gone.append(path.name)
        return real(path)

    real = writer.discard
    monkeypatch.setattr(writer, "discard", dies)
    with pytest.raises(KeyboardInterrupt):
        remove_run(run)
    assert gone
    assert holds_run(run)
    monkeypatch.undo()
    remove_run(run)
    assert not run.exists()


@pytest.mark.integration
def test_a_run_goes_into_what_one_that_was_killed_at_its_start_has_left(tmp_path: Path):
    run = beginning(tmp_path / "run")
    root = Path(__file__).parents[2]
    ran = conformance_command("run", SCENARIO, "-k", "waits", "-q", "--run-dir", str(run), cwd=root)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not list(run.glob(".run.json.*"))
