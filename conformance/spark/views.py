"""What every question is asked of: the layers, read from the files of a batch, and the views over them.

The files of a history of several parts are written by the part that each cell is in. Any query takes those columns that it
wants, and no node of a cluster takes them with it.
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
from conformance.spark.layer import DDL
from conformance.spark.partitioning import Partitioning
from conformance.spark.schemas import ddl
from conformance.spark.task_graph import Task, names_in_query
from conformance.spark.write_layers import LayerFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JUDGED = """
SELECT v.cell_id, c.run, c.candidate, v.check, v.outcome, v.occasions, v.requirements, v.remark, v.failure
FROM recorded v JOIN cells c ON c.cell_id = v.cell_id
"""
"""The recorded verdicts, and whose they are."""

EXCHANGED = "kind IN ('mail', 'discard')"
LAYERS = {
    "cells": "SELECT * FROM stored_cells",
    "recorded": "SELECT * FROM stored_recorded",
    "exchanges": f"SELECT * FROM stored_transactions WHERE {EXCHANGED}",  # noqa: S608  # made of constants
    "happenings": f"SELECT * FROM stored_transactions WHERE NOT {EXCHANGED}",  # noqa: S608
}
"""What the views are made of, over the files of a batch."""

STORED = {
    "cells": f"`cell_id` BIGINT, {ddl(tuple(column for column in TABLES['cells'] if column.name not in topologies.READ))}, {topologies.DDL}",
    "transactions": DDL,
    "recorded": "`cell_id` BIGINT, `check` STRING, `outcome` STRING, `occasions` BIGINT, `requirements` ARRAY<STRING>, "
    "`remark` BOOLEAN, `failure` STRUCT<`message`: STRING, `moment`: DOUBLE, `sentence`: STRING, `event`: BIGINT>",
}
"""The schemas of those files, in Spark's DDL."""

CACHED_VIEWS = ("conditions", "made", "mails", "acknowledgements", "rechecks", "verdicts")
"""Views that more than one query builds on: each is computed once."""

VIEWS_CACHED_WHEN_SMALL = ("changes", "altered", "copies", "deliveries", *invariants.PARTS)
"""Of a small history planning costs more than computing: these too are planned and computed once, by themselves."""


def view_queries() -> dict[str, str]:
    """Return the query of every view over the layers, in order."""
    return {
        "conditions": invariants.CONDITIONS,
        **message_views.VIEWS,
        "verdicts": JUDGED,
        **invariants.rechecks(),
    }


@contextmanager
def layer_tasks(
    session: "SparkSession", folders: Mapping[str, Path], batch: str, spread: Partitioning
) -> Iterator["dict[str, Task[DataFrame]]"]:
    """Give the steps by which the session knows the files of a batch by the names of the layers.

    Afterwards it forgets them, and the files stay. Nearly whatever is asked of them is asked of each cell on its own: rows of
    a cell lie together in the files already.
    """
    tables = {name: f"conformance_{name}_{batch}" for name in STORED} if spread.several else {}
    steps: dict[str, Task[DataFrame]] = {
        f"stored_{name}": Task(partial(_store, session, spread, name, folders[name], tables.get(name)))
        for name in STORED
    }
    for name, query in LAYERS.items():
        steps[name] = Task(partial(_layer, session, spread, name, query), names_in_query(query, steps.keys()))
    try:
        yield steps
    finally:
        for table in tables.values():
            session.sql(f"DROP TABLE IF EXISTS {table}")


def _store(session: "SparkSession", spread: Partitioning, name: str, folder: Path, table: str | None) -> "DataFrame":
    if table is None:
        rows = spread.repartition_by_cell(session.read.schema(STORED[name]).parquet(escape_glob(folder)))
    else:
        spread.register_bucketed_table(session, table, STORED[name], folder)
        rows = session.table(table)
    rows.createOrReplaceTempView(f"stored_{name}")
    return rows


def _layer(session: "SparkSession", spread: Partitioning, name: str, query: str) -> "DataFrame":
    # Of a small history it is known what is few, and said where it is joined: Spark would take all mails for fewer than cells.
    looked_up = ("cells", "exchanges", "happenings") if spread.several else ("cells",)
    made = rows = session.sql(query)
    if name == "cells":
        made = rows = spread.cached_in_memory_when_small(rows)
    (spread.hash_join_hint(rows) if name in looked_up else rows).createOrReplaceTempView(name)
    return made


def view_tasks(
    session: "SparkSession", making: LayerFiles, spread: Partitioning, before: "Mapping[str, Task[DataFrame]]"
) -> "dict[str, Task[DataFrame]]":
    """Return these steps, and those that define the views over headers and layers; each gives what its view is made of.

    Whoever asks several things at once must hold that: what nobody holds Spark forgets, while tasks still count in it.
    """
    runs = making.runs
    headers = {"topologies": making.worlds, "candidates": candidate_rows(runs), "runs": run_rows(runs)}
    steps = {
        **before,
        **{name: Task(partial(_header, session, spread, name, rows)) for name, rows in headers.items()},
    }
    for name, query in view_queries().items():
        steps[name] = Task(partial(_define, session, spread, name, query), names_in_query(query, steps.keys()))
    return steps


def _header(session: "SparkSession", spread: Partitioning, name: str, rows: pa.Table) -> "DataFrame":
    made = session.createDataFrame(rows)
    spread.broadcast(made).createOrReplaceTempView(name)
    return made


def _define(session: "SparkSession", spread: Partitioning, name: str, query: str) -> "DataFrame":
    made = rows = session.sql(query)
    if name == "rechecks":  # Spark does not see that rows of eight queries still lie where their cells do
        rows = spread.repartition_by_cell(rows)
    if name in CACHED_VIEWS:
        rows = spread.cached(rows)
    elif name in VIEWS_CACHED_WHEN_SMALL:
        rows = spread.cached_when_small(rows)
    rows.createOrReplaceTempView(name)
    return made
