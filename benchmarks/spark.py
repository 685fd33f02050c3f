"""How long an aggregation takes, and what DuckDB needs for the same questions over the same tables.

    python benchmarks/spark.py [--runs 1000] [--cells 500] [--master local[2]] [--folder DIR]

Made-up runs (seeded) of cells with one message each are written as Parquet, as finished runs have it: the cells of one
run are made event by event, the other runs are that one under another name. Then: one aggregation of everything, one
of one run more, and four of the tables' queries by DuckDB on the warehouse. Wall seconds; peak memory of all processes.
"""

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from conformance.results.content import Manifest, content_of
from conformance.results.layout import CELLS, PARQUET, RUN_FILE
from conformance.results.parquet import MANIFEST, write_parquet
from conformance.results.reader import read_run
from conformance.spark.job import aggregate
from tests.spark.synthetic import MadeCell, make_run

QUERIES = {
    "matrix": "SELECT run, candidate, scenario, outcome, count(*) FROM cells GROUP BY ALL",
    "latency": "SELECT run, quantile_cont(reply_t - dot_t, [0.5, 0.95, 0.99]) FROM transactions "
    "WHERE from_outside AND code BETWEEN 200 AND 299 GROUP BY run",
    "duplicates": "SELECT run, cell, sink, recipient, key FROM deliveries GROUP BY ALL HAVING count(*) > 1",
    "losses": "SELECT run, cell, message, recipient FROM acknowledgements a ANTI JOIN deliveries d "
    "USING (run, cell, key, recipient)",
}


class Peak:
    """The most memory that this process and its children held together, sampled every tenth of a second."""

    def __init__(self) -> None:
        self.octets = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        me = psutil.Process()
        self._look(me)
        while not self._over.wait(0.1):
            self._look(me)

    def _look(self, me: psutil.Process) -> None:
        held = 0
        for process in [me, *me.children(recursive=True)]:
            try:
                held += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        self.octets = max(self.octets, held)


def renamed(source: Path, target: Path) -> None:
    """Write a run that differs from another in nothing but its name, with Parquet tables and no cells' files."""
    (target / CELLS).mkdir(parents=True)
    (target / PARQUET).mkdir()
    header = read_run(source).header.model_copy(update={"run": target.name})
    (target / RUN_FILE).write_text(header.model_dump_json(by_alias=True))
    for name in ("cells", "verdicts", "events"):
        table = pq.read_table(source / PARQUET / f"{name}.parquet")
        names = pa.array([target.name] * table.num_rows, pa.string())
        pq.write_table(table.set_column(0, "run", names), target / PARQUET / f"{name}.parquet", compression="zstd")
    manifest: Manifest = content_of(target)
    (target / PARQUET / MANIFEST).write_text(manifest.model_dump_json(by_alias=True))


def timed(what: str, do: Callable[[], object]) -> None:
    """Do something and say how long it took."""
    with Peak() as peak:
        began = time.perf_counter()
        do()
        seconds = time.perf_counter() - began
    print(f"{what:<44} {seconds:8.2f} s   peak {peak.octets / 2**30:.2f} GiB", flush=True)


def main() -> None:
    """Make the runs, aggregate them, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--cells", type=int, default=500)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", type=Path, default=None, help="default: a temporary one")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="conformance-benchmark-", dir=options.folder))
    try:
        measure(folder, options.runs, options.cells, options.master)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, runs: int, cells: int, master: str) -> None:
    """Print a line for each thing measured."""
    made = [MadeCell(f"scenario{n % 50}[x={n}]", messages=1) for n in range(cells)]
    timed(f"write one run of {cells} cells", lambda: make_run(folder / "first", made))
    rows = write_parquet(folder / "first").rows
    for number in range(runs):
        renamed(folder / "first", folder / "runs" / f"run{number:04}")
    print(f"{runs} runs of {cells} cells: {runs * rows['events']:,} events, {runs * rows['verdicts']:,} verdicts")
    out = folder / "out"
    timed("aggregate all of them", lambda: aggregate([folder / "runs"], out, master=master))
    renamed(folder / "first", folder / "one-more")
    timed("aggregate one run more", lambda: aggregate([folder / "one-more"], out, master=master))
    with duckdb.connect() as database:
        database.execute("SET threads = 2")
        for name in ("cells", "transactions", "deliveries", "acknowledgements"):
            files = f"{out}/warehouse/{name}/*/*.parquet"
            database.execute(f"CREATE VIEW {name} AS FROM read_parquet('{files}', hive_partitioning = true)")
        for name, query in QUERIES.items():
            timed(f"DuckDB: {name}", lambda query=query: database.execute(query).fetchall())


if __name__ == "__main__":
    main()
