"""The whole of an aggregation: run directories in, tables and a page out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from conformance.results.atomic_write import StagedFiles
from conformance.results.fingerprints import sha256_of_json
from conformance.shortage import shortage_of
from conformance.spark.build_layers import code_hash
from conformance.spark.export import export_table
from conformance.spark.ingest import IngestedRun, check_tables, escape_glob, find_runs, read_headers
from conformance.spark.partitioning import Partitioning, partition_count
from conformance.spark.prepare_session import prepare_session
from conformance.spark.progress import Progress
from conformance.spark.schemas import TABLE_DDL
from conformance.spark.tables import history, verdicts
from conformance.spark.tables import traffic as seen
from conformance.spark.tables.table import Table
from conformance.spark.task_graph import MAX_RUNNING, Task, names_in_query, run_tasks
from conformance.spark.views import LAYERS, STORED, layer_tasks, view_queries, view_tasks
from conformance.spark.warehouse import Catalog, Warehouse, batch_name
from conformance.spark.write_layers import LayerFiles, write_layers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FailureKind = Literal["regression", "flaky", "disagreement"]

TABLES: tuple[Table, ...] = (*verdicts.TABLES, *seen.TABLES, *history.TABLES)
PER_RUN_TABLES: tuple[Table, ...] = (*(table for table in TABLES if not table.across), verdicts.OUTCOMES)
CROSS_RUN_TABLES: tuple[Table, ...] = tuple(table for table in TABLES if table.across)

ACROSS_SETTINGS = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Runs are compared over all outcomes there are: however few runs are added, many outcomes are worth compiling for."""

FEW = 20_000
"""Outcomes of so many cells are compared sooner in one part and interpreted."""


WritePage = Callable[[Sequence[Table], Mapping[str, list[dict[str, Any]]], Callable[[Path, bytes], None]], Path]
"""(tables, their rows by name, what writes a file) -> the path of the page over them."""


@dataclass(frozen=True, slots=True)
class AggregationResult:
    """What an aggregation found. `found` counts only what stands in the runs that were named (flaky cells: in all).

    `page` is what was returned by who writes the page over the tables, None where nobody was asked to.
    """

    runs: int
    added: int
    cells: int
    cut_short: int
    damaged: int
    found: Mapping[FailureKind, int]
    fail_on: frozenset[FailureKind]
    page: Path | None

    @property
    def failing(self) -> tuple[FailureKind, ...]:
        """What was asked to fail on, and is there."""
        return tuple(sorted(what for what in self.fail_on if self.found[what]))

    @property
    def exit_code(self) -> int:
        """0, or 1 when there is something to fail on."""
        return 1 if self.failing else 0


def parse_fail_on(text: str) -> frozenset[FailureKind]:
    """Read `regression,flaky,disagreement`, or a part of it. Raises ValueError for anything else."""
    words = {word.strip() for word in text.split(",") if word.strip()}
    known: tuple[FailureKind, ...] = get_args(FailureKind)
    if unknown := sorted(words - set(known)):
        raise ValueError(f"--fail-on {unknown[0]}: there are {', '.join(known)}")
    return frozenset(one for one in known if one in words)


def aggregate(
    runs: Sequence[Path],
    out: Path,
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    fail_on: frozenset[FailureKind] = frozenset(),
    progress: Progress | None = None,
    make_jvm_cache: bool = False,
    write_page: WritePage | None = None,
) -> AggregationResult:
    """Add runs to the warehouse in `out`, and make the tables of everything that is in it; with `write_page` a page too.

    A run that is there already, with the same content, costs nothing; one that changed replaces itself. On a cluster
    `runs` and `out` must be paths that every node sees. With `make_jvm_cache` what Java loads is kept for later
    aggregations, after this one. Raises RunDirectoryError, SchemaTooNew, JavaMissing.
    """
    progress = progress or Progress()
    warehouse = Warehouse(out.resolve() / "warehouse")
    with warehouse.locked(progress.note):
        try:
            return _aggregate(
                runs,
                out,
                warehouse,
                master,
                conf,
                fail_on,
                progress,
                make_jvm_cache=make_jvm_cache,
                write_page=write_page,
            )
        except Exception as error:
            if not _tells_of_damage(error) or shortage_of(error):  # what it could not write whole is no damage
                raise
            check_tables(find_runs(runs))  # what is damaged is told by its file
            warehouse.check()
            raise


def _tells_of_damage(error: Exception) -> bool:
    """Whether a file that cannot be read may be behind an error."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JError | pa.ArrowException | OSError | UnicodeDecodeError)


def _aggregate(
    runs: Sequence[Path],
    out: Path,
    warehouse: Warehouse,
    master: str,
    conf: Mapping[str, str] | None,
    fail_on: frozenset[FailureKind],
    progress: Progress,
    *,
    make_jvm_cache: bool,
    write_page: WritePage | None,
) -> AggregationResult:
    progress.stages = 6
    with progress.stage("looking at the runs"):
        found = read_headers(find_runs(runs))
        catalog = warehouse.load(layout_hash())
        added = {name: run for name, run in found.runs.items() if not _same(run, catalog.runs.get(name))}
    for told in found.unreadable:
        progress.note(f"left out: {told}")
    octets = sum(run.octets for run in added.values())
    making = LayerFiles(added, warehouse.adding, partition_count(octets))
    with (
        StagedFiles() as files,
        ThreadPoolExecutor(1) as beside,
        prepare_session(master, conf, octets=octets, learn=make_jvm_cache) as java,
    ):
        made = beside.submit(write_layers, making)  # while Java starts
        from conformance.spark.session import connect_session  # and so is pyspark loaded

        with connect_session(java, progress.note) as session:
            catalog, tables = _add(session, made, catalog, warehouse, progress)
            with progress.stage("comparing runs, writing tables", session.sparkContext):
                writing = beside.submit(_export, tables, out, files)  # Python writes while Spark compares
                compared = _compared(session, warehouse, tables[verdicts.OUTCOMES.name].num_rows)
                rows = writing.result()
        with progress.stage("writing the page"):
            rows |= _export(compared, out, files)
            tables |= compared
            page = write_page(TABLES, rows, files.write) if write_page is not None else None
    for run in added:
        _tell_damage(catalog.runs[run], progress)
    return AggregationResult(
        runs=len(catalog.runs),
        added=len(added),
        cells=sum(tables["runs"].column("cells").to_pylist()),
        cut_short=sum(tables["runs"].column("cut_short").to_pylist()),
        damaged=sum(run.damaged for run in catalog.runs.values()) + len(found.unreadable),
        found=_found(tables, frozenset(found.runs)),
        fail_on=fail_on,
        page=page,
    )


def layout_hash() -> str:
    """Return the hash of all that the warehouse's tables are made with: changed queries make it anew."""
    made = [(table.name, table.query, str(table.schema)) for table in PER_RUN_TABLES]
    return sha256_of_json([Catalog.model_json_schema(), TABLE_DDL, LAYERS, STORED, code_hash(), view_queries(), made])


def _same(run: IngestedRun, known: IngestedRun | None) -> bool:
    return known is not None and known.content_sha256 == run.content_sha256


def _tell_damage(run: IngestedRun, progress: Progress) -> None:
    if run.damaged:
        progress.note(f"{run.path}: {run.damaged} lines or files could not be read, and were left out")
        for line in run.damage[:5]:
            progress.note(f"  {line}")


def _add(
    session: "SparkSession", made: Future[LayerFiles], catalog: Catalog, warehouse: Warehouse, progress: Progress
) -> tuple[Catalog, dict[str, pa.Table]]:
    """Take in the files of runs, merge their summaries, and write the catalog last; return it and all summaries."""
    with progress.stage("reading the runs, following their messages"):
        making = made.result()
    added = making.runs
    if not added:
        return catalog, {
            table.name: warehouse.merge(table, table.schema.empty_table(), (), catalog.runs) for table in PER_RUN_TABLES
        }
    catalog = warehouse.remove_runs(catalog, added)
    local = (session.sparkContext.master or "").startswith("local")
    spread = Partitioning(making.parts, local)
    batch = batch_name(added)
    folders = warehouse.move_built_files(batch)
    with (
        progress.stage("checking invariants, making tables", session.sparkContext),
        layer_tasks(session, folders, batch, spread) as steps,
    ):
        rows = _made(session, PER_RUN_TABLES, view_tasks(session, making, spread, steps))
    session.catalog.clearCache()
    warehouse.clear()
    whole = catalog.model_copy(
        update={"runs": {**catalog.runs, **added}, "batches": {**catalog.batches, batch: tuple(sorted(added))}}
    )
    with progress.stage("adding them to the warehouse"):
        with ThreadPoolExecutor(MAX_RUNNING) as pool:
            merging = {
                table.name: pool.submit(warehouse.merge, table, rows[table.name], added, whole.runs)
                for table in reversed(PER_RUN_TABLES)  # the largest is the last
            }
            merged = {name: one.result() for name, one in merging.items()}
        warehouse.save(whole)
    return whole, merged


def _compared(session: "SparkSession", warehouse: Warehouse, outcomes: int) -> dict[str, pa.Table]:
    """Return the tables of all runs together, which have so many outcomes."""
    rows = session.read.parquet(escape_glob(warehouse.summary(verdicts.OUTCOMES)))
    if outcomes <= FEW:
        rows = rows.coalesce(1)
    else:
        for name, value in ACROSS_SETTINGS.items():
            session.conf.set(name, value)
        parts = max(int(session.conf.get("spark.sql.shuffle.partitions") or 1), session.sparkContext.defaultParallelism)
        session.conf.set("spark.sql.shuffle.partitions", str(parts))
    rows.createOrReplaceTempView("outcomes")
    made = _made(session, CROSS_RUN_TABLES)
    return {table.name: table.shaped(made[table.name]) for table in CROSS_RUN_TABLES}


def _export(tables: Mapping[str, pa.Table], out: Path, files: StagedFiles) -> dict[str, list[dict[str, Any]]]:
    """Write tables for whoever has no Spark, and return their rows; what is internal stays in the warehouse."""
    names = [table.name for table in TABLES if table.name in tables]
    return {name: export_table(tables[name], out / "tables", name, files.write) for name in names}


def _made(
    session: "SparkSession", tables: Sequence[Table], before: "Mapping[str, Task[DataFrame]]" = MappingProxyType({})
) -> dict[str, pa.Table]:
    """Return what tables' queries give, once those steps are done whose views they name."""
    asking: dict[str, Task[pa.Table]] = {
        f"table {one.name}": Task(partial(_asked, session, one), names_in_query(one.query, before.keys()))
        for one in tables
    }
    made = run_tasks({**before, **asking})
    return {one.name: made[f"table {one.name}"] for one in tables}


def _asked(session: "SparkSession", table: Table) -> pa.Table:
    return session.sql(table.query).toArrow()


def _found(tables: Mapping[str, pa.Table], named: frozenset[str]) -> dict[FailureKind, int]:
    changes = Counter(row["change"] for row in tables["changes"].to_pylist() if row["standing"] and row["run"] in named)
    disagreements = sum(run in named for run in tables["disagreements"].column("run").to_pylist())
    return {"regression": changes["regression"], "flaky": tables["flaky"].num_rows, "disagreement": disagreements}
