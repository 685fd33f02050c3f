"""Aggregate run directories into tables and a page.

1. Read the headers of the runs, and find those that the warehouse lacks or has with other content (`ingest`).
2. In threads: build the layers of these runs with Arrow (`write_layers`) while Java starts and pyspark is imported.
3. Spark queries the new batch for the rows of every table that is made of each run on its own (`views`, `tables`).
4. Merge these rows into the warehouse's summaries, and write the catalog last, which makes the batch part of the warehouse.
5. Spark compares all runs (`tables.history`, `tables.versions`) over the summaries of outcomes, and all explorations
   (`explorations`), while Python exports the other tables.

The *layers* are the tables that Spark's queries read: cells, transactions, recorded verdicts. A *summary* is the warehouse's
file with the rows of one published table for all runs. A *task* is a function that `task_graph` calls in a thread.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
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
from conformance.spark.explorations import compare_explorations, read_explorations
from conformance.spark.export import export_table
from conformance.spark.ingest import IngestedRun, check_tables, escape_glob, find_directories, read_headers
from conformance.spark.partitioning import COMPILED, INTERPRETED, Partitioning, partition_count
from conformance.spark.prepare_session import prepare_session
from conformance.spark.progress import Progress
from conformance.spark.schemas import RUN_TABLES_DDL
from conformance.spark.tables import explorations, history, traffic, verdicts, versions
from conformance.spark.tables.table import Table
from conformance.spark.task_graph import MAX_RUNNING, Task, names_in_query, run_tasks
from conformance.spark.views import LAYER_VIEWS, LAYERS_DDL, layer_tasks, view_queries, view_tasks
from conformance.spark.warehouse import Catalog, Warehouse, batch_name
from conformance.spark.write_layers import LayerFiles, write_layers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FailureKind = Literal["regression", "flaky", "disagreement"]

TABLES: tuple[Table, ...] = (
    *verdicts.TABLES, *traffic.TABLES, *history.TABLES, *versions.TABLES, *explorations.TABLES,
)  # fmt: skip
PER_RUN_TABLES: tuple[Table, ...] = (
    *(table for table in TABLES if not table.across),
    verdicts.OUTCOMES,
    verdicts.ROW_OUTCOMES,
)
"""The tables with rows for each run on its own, which the warehouse keeps."""
CROSS_RUN_TABLES: tuple[Table, ...] = tuple(
    table for table in TABLES if table.across and table not in explorations.TABLES
)
"""The tables that compare runs, made again by each aggregation; those of explorations are made where there are any."""

_FEW_OUTCOMES = 20_000
"""Outcomes of cells up to which runs are compared faster in one partition, by interpreted queries, however many runs are added."""

WritePage = Callable[[Sequence[Table], Mapping[str, list[dict[str, Any]]], Callable[[Path, bytes], None]], Path]
"""(tables, rows of each by name, function that writes a file) -> path of the page that shows them."""


@dataclass(frozen=True, slots=True)
class AggregationResult:
    """What an aggregation found.

    `added` is the number of runs that were new or had changed; the other numbers are of everything in the warehouse,
    `explorations` and `findings` are those of explorations. `damaged` counts lines and files that could not be read, and the
    directories passed in that could not. `found` counts regressions and disagreements of the runs that were
    passed in, and all flaky cells; `fail_on` are the kinds that make the exit code 1. `page` is what `write_page` returned,
    None without one.
    """

    runs: int
    added: int
    cells: int
    cut_short: int
    damaged: int
    explorations: int
    findings: int
    found: Mapping[FailureKind, int]
    fail_on: frozenset[FailureKind]
    page: Path | None

    @property
    def failing(self) -> tuple[FailureKind, ...]:
        """The kinds of failure that `fail_on` names and that were found, sorted."""
        return tuple(sorted(kind for kind in self.fail_on if self.found[kind]))

    @property
    def exit_code(self) -> int:
        """1 where a kind of failure that `fail_on` names was found, else 0."""
        return 1 if self.failing else 0


def parse_fail_on(text: str) -> frozenset[FailureKind]:
    """Return the kinds of failure in the option `--fail-on`, a list such as `regression,flaky`; none for ''.

    Raises ValueError for an unknown kind.
    """
    words = {word.strip() for word in text.split(",") if word.strip()}
    known: tuple[FailureKind, ...] = get_args(FailureKind)
    if unknown := sorted(words - set(known)):
        raise ValueError(f"--fail-on {unknown[0]}: choose from {', '.join(known)}")
    return frozenset(kind for kind in known if kind in words)


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
    """Add runs and explorations to the warehouse in `out`, write the tables of everything in it, and a page with `write_page`.

    `runs` are directories of runs or explorations, or folders with some. A run that the warehouse has with the same content is
    skipped; one whose content changed is replaced. On a cluster `runs` and `out` must be paths that every machine of the
    cluster sees. With `make_jvm_cache` an AOT cache is made for later aggregations. `fail_on` decides the result's exit code
    only. Waits while another aggregation writes to `out`. Raises RunDirectoryError, SchemaTooNew, JavaMissing,
    JavaEnded, MasterUnreachable, SparkFailed, OSError.
    """
    progress = progress or Progress()
    warehouse = Warehouse(out.resolve() / "warehouse")
    progress.stages = 6
    with warehouse.locked(progress.note), _naming_damage(runs, warehouse):
        with progress.stage("looking at the runs"):
            directories = find_directories(runs)
            named, explored = read_headers(directories.runs), read_explorations(directories.explorations)
            catalog = warehouse.load_catalog(layout_hash()).with_explorations(explored.explorations)
            added = {
                name: run for name, run in named.runs.items() if not _has_same_content(run, catalog.runs.get(name))
            }
        for message in (*named.unreadable, *explored.unreadable):
            progress.note(f"left out: {message}")
        octets = sum(run.octets for run in added.values())
        planned = LayerFiles(runs=added, folder=warehouse.build_folder, buckets=partition_count(octets))
        with (
            StagedFiles() as files,
            ThreadPoolExecutor(1) as worker,
            prepare_session(master, conf, octets=octets, record_classes=make_jvm_cache) as prepared,
        ):
            layer_files = worker.submit(write_layers, planned)  # while Java starts and pyspark is imported
            from conformance.spark.session import connect_session

            with connect_session(prepared, progress.note) as session:
                warehouse.remove_outdated(catalog)  # not before, since there may be no connection
                warehouse.save_catalog(catalog)
                catalog, tables = _add_runs(session, layer_files, catalog, warehouse, progress)
                with progress.stage("comparing runs, writing tables", session.sparkContext):
                    exported = worker.submit(_export_tables, tables, out, files)  # Python writes while Spark compares
                    compared = _compare_runs(session, warehouse, tables[verdicts.OUTCOMES.name].num_rows)
                    compared |= compare_explorations(session, list(catalog.explorations.values()))
                    rows = exported.result()
            with progress.stage("writing the page"):
                rows |= _export_tables(compared, out, files)
                tables |= compared
                page = write_page(TABLES, rows, files.write) if write_page is not None else None
        for run in added:
            _report_damage(catalog.runs[run], progress)
    return AggregationResult(
        runs=len(catalog.runs),
        added=len(added),
        cells=sum(tables["runs"].column("cells").to_pylist()),
        cut_short=sum(tables["runs"].column("cut_short").to_pylist()),
        damaged=sum(run.damaged for run in catalog.runs.values()) + len(named.unreadable) + len(explored.unreadable),
        explorations=len(catalog.explorations),
        findings=tables[explorations.FINDINGS.name].num_rows,
        found=_count_failures(tables, frozenset(named.runs)),
        fail_on=fail_on,
        page=page,
    )


@contextmanager
def _naming_damage(runs: Sequence[Path], warehouse: Warehouse) -> Iterator[None]:
    """Turn an error of the block that a damaged file caused into a RunDirectoryError that names the file.

    After such an error all tables of the runs and of the warehouse are read to find that file; where none is damaged, the
    error is raised as it is. So are a full disk or the like, which is not damage.
    """
    try:
        yield
    except Exception as error:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from conformance.spark.session import SparkFailed

        file_errors = (SparkFailed, PySparkException, Py4JError, pa.ArrowException, OSError, UnicodeDecodeError)
        if not isinstance(error, file_errors) or shortage_of(error):  # a full disk is not damage
            raise
        check_tables(find_directories(runs).runs)
        warehouse.check_files()
        raise


def layout_hash() -> str:
    """Return the hash of all schemas, queries and code that the warehouse's rows depend on.

    A warehouse with another hash is deleted (`Warehouse.remove_outdated`).
    """
    tables = [(table.name, table.query, str(table.schema)) for table in PER_RUN_TABLES]
    return sha256_of_json(
        [
            Catalog.model_json_schema(), RUN_TABLES_DDL, LAYER_VIEWS, LAYERS_DDL, code_hash(), view_queries(), tables,
        ]
    )  # fmt: skip


def _has_same_content(run: IngestedRun, known: IngestedRun | None) -> bool:
    """Return whether a run need not be added again: `known`, the warehouse's run of that name or None, has the same content."""
    return known is not None and known.content_sha256 == run.content_sha256


def _report_damage(run: IngestedRun, progress: Progress) -> None:
    """Print, through `progress`, how much of a run could not be read, and the first five places; nothing for an undamaged run."""
    if run.damaged:
        progress.note(f"{run.path}: {run.damaged} lines or files could not be read, and were left out")
        for line in run.damage[:5]:
            progress.note(f"  {line}")


def _add_runs(
    session: "SparkSession", layer_files: Future[LayerFiles], catalog: Catalog, warehouse: Warehouse, progress: Progress
) -> tuple[Catalog, dict[str, pa.Table]]:
    """Add new and changed runs to the warehouse: their files, their rows in its summaries, and last the catalog.

    Blocks for `layer_files`, the files of the runs to add, and for Spark's queries over them. Returns the new catalog, and the
    summaries by table, with the rows of all runs. Without runs to add, the catalog is returned unchanged and Spark is not used.
    """
    with progress.stage("reading the runs, following their messages"):
        written = layer_files.result()
    added = written.runs
    if not added:
        return catalog, {
            table.name: warehouse.merge_summary(table, table.schema.empty_table(), (), catalog.runs)
            for table in PER_RUN_TABLES
        }
    catalog = warehouse.remove_runs(catalog, added)
    local = (session.sparkContext.master or "").startswith("local")
    partitioning = Partitioning(partitions=written.buckets, local=local)
    batch = batch_name(added)
    folders = warehouse.move_built_files(batch)
    with (
        progress.stage("checking invariants, making tables", session.sparkContext),
        layer_tasks(session, folders, batch, partitioning) as tasks,
    ):
        rows = _query_tables(session, PER_RUN_TABLES, view_tasks(session, written, partitioning, tasks))
    session.catalog.clearCache()
    warehouse.delete_built_files()
    extended = catalog.model_copy(
        update={"runs": {**catalog.runs, **added}, "batches": {**catalog.batches, batch: tuple(sorted(added))}}
    )
    with progress.stage("adding them to the warehouse"):
        with ThreadPoolExecutor(MAX_RUNNING) as pool:
            merging = {
                table.name: pool.submit(warehouse.merge_summary, table, rows[table.name], added, extended.runs)
                for table in reversed(PER_RUN_TABLES)  # the largest is the last of them
            }
            merged = {name: future.result() for name, future in merging.items()}
        warehouse.save_catalog(extended)
    return extended, merged


def _compare_runs(session: "SparkSession", warehouse: Warehouse, outcomes: int) -> dict[str, pa.Table]:
    """Query the tables that compare all runs (`CROSS_RUN_TABLES`), and return their rows by table. Blocks.

    The session gets views of the outcomes of cells and rows. `outcomes` is how many outcomes of cells the warehouse has. Settings
    of the session are changed so that queries are interpreted, or, with more than `_FEW_OUTCOMES`, compiled and partitioned.
    """
    for name, value in (INTERPRETED if outcomes <= _FEW_OUTCOMES else COMPILED).items():
        session.conf.set(name, value)
    if outcomes > _FEW_OUTCOMES:
        partitions = max(
            int(session.conf.get("spark.sql.shuffle.partitions") or 1), session.sparkContext.defaultParallelism
        )
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    for table in (verdicts.OUTCOMES, verdicts.ROW_OUTCOMES):
        rows = session.read.parquet(escape_glob(warehouse.summary_file(table)))
        (rows.coalesce(1) if outcomes <= _FEW_OUTCOMES else rows).createOrReplaceTempView(table.name)
    rows_by_table = _query_tables(session, CROSS_RUN_TABLES)
    return {table.name: table.conform(rows_by_table[table.name]) for table in CROSS_RUN_TABLES}


def _export_tables(tables: Mapping[str, pa.Table], out: Path, files: StagedFiles) -> dict[str, list[dict[str, Any]]]:
    """Write tables as files in `out/tables`, and return their rows by table; internal tables are left out.

    `tables` has the rows of each table by its name. The files appear when the block of `files` ends.
    """
    names = [table.name for table in TABLES if table.name in tables]
    return {name: export_table(tables[name], out / "tables", name, files.write) for name in names}


def _query_tables(
    session: "SparkSession", tables: Sequence[Table], views: "Mapping[str, Task[DataFrame]]" = MappingProxyType({})
) -> dict[str, pa.Table]:
    """Run the tables' queries in threads, each after the tasks of the views that it names; block, and return their rows by table.

    `views` are tasks that define views, by the view's name; all of them are run. A table may have the name of a view, so its task
    gets the prefix `table`.
    """
    queries: dict[str, Task[pa.Table]] = {
        f"table {table.name}": Task(partial(_query, session, table), names_in_query(table.query, views.keys()))
        for table in tables
    }
    results = run_tasks({**views, **queries})
    return {table.name: results[f"table {table.name}"] for table in tables}


def _query(session: "SparkSession", table: Table) -> pa.Table:
    """Run a table's query on the session's views, block until it has ended, and return its rows."""
    return session.sql(table.query).toArrow()


def _count_failures(tables: Mapping[str, pa.Table], named: frozenset[str]) -> dict[FailureKind, int]:
    """Return how many standing regressions and disagreements the runs `named` have, and how many flaky cells all runs have.

    `named` are the runs that were passed to `aggregate`. A change is standing when it is its cell's latest.
    """
    changes = Counter(row["change"] for row in tables["changes"].to_pylist() if row["standing"] and row["run"] in named)
    disagreements = sum(run in named for run in tables["disagreements"].column("run").to_pylist())
    return {"regression": changes["regression"], "flaky": tables["flaky"].num_rows, "disagreement": disagreements}
