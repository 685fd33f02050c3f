"""`conformance run --spark MASTER` and `conformance merge`: a run in shards, and the one run directory made of them.

A run on a Spark cluster is split into two shards for each core that the cluster has. Each Spark task starts
`conformance run ... --shard K/N` as a process, which writes a run directory of its own below a temporary directory; then all
of them are merged into the run directory that was asked for. The working directory and the run directory must be on a file
system that all machines of the cluster share.
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
from pydantic import ValidationError

from conformance import paths
from conformance.clocks import CLOCKS, IN_PROCESS
from conformance.commands.missing_package import report_missing_package
from conformance.report.escaping import visible
from conformance.report.run_summary import read_run_summary
from conformance.report.terminal import terminal_summary
from conformance.results.layout import RUN_FILE, RunDirectoryError
from conformance.results.merge import merge_runs
from conformance.results.reader import read_cell_ends
from conformance.suite.collect import NO_CELL_FOUND
from conformance.suite.run_directory import timestamped_run_directory
from conformance.verdicts.outcome import NOT_JUDGED, OK_OUTCOMES, OUTCOME_DISPLAY, Outcome

if TYPE_CHECKING:
    import pandas as pd

USAGE = 2
_SHARDS_PER_CORE = 2
"""More than one, so that a core whose shard was quick gets another."""
_OUTPUT_CHARACTERS = 4000
"""How much of the end of a shard's output is kept, for the message when it wrote no run."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The command line of `conformance run --spark`. `words` are the arguments that each shard is started with."""

    master: str
    conf: tuple[str, ...]
    run_dir: Path
    fresh: bool
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shard:
    """How one shard ended: its exit code, the folder of its run, and the end of its output. `index` counts from 0.

    A shard that got no cell writes no run, prints so, and exits with 2.
    """

    index: int
    code: int
    folder: Path
    output: str

    @property
    def wrote_run(self) -> bool:
        """Whether its folder holds a run."""
        return (self.folder / RUN_FILE).exists()


def wants_cluster(words: Sequence[str]) -> bool:
    """Return whether the arguments of `conformance run` contain `--spark`."""
    return any(word == "--spark" or word.startswith("--spark=") for word in words)


def parse_options(words: Sequence[str], start: Path) -> ClusterOptions:
    """Parse the arguments of `conformance run --spark`.

    `start` is the folder that a relative `--run-dir`, or the run without one, is in. Raises ValueError for wrong arguments, and
    for a clock that needs programs of this machine, as all but `virtual` do.
    """
    parser = argparse.ArgumentParser(prog="conformance run", add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--spark", required=True)
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--run-dir", type=paths.local_path)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--clock", default="virtual")
    try:
        known, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from error
    if known.clock not in CLOCKS or CLOCKS[known.clock].needs != IN_PROCESS:
        raise ValueError(f"--spark: cells at --clock {known.clock} need programs of this machine; use --clock virtual")
    run_dir = (start / known.run_dir if known.run_dir else timestamped_run_directory(start)).absolute()
    return ClusterOptions(
        master=known.spark,
        conf=tuple(known.conf),
        run_dir=run_dir,
        fresh=known.fresh,
        words=(*rest, "--clock", known.clock),
    )


def run_on_cluster(words: Sequence[str]) -> int:
    """Run cells on a cluster, write the run directory, print the summary, and return the exit code that a local run would have.

    `words` are the arguments of `conformance run`. Blocks until the cluster is done. Returns 2 for wrong arguments, without Spark or
    Java, and when the shards made no whole run.
    """
    try:
        from conformance.spark.find_java import JavaMissing
        from conformance.spark.gateway import JavaEnded
        from conformance.spark.master import MasterUnreachable, driver_address
        from conformance.spark.session import SparkFailed
    except ModuleNotFoundError as error:
        return report_missing_package(error.name, "spark")
    try:
        options = parse_options(words, Path.cwd())
        driver_address(options.master)  # before an old run is deleted
        _prepare_run_directory(options)
        with tempfile.TemporaryDirectory(prefix=f".{options.run_dir.name}-", dir=options.run_dir.parent) as folder:
            shards = _run_shards(options, Path(folder))
            codes = {shard.code for shard in shards if shard.wrote_run}
            if not merge_shards(shards, options.run_dir):
                typer.echo(shards[0].output.strip(), err=True)
                return USAGE
    except (RunDirectoryError, JavaMissing, JavaEnded, MasterUnreachable, SparkFailed, ValueError) as error:
        typer.echo(error, err=True)
        return USAGE
    run_summary = read_run_summary(options.run_dir, corpus=paths.corpus())
    typer.echo(
        terminal_summary(run_summary, width=shutil.get_terminal_size().columns, colour=sys.stdout.isatty()), nl=False
    )
    typer.echo(f"run        {options.run_dir}")
    return combined_exit_code(codes)


def combined_exit_code(codes: set[int]) -> int:
    """Return the exit code of a run from those of its shards that wrote runs: 1 (violations) before 2 before 3 (not judged).

    2 is that of a shard with documents that cannot be collected. A shard that ended otherwise, such as one that was killed, left
    cells that were not judged: 3. Else 0.
    """
    return next((code for code in (1, USAGE) if code in codes), 3 if codes - {0} else 0)


def _prepare_run_directory(options: ClusterOptions) -> None:
    """Create the parents of the run directory. Deletes an old run with `--fresh`; raises RunDirectoryError without."""
    if (options.run_dir / RUN_FILE).exists():
        if not options.fresh:
            raise RunDirectoryError(
                f"--run-dir {options.run_dir}: holds a run already; add --fresh to delete that first"
            )
        shutil.rmtree(options.run_dir)
    options.run_dir.parent.mkdir(parents=True, exist_ok=True)


def _run_shards(options: ClusterOptions, folder: Path) -> list[Shard]:
    """Run all shards on the cluster, with run directories below `folder`, and return them in order. Blocks."""
    from conformance.spark.progress import Progress
    from conformance.spark.session import open_session, parse_settings

    conf = {
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "spark.pyspark.python": sys.executable,
        **parse_settings(list(options.conf)),
    }
    progress = Progress()
    with open_session(options.master, conf) as session:
        count = _SHARDS_PER_CORE * session.sparkContext.defaultParallelism
        task = make_shard_task(options.words, folder, count)
        rows = session.range(0, count, 1, count).mapInPandas(task, "index INT, code INT, folder STRING, output STRING")
        with progress.stage(f"running {count} shards", session.sparkContext):
            ended = rows.collect()
    shards = (
        Shard(index=row["index"], code=row["code"], folder=Path(row["folder"]), output=row["output"]) for row in ended
    )
    return sorted(shards, key=lambda shard: shard.index)


def make_shard_task(
    words: tuple[str, ...], folder: Path, count: int
) -> "Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]":
    """Return the function that Spark's executors call with indexes of shards: it runs each and yields a row of Shard's fields.

    `words` are the arguments of each shard, `folder` is where their run directories are written, `count` is their number.
    """
    start, parent = str(Path.cwd()), str(folder)

    def task(frames: "Iterator[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
        """Run the shards whose indexes are in the column `id`, one after another, and yield a row for each. Blocks."""
        import pandas as pd
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = context.attemptNumber() if context else 0
        for frame in frames:
            for index in frame["id"]:
                # A repeated task gets another folder: its first attempt may still be writing.
                target = f"{parent}/{index}-{attempt}"
                options = ["--shard", f"{index + 1}/{count}", "--run-dir", target]
                ended = subprocess.run(  # noqa: S603  # this program
                    [sys.executable, "-m", "conformance", "run", *words, *options],
                    cwd=start,
                    capture_output=True,
                    text=True,
                    errors="backslashreplace",
                    check=False,
                )
                output = (ended.stderr + ended.stdout)[-_OUTPUT_CHARACTERS:]  # the summary is last on standard output
                yield pd.DataFrame([{"index": index, "code": ended.returncode, "folder": target, "output": output}])

    return task


def merge_shards(shards: Sequence[Shard], run_dir: Path) -> bool:
    """Merge the runs of shards into `run_dir`, and return whether any shard wrote a run. A shard without cells writes none.

    Allure's results are copied too. Raises RunDirectoryError for a shard that wrote no run for another reason: its exit code is not
    2, or others wrote runs and it did not print that no cell was found. Its cells would be missing.
    """
    sources = [shard for shard in shards if shard.wrote_run]
    for shard in shards:
        if shard not in sources and (shard.code != USAGE or (sources and NO_CELL_FOUND not in shard.output)):
            raise RunDirectoryError(f"shard {shard.index + 1} wrote no run:\n{shard.output.strip()}")
    if sources:
        merge_runs([shard.folder for shard in sources], run_dir)
    for shard in sources:
        if (results := shard.folder / "allure-results").is_dir():
            shutil.copytree(results, run_dir / "allure-results", dirs_exist_ok=True)
    return bool(sources)


def print_merge(runs: Sequence[Path], out: Path) -> int:
    """Merge runs into the run directory `out`, and print how many cells had which outcome.

    Returns the exit code of the whole run: failures that a shard's baseline knew (`known` in the footer) are expected,
    and a cell without a footer was not judged. Returns 2 when the runs are not the shards of one run, or cannot be read
    or written.
    """
    try:
        footer = merge_runs(runs, out)
        ends = read_cell_ends(out).ends
    except (RunDirectoryError, ValidationError, OSError) as error:
        typer.echo(visible(str(error), 300), err=True)
        return USAGE
    counts = ", ".join(
        f"{OUTCOME_DISPLAY[outcome].sign} {count} {OUTCOME_DISPLAY[outcome].category}"
        for outcome, count in footer.outcomes.items()
        if count
    )
    typer.echo(f"{footer.cells} cells of {len(runs)} runs: {counts}")
    if footer.cut_short or footer.missing:
        typer.echo(f"{footer.cut_short} cut short, {footer.missing} missing")
    typer.echo(f"run        {out}")
    unexpected = {end.outcome if end else NOT_JUDGED for _, end in ends if end is None or end.known is None}
    if Outcome.FAIL in unexpected:
        return 1
    return 3 if footer.missing or unexpected - OK_OUTCOMES else 0
