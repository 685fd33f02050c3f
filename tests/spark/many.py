"""Many made-up runs, seeded: a few are built event by event, and the others are copies with another name and day.

What is written is what a finished run has for the pipeline: `run.json`, and Parquet tables with their manifest.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from conformance.results.columns import TABLES
from conformance.results.layout import CELLS_FOLDER, PARQUET_FOLDER, RUN_FILE
from conformance.results.manifest import Manifest, compute_manifest
from conformance.results.parquet import MANIFEST, write_parquet
from conformance.results.reader import read_run
from tests.spark.synthetic import DEFECTS, MadeCell, make_run

KINDS = 6
"""Runs that differ in what happened; two of every three runs are of candidate `c`, the others of its successor."""
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def cells_of(kind: int, cells: int, seed: int) -> list[MadeCell]:
    """Return the cells of a kind of run: one in fifty has a defect, one in two hundred was cut short."""
    chance = random.Random(f"{seed} {kind}")
    return [
        MadeCell(
            f"scenario{n % 50}[side={n // 50 % 4},x={n // 50}]",
            defect=chance.choice(DEFECTS) if chance.random() < 0.02 else None,
            excused=chance.random() < 0.3,
            cut=chance.random() < 0.005,
            messages=1,
            axes={"side": str(n // 50 % 4), "x": str(n // 50)},
        )
        for n in range(cells)
    ]


def make_many(folder: Path, runs: int, cells: int, *, seed: int = 1, first: int = 0) -> Iterator[Path]:
    """Write runs `run<first>` and on into `folder/runs`, and yield their paths; `folder/kinds` is kept for more."""
    for number in range(first, first + runs):
        kind = number % KINDS
        source = folder / "kinds" / f"kind{kind}"
        if not source.exists():
            candidate = "c" if kind < 2 * KINDS // 3 else "d"
            make_run(source, cells_of(kind, cells, seed), seed=seed + kind, candidate_sha256=candidate * 64)
            write_parquet(source)
        yield _renamed(source, folder / "runs" / f"run{number:04}", _FIRST + timedelta(days=number))


def _renamed(source: Path, target: Path, started: datetime) -> Path:
    """Write a run that differs from another in its name and its day, with Parquet tables and no cells' files."""
    (target / CELLS_FOLDER).mkdir(parents=True)
    (target / PARQUET_FOLDER).mkdir()
    new = {"run": target.name, "started": started.strftime("%Y-%m-%dT%H:%M:%SZ")}
    header = read_run(source).header.model_copy(update=new)
    (target / RUN_FILE).write_text(header.model_dump_json(by_alias=True))
    rows = {}
    for name in TABLES:
        table = pq.read_table(source / PARQUET_FOLDER / f"{name}.parquet")
        names = pa.array([target.name] * table.num_rows, pa.string())
        pq.write_table(
            table.set_column(0, "run", names), target / PARQUET_FOLDER / f"{name}.parquet", compression="zstd"
        )
        rows[name] = table.num_rows
    manifest: Manifest = compute_manifest(target).model_copy(update={"rows": rows})
    (target / PARQUET_FOLDER / MANIFEST).write_text(manifest.model_dump_json(by_alias=True))
    return target
