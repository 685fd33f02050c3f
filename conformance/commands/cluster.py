"""`conformance run --spark MASTER`: the cells of a run in as many shards as a cluster has room for, then one run.

Each task starts `conformance run ... --shard K/N` in a process of its own, which writes a run directory; they are
merged. The directory that this is started in, and the one that is written to, must be the same on every node.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from conformance import paths
from conformance.clocks import CLOCKS, IN_PROCESS
from conformance.report.run_summary import read_run_summary
from conformance.report.terminal import terminal_summary
from conformance.results.layout import RUN_FILE, RunDirectoryError
from conformance.results.merge import merge_runs
from conformance.suite.collect import NO_CELL_FOUND
from conformance.suite.run_directory import timestamped_run_directory

if TYPE_CHECKING:
    import pandas as pd

USAGE = 2
_SHARDS_PER_CORE = 2
"""So that a core that had the quick cells gets some more."""
_TAIL = 4000
"""Characters of a shard's output that are told when it made no run."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of the command line: what is for the cluster, and what each shard is told."""

    master: str
    conf: tuple[str, ...]
    run_dir: Path
    fresh: bool
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shard:
    """What became of one shard."""

    place: int
    code: int
    folder: Path
    output: str


def is_asked(words: Sequence[str]) -> bool:
    """Whether a run is to be done by a cluster."""
    return any(word == "--spark" or word.startswith("--spark=") for word in words)


def read_words(words: Sequence[str], start: Path) -> Asked:
    """Read the command line; `start` is where a run without `--run-dir` gets its folder.

    Raises ValueError, with what is wrong.
    """
    parser = argparse.ArgumentParser(prog="conformance run", add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--spark", required=True)
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--run-dir", type=Path)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--clock", default="virtual")
    try:
        known, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from error
    if known.clock not in CLOCKS or CLOCKS[known.clock].needs != IN_PROCESS:
        raise ValueError(f"--spark: cells at --clock {known.clock} wait for programs of this machine; use virtual")
    run_dir = (start / known.run_dir if known.run_dir else timestamped_run_directory(start)).absolute()
    return Asked(known.spark, tuple(known.conf), run_dir, known.fresh, (*rest, "--clock", known.clock))


def run_on_cluster(words: Sequence[str]) -> int:
    """Run cells on a cluster, write the run, tell its summary, and return the exit code that a local run has."""
    try:
        from conformance.spark.find_java import JavaMissing
        from conformance.spark.gateway import JavaEnded
        from conformance.spark.session import SparkFailed
    except ModuleNotFoundError as error:
        typer.echo(f"{error.name} is missing: pip install 'smtp-conformance[spark]'", err=True)
        return USAGE
    try:
        asked = read_words(words, Path.cwd())
        _make_room(asked)
        with tempfile.TemporaryDirectory(prefix=f".{asked.run_dir.name}-", dir=asked.run_dir.parent) as folder:
            shards = _run(asked, Path(folder))
            if not merge_shards(shards, asked.run_dir):
                typer.echo(shards[0].output.strip(), err=True)
                return USAGE
    except (RunDirectoryError, JavaMissing, JavaEnded, SparkFailed, ValueError) as error:
        typer.echo(error, err=True)
        return USAGE
    book = read_run_summary(asked.run_dir, corpus=paths.corpus())
    typer.echo(terminal_summary(book, width=shutil.get_terminal_size().columns, colour=sys.stdout.isatty()), nl=False)
    typer.echo(f"run        {asked.run_dir}")
    return exit_code({shard.code for shard in shards})


def exit_code(codes: set[int]) -> int:
    """Return what shards' exit codes come to: a violation, else what could not be judged, else 0."""
    return next((code for code in (1, 3) if code in codes), 0)


def _make_room(asked: Asked) -> None:
    if (asked.run_dir / RUN_FILE).exists():
        if not asked.fresh:
            raise RunDirectoryError(f"--run-dir {asked.run_dir}: holds a run already; add --fresh to delete that first")
        shutil.rmtree(asked.run_dir)
    asked.run_dir.parent.mkdir(parents=True, exist_ok=True)


def _run(asked: Asked, folder: Path) -> list[Shard]:
    from conformance.spark.progress import Progress
    from conformance.spark.session import open_session, parse_settings

    path = os.pathsep.join(one for one in sys.path if one)
    conf = {
        "spark.executorEnv.PYTHONPATH": path,
        "spark.pyspark.python": sys.executable,
        **parse_settings(list(asked.conf)),
    }
    progress = Progress()
    with open_session(asked.master, conf) as session:
        count = _SHARDS_PER_CORE * session.sparkContext.defaultParallelism
        task = shard_task(asked.words, folder, count)
        rows = session.range(0, count, 1, count).mapInPandas(task, "place INT, code INT, folder STRING, output STRING")
        with progress.stage(f"running {count} shards", session.sparkContext):
            done = rows.collect()
    return sorted((Shard(row.place, row.code, Path(row.folder), row.output) for row in done), key=lambda one: one.place)


def shard_task(
    words: tuple[str, ...], folder: Path, count: int
) -> "Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]":
    """Return what an executor does with the numbers of shards: run each, and tell how it ended."""
    start, where = str(Path.cwd()), str(folder)

    def task(frames: "Iterator[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
        import pandas as pd
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = context.attemptNumber() if context else 0
        for frame in frames:
            for place in frame["id"]:
                # A task that is tried again writes beside what its first attempt may still be writing.
                target = f"{where}/{place}-{attempt}"
                options = ["--shard", f"{place + 1}/{count}", "--run-dir", target]
                ran = subprocess.run(  # noqa: S603  # this program
                    [sys.executable, "-m", "conformance", "run", *words, *options],
                    cwd=start,
                    capture_output=True,
                    text=True,
                    errors="backslashreplace",
                    check=False,
                )
                told = (ran.stderr + ran.stdout)[-_TAIL:]  # what it came to stands on standard output, last
                yield pd.DataFrame([{"place": place, "code": ran.returncode, "folder": target, "output": told}])

    return task


def merge_shards(shards: Sequence[Shard], run_dir: Path) -> bool:
    """Put the shards that have a run together; one that had no cell has none. False when none has.

    Raises RunDirectoryError when a shard made none for any other reason while others did: its cells would be missing.
    """
    sources = [shard for shard in shards if (shard.folder / RUN_FILE).exists()]
    for shard in shards:
        if shard not in sources and (shard.code != USAGE or (sources and NO_CELL_FOUND not in shard.output)):
            raise RunDirectoryError(f"shard {shard.place + 1} made no run:\n{shard.output.strip()}")
    if sources:
        merge_runs([shard.folder for shard in sources], run_dir)
    for shard in sources:
        if (results := shard.folder / "allure-results").is_dir():
            shutil.copytree(results, run_dir / "allure-results", dirs_exist_ok=True)
    return bool(sources)
