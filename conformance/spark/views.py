"""The views that Spark queries: the layers of a batch, read from its files, and the views of messages and invariants over them.

A *batch* is the runs that one aggregation adds; a *layer* is one of the tables built of them: cells, transactions, recorded
verdicts. `aggregation` calls `layer_tasks` and `view_tasks`. Views are defined by tasks (`task_graph`) that name the views they
depend on, so that Spark plans several at a time. A batch of more than one partition is registered as bucketed tables, which
Spark joins by cell without a shuffle; a query reads only the columns that it uses. A view is defined with hints for joins and
is cached where several queries use it; a task returns the view's rows (a data frame) before that.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from conformance.results.columns import TABLES
from conformance.spark import invariants, message_views, topologies
from conformance.spark.ingest import candidate_rows, escape_glob, run_rows
from conformance.spark.partitioning import Partitioning
from conformance.spark.schemas import TRANSACTIONS_DDL, spark_ddl
from conformance.spark.tables.verdicts import CELL_REQUIREMENTS
from conformance.spark.task_graph import Task, names_in_query
from conformance.spark.write_layers import LayerFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERDICTS = """
SELECT v.cell_id, c.run, c.candidate, v.check, v.outcome, v.occasions, v.requirements, v.remark, v.failure
FROM recorded_verdicts v JOIN cells c ON c.cell_id = v.cell_id
"""
"""The recorded verdicts with the run and candidate of their cells."""

_IS_EXCHANGE = "kind IN ('mail', 'discard')"
LAYER_VIEWS = {
    "cells": "SELECT * FROM stored_cells",
    "recorded_verdicts": "SELECT * FROM stored_recorded_verdicts",
    "exchanges": f"SELECT * FROM stored_transactions WHERE {_IS_EXCHANGE}",  # noqa: S608  # made of constants
    "single_events": f"SELECT * FROM stored_transactions WHERE NOT {_IS_EXCHANGE}",  # noqa: S608
}
"""The views directly over the files of a batch, which are named `stored_<layer>`."""

_PLAIN_CELL_COLUMNS = tuple(column for column in TABLES["cells"] if column.name not in topologies.JSON_COLUMNS)
LAYERS_DDL = {
    "cells": f"`cell_id` BIGINT, {spark_ddl(_PLAIN_CELL_COLUMNS)}, {topologies.CELL_COLUMNS_DDL}",
    "transactions": TRANSACTIONS_DDL,
    "recorded_verdicts": "`cell_id` BIGINT, `check` STRING, `outcome` STRING, `occasions` BIGINT, "
    "`requirements` ARRAY<STRING>, `remark` BOOLEAN, "
    "`failure` STRUCT<`message`: STRING, `moment`: DOUBLE, `sentence`: STRING, `event`: BIGINT>",
}
"""The schema of each layer's files, in Spark's DDL."""

CACHED_VIEWS = ("conditions", "harness_messages", "mail_transactions", "acknowledgements", "rechecks", "verdicts")
"""Views that several queries build on: each is computed once."""

VIEWS_CACHED_WHEN_SMALL = (
    "parameter_changes", "altered_sessions", "shadow_copies", "deliveries", "cell_requirements", *invariants.INVARIANT_VIEWS,
)  # fmt: skip
"""Views that are cached too in a small history, where planning a query costs more than computing it."""


def view_queries() -> dict[str, str]:
    """Return the SQL of every view that is defined over the views of the layers, by name, each after those that it needs.

    The views of the layers themselves (`LAYER_VIEWS`) and of headers are not among them.
    """
    return {
        "conditions": invariants.CONDITIONS,
        **message_views.VIEWS,
        "verdicts": VERDICTS,
        "cell_requirements": CELL_REQUIREMENTS,
        **invariants.recheck_queries(),
    }


@contextmanager
def layer_tasks(
    session: "SparkSession", folders: Mapping[str, Path], batch: str, partitioning: Partitioning
) -> Iterator["dict[str, Task[DataFrame]]"]:
    """Yield the tasks that define the views of a batch's layers, by the view's name; drop the batch's tables after the block.

    No task is run here. `folders` has the folder of each layer; `batch` makes the names of Spark's tables unique. The files stay.
    """
    tables = {name: f"conformance_{name}_{batch}" for name in LAYERS_DDL} if partitioning.several else {}
    tasks: dict[str, Task[DataFrame]] = {
        f"stored_{name}": Task(partial(_define_stored, session, partitioning, name, folders[name], tables.get(name)))
        for name in LAYERS_DDL
    }
    for name, query in LAYER_VIEWS.items():
        tasks[name] = Task(
            partial(_define_layer, session, partitioning, name, query), names_in_query(query, tasks.keys())
        )
    try:
        yield tasks
    finally:
        for table in tables.values():
            session.sql(f"DROP TABLE IF EXISTS {table}")


def _define_stored(
    session: "SparkSession", partitioning: Partitioning, layer: str, folder: Path, table: str | None
) -> "DataFrame":
    """Define the view `stored_<layer>` over a folder of Parquet files, and return its rows.

    `table` is the name of a bucketed table to create first, over which the view is defined; None: the files are read without.
    """
    if table is None:
        rows = partitioning.repartition_by_cell(session.read.schema(LAYERS_DDL[layer]).parquet(escape_glob(folder)))
    else:
        partitioning.register_bucketed_table(session, table, LAYERS_DDL[layer], folder)
        rows = session.table(table)
    rows.createOrReplaceTempView(f"stored_{layer}")
    return rows


def _define_layer(session: "SparkSession", partitioning: Partitioning, name: str, query: str) -> "DataFrame":
    """Define a view of `LAYER_VIEWS` in the session by its query, and return its rows without the view's hint.

    The view `cells` always has the hint that joins hash it, `exchanges` and `single_events` only where there are several
    partitions, `recorded_verdicts` never. In one local partition `cells` is kept in memory when it is first read.
    """
    # The queries of a small history name the smaller side of a join themselves: Spark would take all mails for fewer than cells.
    hinted = ("cells", "exchanges", "single_events") if partitioning.several else ("cells",)
    rows = session.sql(query)
    if name == "cells":
        rows = partitioning.cached_in_memory_when_small(rows)
    (partitioning.hash_join_hint(rows) if name in hinted else rows).createOrReplaceTempView(name)
    return rows


def view_tasks(
    session: "SparkSession",
    layer_files: LayerFiles,
    partitioning: Partitioning,
    layers: "Mapping[str, Task[DataFrame]]",
) -> "dict[str, Task[DataFrame]]":
    """Return the tasks of the layers, and those that define the views over them and over the headers of runs, by the view's name.

    `layers` are the tasks that `layer_tasks` yielded. No task is run here. Callers must hold the data frames that the tasks
    return until their queries have ended: Spark's cleaner drops a cached data frame without references while Spark still uses it.
    """
    runs = layer_files.runs
    headers = {"topologies": layer_files.topologies, "candidates": candidate_rows(runs), "runs": run_rows(runs)}
    tasks = {
        **layers,
        **{name: Task(partial(_define_header, session, partitioning, name, rows)) for name, rows in headers.items()},
    }
    for name, query in view_queries().items():
        tasks[name] = Task(
            partial(_define_view, session, partitioning, name, query), names_in_query(query, tasks.keys())
        )
    return tasks


def _define_header(session: "SparkSession", partitioning: Partitioning, name: str, rows: pa.Table) -> "DataFrame":
    """Define a view of a small Arrow table, with the hint for a broadcast join, and return its rows without the hint."""
    frame = session.createDataFrame(rows)
    partitioning.broadcast(frame).createOrReplaceTempView(name)
    return frame


def _define_view(session: "SparkSession", partitioning: Partitioning, name: str, query: str) -> "DataFrame":
    """Define a view in the session by its query, cached where several queries use it, and return its rows before caching.

    Callers hold what is returned until their queries have ended: Spark drops a cached data frame without references.
    """
    uncached = rows = session.sql(query)
    if name == "rechecks":  # Spark does not see that the rows of a union of eight queries still lie by cell
        rows = partitioning.repartition_by_cell(rows)
    if name in CACHED_VIEWS:
        rows = partitioning.cached(rows)
    elif name in VIEWS_CACHED_WHEN_SMALL:
        rows = partitioning.cached_when_small(rows)
    rows.createOrReplaceTempView(name)
    return uncached
