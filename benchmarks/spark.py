"""Measures an aggregation by Spark against DuckDB, which makes the same tables of the same files.

    python -m benchmarks.spark [--runs 1000] [--cells 500] [--master local[2]] [--folder DIR] [--without-duckdb]

Made-up runs (seeded; tests/spark/many.py) as Parquet, as finished runs have them. Then: one aggregation of everything,
one of a run more, the same tables by DuckDB; every table of both must be the same. Wall seconds from start to end, of
which Java's start; CPU seconds (user and system) and peak memory of all processes together
(proportional set size: what a process that is just forked shares counts once).

Measured on two cores without other work: 1,000 runs of 500 cells take 163 s of the clock, 309 s of CPU and at most
3.0 GiB, Python and Java together (166 to 170 s and 315 to 322 s before sessions and events were moved apart). One run more
takes 17.3 s of the clock, 14.3 of them after the session's start, and 28 s of CPU. DuckDB
makes the same tables of the same thousand runs in 42 s with 79 s of CPU: Spark takes 3.9 times as long.

With other work beside (load 13 to 23), and `--runs 200`: 122 s, 159 s of CPU and 2.9 GiB; DuckDB 17 s and 24 s of CPU, a seventh. One
run more takes 13 s, 10 of them after the session's start, and 19 s of CPU.
"""

import argparse
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil
import pyarrow.parquet as pq

from benchmarks.in_duckdb import difference, tables_of
from conformance.spark.aggregation import TABLES, aggregate
from conformance.spark.session import open_session
from tests.spark.many import make_many

T = TypeVar("T")
THREADS = 2


@dataclass
class Cost:
    """The cost of a step: seconds of the clock and of CPU, octets of memory at the most."""

    wall: float = 0.0
    cpu: float = 0.0
    octets: int = 0


class Watch:
    """Counts what this process and its children take. Memory is looked at every five seconds: counting pages costs CPU.

    The CPU of a child is known when it has ended: within the block.
    """

    def __init__(self) -> None:
        self.cost = Cost()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watch":
        self._before = sum(os.times()[:4])
        self._began = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.cost.wall = time.perf_counter() - self._began
        self.cost.cpu = sum(os.times()[:4]) - self._before
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._over.wait(5):
            held = me.memory_full_info().pss
            for process in me.children(recursive=True):
                try:
                    held += process.memory_full_info().pss
                except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has just ended
                    continue
            self.cost.octets = max(self.cost.octets, held)


def measured(what: str, do: Callable[[], T]) -> tuple[T, Cost]:
    """Run a function, print what it took, and return its result with the cost."""
    with Watch() as watch:
        result = do()
    cost = watch.cost
    print(f"{what:<40} {cost.wall:8.1f} s   CPU {cost.cpu:8.1f} s   peak {cost.octets / 2**30:.2f} GiB", flush=True)
    return result, cost


def main() -> None:
    """Make the runs, aggregate them, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--cells", type=int, default=500)
    parser.add_argument("--master", default=f"local[{THREADS}]")
    parser.add_argument(
        "--folder",
        type=Path,
        default=None,
        help="made where it is not there; default: the system's for temporary files",
    )
    parser.add_argument("--without-duckdb", action="store_true")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="conformance-benchmark-", dir=options.folder))
    try:
        measure(folder, options.runs, options.cells, options.master, beside=not options.without_duckdb)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, runs: int, cells: int, master: str, *, beside: bool) -> None:
    """Print a line for each thing measured. Raises AssertionError where the two engines differ."""
    made, out = folder / "made", folder / "out"
    measured(f"write {runs} runs of {cells} cells", lambda: list(make_many(made, runs, cells)))
    learn = made / "runs" / "run0000"
    measured(
        "one run, and what Java keeps of it (once)", lambda: aggregate([learn], out, master=master, make_jvm_cache=True)
    )
    shutil.rmtree(out)
    _, start = measured("start and end a session", lambda: _start(master))
    summary, all_of_them = measured("aggregate all of them", lambda: aggregate([made / "runs"], out, master=master))
    assert (summary.runs, summary.cells) == (runs, runs * cells)
    if beside:
        tables, duckdb = measured("the same by DuckDB", lambda: tables_of([made / "runs"], THREADS))
        for table in TABLES:
            problem = difference(table, pq.read_table(out / "tables" / f"{table.name}.parquet"), tables[table.name])
            assert not problem, problem
        wall, cpu = all_of_them.wall / duckdb.wall, all_of_them.cpu / duckdb.cpu
        print(f"{len(TABLES)} tables are the same; Spark takes {wall:.1f} times as long, {cpu:.1f} times the CPU")
    (more,) = make_many(made, 1, cells, first=runs)
    _, one_more = measured("aggregate one run more", lambda: aggregate([more], out, master=master))
    print(f"... after the session's start              {one_more.wall - start.wall:8.1f} s")


def _start(master: str) -> None:
    with open_session(master) as session:
        session.range(3).count()


if __name__ == "__main__":
    main()
