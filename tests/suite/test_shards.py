"""`--shard K/N` and `--spark MASTER`: merged shards have the same cells and verdicts as one run."""

from pathlib import Path

import pytest

from conformance.clocks import CLOCKS
from conformance.commands.shards import NO_CELL_FOUND, Shard, combined_exit_code, merge_shards, parse_options
from conformance.results.layout import RunDirectoryError
from conformance.results.reader import read_run
from tests.suite.helpers import ROOT, conformance_command

pytestmark = pytest.mark.integration

FEW = (
    *(str(ROOT / "scenarios" / "creation"), "-k", "submitted-mail-is-shadowed-too or shadow-is-on-disk"),
    *("--candidate", "reference", "--candidate", "reference+acknowledges-before-shadow"),
)
"""Three cells, by two candidates; the second is made wrong."""


def verdicts(run_dir: Path) -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Return the outcome of each cell, and of each of its checks."""
    return {
        cell.header.nodeid: (
            str(cell.footer and cell.footer.outcome),
            [(verdict.check, str(verdict.outcome)) for verdict in cell.verdicts],
        )
        for cell in read_run(run_dir).cells()
    }


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the cells without shards, and return the run directory."""
    folder = tmp_path_factory.mktemp("local")
    ran = conformance_command("run", *FEW, "--run-dir", "run", cwd=folder)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return folder / "run"


@pytest.mark.long
def test_merged_shards_have_the_verdicts_of_one_run(local: Path, tmp_path: Path) -> None:
    for shard in ("1/2", "2/2"):
        ran = conformance_command("run", *FEW, "--shard", shard, "--run-dir", f"run{shard[0]}", cwd=tmp_path)
        assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    first, second = verdicts(tmp_path / "run1"), verdicts(tmp_path / "run2")
    assert first
    assert second
    assert not first.keys() & second.keys()
    words = ("run2", "run1", "--out", "run")
    merged = conformance_command("merge", *words, cwd=tmp_path)
    assert merged.returncode == 1, merged.stdout + merged.stderr
    outcomes = [outcome for outcome, _ in verdicts(local).values()]
    counts = f"✓ {outcomes.count('pass')} passed, ✗ {outcomes.count('fail')} failed"
    assert f"{len(outcomes)} cells of 2 runs: {counts}" in merged.stdout
    assert verdicts(tmp_path / "run") == verdicts(local)
    again = conformance_command("merge", *words, cwd=tmp_path)
    assert again.returncode == 2
    assert "use another directory" in again.stderr


@pytest.mark.long
def test_runs_with_different_seeds_are_not_merged(local: Path, tmp_path: Path) -> None:
    ran = conformance_command("run", *FEW, "--seed", "2", "--run-dir", "other", cwd=tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    merged = conformance_command("merge", str(local), "other", "--out", "run", cwd=tmp_path)
    assert merged.returncode == 2
    assert "differ in seed" in merged.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.parametrize(("missing", "code"), [(False, 0), (True, 3)])
def test_the_merged_run_ends_with_3_when_a_cell_is_missing(
    missing: bool, code: int, local: Path, tmp_path: Path
) -> None:
    few = (*FEW[:-2], "--shard")
    for shard in ("1/2", "2/2"):
        ran = conformance_command("run", *few, shard, "--run-dir", shard[0], cwd=tmp_path)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    if missing:
        next((tmp_path / "2" / "cells").glob("*.jsonl.gz")).unlink()
    assert conformance_command("merge", "1", "2", "--out", "run", cwd=tmp_path).returncode == code


@pytest.mark.long
@pytest.mark.spark
def test_a_run_on_spark_has_the_verdicts_of_a_local_run(local: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    ran = conformance_command("run", *FEW, "--spark", "local[1]", "--run-dir", "run", cwd=tmp_path, timeout=600)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert verdicts(tmp_path / "run") == verdicts(local)
    expected, stored = read_run(local), read_run(tmp_path / "run")
    assert stored.header.suite_sha256 == expected.header.suite_sha256
    assert stored.footer is not None
    assert expected.footer is not None
    assert stored.footer.outcomes == expected.footer.outcomes
    assert "running 2 shards" in ran.stderr
    assert "shadow-is-on-disk-when-acknowledged" in ran.stdout
    assert list(tmp_path.glob(".run-*")) == []


def test_a_violation_decides_the_exit_code_before_a_cell_that_was_not_judged() -> None:
    cases = ({0}, {0, 3}, {0, 1, 3}, {0, 2, 3}, {1, 2}, {0, 137}, {0, -9})
    assert [combined_exit_code(codes) for codes in cases] == [0, 3, 1, 2, 1, 3, 3]


@pytest.mark.parametrize("code", [2, 4])
def test_a_shard_that_made_no_run_is_an_error_unless_it_had_no_cell(code: int, local: Path, tmp_path: Path) -> None:
    ran = Shard(0, 0, local, "")
    empty = Shard(1, 2, tmp_path / "1", f"{NO_CELL_FOUND}: name some")
    assert merge_shards([ran, empty], tmp_path / "run")
    assert verdicts(tmp_path / "run") == verdicts(local)
    broken = Shard(2, code, tmp_path / "2", "error: candidate absent is not known here")
    with pytest.raises(RunDirectoryError, match=r"shard 3 wrote no run:\nerror: candidate absent"):
        merge_shards([ran, empty, broken], tmp_path / "more")
    killed = Shard(2, -9, tmp_path / "2", f"{NO_CELL_FOUND}: name some")
    with pytest.raises(RunDirectoryError, match="shard 3 wrote no run"):
        merge_shards([ran, empty, killed], tmp_path / "more")
    assert not (tmp_path / "more").exists()


@pytest.mark.long
def test_a_shard_without_a_cell_is_a_usage_error(tmp_path: Path) -> None:
    ran = conformance_command("run", *FEW, "--shard", "50/50", "--run-dir", "run", cwd=tmp_path)
    assert ran.returncode == 2
    assert NO_CELL_FOUND in ran.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("word", ["3/2", "0/2", "2/"])
def test_a_malformed_shard_number_is_refused(word: str, tmp_path: Path) -> None:
    ran = conformance_command("run", *FEW, "--shard", word, cwd=tmp_path)
    assert ran.returncode == 2
    assert f"--shard {word}: write 2/4 for the second of four" in ran.stderr
    assert not (tmp_path / "reports").exists()


def test_a_run_on_spark_accepts_only_the_virtual_clock(tmp_path: Path) -> None:
    others = [name for name in CLOCKS if name != "virtual"]
    assert len(others) > 1
    for name in (*others, "unknown"):
        with pytest.raises(ValueError, match=f"cells at --clock {name} need programs .* use --clock virtual"):
            parse_options(["--spark", "local", "--clock", name], tmp_path)
    assert parse_options(["--spark", "local", "--clock", "virtual"], tmp_path).words == ("--clock", "virtual")
    asked = parse_options(["a", "--spark=local[3]", "--run-dir", "x", "-k", "b", "--conf", "spark.a=b"], tmp_path)
    assert (asked.master, asked.conf, asked.run_dir) == ("local[3]", ("spark.a=b",), tmp_path / "x")
    assert asked.words == ("a", "-k", "b", "--clock", "virtual")
