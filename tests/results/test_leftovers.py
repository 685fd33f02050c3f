"""What a run that was killed leaves is no obstacle to the next one into the same place, and nothing else is deleted."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from conformance.results import writer
from conformance.results.reader import read_run
from conformance.results.writer import begin_run, delete_run, holds_run, is_unstarted_run
from tests.results.samples import run_header
from tests.suite.helpers import command, conformance_command, environment

SCENARIO = "scenarios/creation/inbound.scenario.yaml"


def beginning(run: Path) -> Path:
    """Make what a run has made before its `run.json` is there."""
    (run / "cells").mkdir(parents=True)
    (run / "allure-results").mkdir()
    (run / ".run.json.4711").write_bytes(b'{"sch')
    return run


def test_what_a_run_makes_first_is_told_from_other_folders(tmp_path: Path):
    run = beginning(tmp_path / "run")
    assert is_unstarted_run(run)
    (run / "cells" / "x.jsonl").touch()
    assert not is_unstarted_run(run)
    (run / "cells" / "x.jsonl").unlink()
    (run / "letters.txt").touch()
    assert not is_unstarted_run(run)
    delete_run(run)
    assert (run / "letters.txt").is_file()
    assert not is_unstarted_run(tmp_path / "nothing")


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

    real = writer.delete_tree
    monkeypatch.setattr(writer, "delete_tree", dies)
    with pytest.raises(KeyboardInterrupt):
        delete_run(run)
    assert gone
    assert holds_run(run)
    monkeypatch.undo()
    delete_run(run)
    assert not run.exists()


@pytest.mark.integration
def test_a_run_goes_into_what_one_that_was_killed_at_its_start_has_left(tmp_path: Path):
    run = beginning(tmp_path / "run")
    root = Path(__file__).parents[2]
    ran = conformance_command("run", SCENARIO, "-k", "waits", "-q", "--run-dir", str(run), cwd=root)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not list(run.glob(".run.json.*"))


@pytest.mark.integration
def test_of_two_runs_into_one_place_the_second_is_refused(tmp_path: Path):
    (tmp_path / "run").mkdir()
    handle = os.open(tmp_path / "run", os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    root = Path(__file__).parents[2]
    words = ("run", SCENARIO, "-k", "waits", "-q", "--run-dir", str(tmp_path / "run"))
    ran = conformance_command(*words, "--fresh", cwd=root)
    assert ran.returncode == 2
    assert "another run writes there; wait for its end, or take another directory" in ran.stdout + ran.stderr
    assert list((tmp_path / "run").iterdir()) == []
    os.close(handle)
    assert conformance_command(*words, cwd=root).returncode == 0


@pytest.mark.integration
def test_two_runs_that_begin_at_once_do_not_mix(tmp_path: Path):
    root = Path(__file__).parents[2]
    words = command("run", SCENARIO, "-q", "--run-dir", str(tmp_path / "run"))
    both = [
        subprocess.Popen(
            words, cwd=root, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    ]
    said = [one.communicate()[0] for one in both]
    assert sorted(one.returncode for one in both) == [0, 2], said
    footer = read_run(tmp_path / "run").footer
    assert footer is not None
    assert (footer.missing, footer.cut_short) == (0, 0)
