"""The whole of an aggregation: run directories in, tables and a page out."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from conformance.results.identity import sha256_of
from conformance.spark import invariants, traffic
from conformance.spark.export import export
from conformance.spark.ingest import BRONZE, Catalog, Ingested, Warehouse, find_runs, ingest, look_at, write_partitions
from conformance.spark.progress import Progress
from conformance.spark.schemas import TABLE_DDL
from conformance.spark.session import open_session
from conformance.spark.site import write_site
from conformance.spark.tables import history, verdicts
from conformance.spark.tables import traffic as seen
from conformance.spark.tables.table import Table

Failing = Literal["regression", "flaky", "disagreement"]

TABLES: tuple[Table, ...] = (*verdicts.TABLES, *seen.TABLES, *history.TABLES)
SILVER = (*traffic.KEPT, "rechecks")
QUERIES = {**traffic.VIEWS, "conditions": invariants.CONDITIONS, "rechecks": invariants.rechecks()}
"""What is made of the bronze tables, in order; `SILVER` of it is kept."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What an aggregation found. `found` counts only what stands in the runs that were named (flaky cells: in all)."""

    runs: int
    added: int
    cells: int
    cut_short: int
    damaged: int
    found: Mapping[Failing, int]
    fail_on: frozenset[Failing]
    page: Path

    @property
    def failing(self) -> tuple[Failing, ...]:
        """What was asked to fail on, and is there."""
        return tuple(sorted(what for what in self.fail_on if self.found[what]))

    @property
    def exit_code(self) -> int:
        """0, or 1 when there is something to fail on."""
        return 1 if self.failing else 0


def failing_from(text: str) -> frozenset[Failing]:
    """Read `regression,flaky,disagreement`, or a part of it. Raises ValueError for anything else."""
    words = {word.strip() for word in text.split(",") if word.strip()}
    known: tuple[Failing, ...] = get_args(Failing)
    if unknown := sorted(words - set(known)):
        raise ValueError(f"--fail-on {unknown[0]}: there are {', '.join(known)}")
    return frozenset(one for one in known if one in words)


def aggregate(
    runs: Sequence[Path],
    out: Path,
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    fail_on: frozenset[Failing] = frozenset(),
    progress: Progress | None = None,
) -> Summary:
    """Add runs to the warehouse in `out` and make all tables and the page anew from everything that is in it.

    A run that is there already, with the same content, costs nothing; one that changed replaces itself. On a cluster
    `runs` and `out` must be paths that every node sees. Raises RunDirectoryError, SchemaTooNew, JavaMissing.
    """
    progress = progress or Progress()
    with progress.stage("looking at the runs"):
        named = look_at(find_runs(runs))
        warehouse = Warehouse(out.resolve() / "warehouse")
        catalog = warehouse.load(layout())
        added = {name: run for name, run in named.items() if not _same(run, catalog.runs.get(name))}
    octets = sum(run.octets for run in {**catalog.runs, **named}.values())
    with open_session(master, conf, octets=octets) as session:
        if added:
            catalog = _add(session, added, catalog, warehouse, progress)
        with progress.stage(f"making {len(TABLES)} tables"):
            _open_warehouse(session, catalog, warehouse)
            tables = {table.name: session.sql(table.query).toArrow() for table in TABLES}
    for name, table in tables.items():
        export(table, out / "tables", name)
    page = write_site(out, TABLES, tables)
    for run in added.values():
        _tell_damage(catalog.runs[run.header.run], progress)
    return Summary(
        runs=len(catalog.runs),
        added=len(added),
        cells=sum(tables["runs"].column("cells").to_pylist()),
        cut_short=sum(tables["runs"].column("cut_short").to_pylist()),
        damaged=sum(run.damaged for run in catalog.runs.values()),
        found=_found(tables, frozenset(named)),
        fail_on=fail_on,
        page=page,
    )


def layout() -> str:
    """Return the hash of all that the warehouse's tables are made with: changed queries make it anew."""
    return sha256_of(
        [Catalog.model_json_schema(), TABLE_DDL, traffic.VIEWS, invariants.CONDITIONS, invariants.rechecks()]
    )


def _same(run: Ingested, known: Ingested | None) -> bool:
    return known is not None and known.content_sha256 == run.content_sha256


def _tell_damage(run: Ingested, progress: Progress) -> None:
    if run.damaged:
        progress.note(f"{run.path}: {run.damaged} lines could not be read, and were left out")
        for line in run.damage[:5]:
            progress.note(f"  {line}")


def _add(
    session: SparkSession, added: dict[str, Ingested], catalog: Catalog, warehouse: Warehouse, progress: Progress
) -> Catalog:
    """Write the partitions of runs, and the catalog last: interrupted, the runs are not there and come next time."""
    known = {name: run for name, run in catalog.runs.items() if name not in added}
    for name in (*BRONZE, *SILVER):
        Path(warehouse.table(name)).mkdir(parents=True, exist_ok=True)
    warehouse.save(catalog.model_copy(update={"runs": known}))
    for name in added:
        warehouse.forget(name, (*BRONZE, *SILVER))
    with progress.stage(f"reading {len(added)} runs"):
        read = ingest(session, added, warehouse)
    with progress.stage("following messages, checking invariants"):
        schemas = _make_silver(session, added, warehouse)
    whole = catalog.model_copy(update={"runs": {**known, **read}, "schemas": schemas})
    warehouse.save(whole)
    return whole


def _make_silver(session: SparkSession, added: dict[str, Ingested], warehouse: Warehouse) -> dict[str, str]:
    """Write the tables of `SILVER` for runs, and return their schemas.

    In order: what is written is read again by the queries that build on it, so that nothing is computed twice.
    """
    _view_bronze(session, added, warehouse)
    schemas = {}
    for name, query in QUERIES.items():
        rows = session.sql(query)
        if name in SILVER:
            write_partitions(rows.repartition("run"), warehouse, name)  # one file a run
            schemas[name] = rows.schema.json()
            _view(session, name, rows.schema, added, warehouse)
        else:
            rows.createOrReplaceTempView(name)
        if name in traffic.CACHED or name == "conditions":
            session.catalog.cacheTable(name)
    session.catalog.clearCache()
    return schemas


def _open_warehouse(session: SparkSession, catalog: Catalog, warehouse: Warehouse) -> None:
    """Define the views of all tables, over everything that is in the catalog."""
    _view_bronze(session, catalog.runs, warehouse)
    for name, schema in catalog.schemas.items():
        _view(session, name, StructType.fromJson(json.loads(schema)), catalog.runs, warehouse)


def _view_bronze(session: SparkSession, runs: Mapping[str, Ingested], warehouse: Warehouse) -> None:
    for name in BRONZE:
        _view(session, name, TABLE_DDL[name], runs, warehouse)
    headers = [(run.header, run.damaged) for run in runs.values()]
    session.createDataFrame(
        [(h.run, h.started, h.harness, h.clock, h.seed, h.filtered, h.cells_planned, bad) for h, bad in headers],
        "run STRING, started STRING, harness STRING, clock STRING, seed BIGINT, filtered BOOLEAN, "
        "cells_planned BIGINT, damaged BIGINT",
    ).createOrReplaceTempView("runs")
    session.createDataFrame(
        [(h.run, one.name, list(one.claims)) for h, _ in headers for one in h.candidates],
        "run STRING, candidate STRING, claims ARRAY<STRING>",
    ).createOrReplaceTempView("candidates")


def _view(
    session: SparkSession, name: str, schema: str | StructType, runs: Mapping[str, Ingested], warehouse: Warehouse
) -> None:
    table = session.read.schema(schema).parquet(warehouse.table(name))
    table.where(table["run"].isin(list(runs))).createOrReplaceTempView(name)


def _found(tables: Mapping[str, pa.Table], named: frozenset[str]) -> dict[Failing, int]:
    changes = Counter(row["change"] for row in tables["changes"].to_pylist() if row["standing"] and row["run"] in named)
    disagreements = sum(run in named for run in tables["disagreements"].column("run").to_pylist())
    return {"regression": changes["regression"], "flaky": tables["flaky"].num_rows, "disagreement": disagreements}
