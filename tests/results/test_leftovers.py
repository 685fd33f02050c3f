"""A run may start where a killed run left its first files; no other directory is deleted or written into."""

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


def make_unstarted_run(run: Path) -> Path:
    """Make the entries that a run makes before its `run.json`, and return the directory."""
    (run / "cells").mkdir(parents=True)
    (run / "allure-results").mkdir()
    (run / ".run.json.4711").write_bytes(b'{"sch')
    return run


def test_an_unstarted_run_is_distinguished_from_other_folders_which_are_not_deleted(tmp_path: Path):
    run = make_unstarted_run(tmp_path / "run")
    assert is_unstarted_run(run)
    for strange in ("cells/x.jsonl", "letters.txt", "run.json~", "letters/"):
        path = run / strange
        path.mkdir() if strange.endswith("/") else path.touch()
        assert not is_unstarted_run(run), strange
        before = sorted(run.rglob("*"))
        delete_run(run)
        assert sorted(run.rglob("*")) == before
        path.rmdir() if strange.endswith("/") else path.unlink()
    (tmp_path / "empty").mkdir()
    for other in ("empty", "nothing"):
        assert not is_unstarted_run(tmp_path / other)
        delete_run(tmp_path / other)
    assert (tmp_path / "empty").is_dir()
    delete_run(run)
    assert not run.exists()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_an_interrupted_deletion_leaves_a_directory_that_still_counts_as_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
):
    """It is interrupted after `count` of three entries, the last of which is `run.json`."""
    run = tmp_path / "run"
    begin_run(run, run_header())
    (run / "cells" / "x.jsonl").touch()
    (run / "zzz").touch()
    deleted: list[str] = []

    def interrupted_delete(path: Path) -> bool:
        if len(deleted) == count:
            raise KeyboardInterrupt
        deleted.append(path.name)
        return real(path)

    real = writer.delete_tree
    monkeypatch.setattr(writer, "delete_tree", interrupted_delete)
    with pytest.raises(KeyboardInterrupt):
        delete_run(run)
    assert len(deleted) == count
    assert holds_run(run)
    monkeypatch.undo()
    delete_run(run)
    assert not run.exists()


@pytest.mark.long
@pytest.mark.integration
def test_a_run_can_use_a_directory_in_which_another_has_made_its_first_files_alone(tmp_path: Path):
    run = make_unstarted_run(tmp_path / "run")
    root = Path(__file__).parents[2]
    ran = conformance_command("run", SCENARIO, "-k", "waits", "-q", "--run-dir", str(run), cwd=root)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    footer = read_run(run).footer
    assert footer is not None
    assert footer.cells > 0
    assert not list(run.glob(".run.json.*"))


@pytest.mark.long
@pytest.mark.integration
def test_a_run_into_a_directory_that_another_run_has_locked_is_refused(tmp_path: Path):
    (tmp_path / "run").mkdir()
    handle = os.open(tmp_path / "run", os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    root = Path(__file__).parents[2]
    words = ("run", SCENARIO, "-k", "waits", "-q", "--run-dir", str(tmp_path / "run"))
    for fresh in ((), ("--fresh",)):
        ran = conformance_command(*words, *fresh, cwd=root)
        assert ran.returncode == 2, fresh
        assert "another run writes there; wait for its end, or take another directory" in ran.stdout + ran.stderr
        assert list((tmp_path / "run").iterdir()) == []
    os.close(handle)
    assert conformance_command(*words, cwd=root).returncode == 0


@pytest.mark.long
@pytest.mark.integration
def test_of_two_runs_that_start_at_once_in_one_directory_only_one_writes(tmp_path: Path):
    root = Path(__file__).parents[2]
    runs = {
        seed: subprocess.Popen(
            command("run", SCENARIO, "-q", "--seed", str(seed), "--run-dir", str(tmp_path / "run")),
            cwd=root, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for seed in (1, 2)
    }  # fmt: skip
    outputs = [run.communicate()[0] for run in runs.values()]
    assert sorted(run.returncode for run in runs.values()) == [0, 2], outputs
    (winner,) = (seed for seed, run in runs.items() if run.returncode == 0)
    stored = read_run(tmp_path / "run")
    assert stored.footer is not None
    assert (stored.footer.missing, stored.footer.cut_short) == (0, 0)
    assert stored.header.seed == winner
    assert {cell.header.seed for cell in stored.cells()} == {winner}
