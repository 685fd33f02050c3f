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
from conformance.spark import invariants, messages, worlds
from conformance.spark.ingest import candidate_rows, literal, run_rows
from conformance.spark.layer import DDL
from conformance.spark.making import Making
from conformance.spark.schemas import ddl
from conformance.spark.spread import Spread
from conformance.spark.steps import Step, named_in

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
    "cells": f"`cell_id` BIGINT, {ddl(tuple(column for column in TABLES['cells'] if column.name not in worlds.READ))}, {worlds.DDL}",
    "transactions": DDL,
    "recorded": "`cell_id` BIGINT, `check` STRING, `outcome` STRING, `occasions` BIGINT, `requirements` ARRAY<STRING>, "
    "`remark` BOOLEAN, `failure` STRUCT<`message`: STRING, `moment`: DOUBLE, `sentence`: STRING, `event`: BIGINT>",
}
"""The schemas of those files, in Spark's DDL."""

KEPT = ("conditions", "made", "mails", "acknowledgements", "rechecks", "verdicts")
"""Views that more than one query builds on: each is computed once."""

KEPT_WHERE_SMALL = ("changes", "altered", "copies", "deliveries", *invariants.PARTS)
"""Of a small history planning costs more than computing: these too are planned and computed once, by themselves."""


def views() -> dict[str, str]:
    """Return the query of every view over the layers, in order."""
    return {
        "conditions": invariants.CONDITIONS,
        **messages.VIEWS,
        "verdicts": JUDGED,
        **invariants.rechecks(),
    }


@contextmanager
def layers(
    session: "SparkSession", folders: Mapping[str, Path], batch: str, spread: Spread
) -> Iterator["dict[str, Step[DataFrame]]"]:
    """Give the steps by which the session knows the files of a batch by the names of the layers.

    Afterwards it forgets them, and the files stay. Nearly whatever is asked of them is asked of each cell on its own: rows of
    a cell lie together in the files already.
    """
    tables = {name: f"conformance_{name}_{batch}" for name in STORED} if spread.several else {}
    steps: dict[str, Step[DataFrame]] = {
        f"stored_{name}": Step(partial(_store, session, spread, name, folders[name], tables.get(name)))
        for name in STORED
    }
    for name, query in LAYERS.items():
        steps[name] = Step(partial(_layer, session, spread, name, query), named_in(query, steps.keys()))
    try:
        yield steps
    finally:
        for table in tables.values():
            session.sql(f"DROP TABLE IF EXISTS {table}")


def _store(session: "SparkSession", spread: Spread, name: str, folder: Path, table: str | None) -> "DataFrame":
    if table is None:
        rows = spread.together(session.read.schema(STORED[name]).parquet(literal(folder)))
    else:
        spread.known(session, table, STORED[name], folder)
        rows = session.table(table)
    rows.createOrReplaceTempView(f"stored_{name}")
    return rows


def _layer(session: "SparkSession", spread: Spread, name: str, query: str) -> "DataFrame":
    # Of a small history it is known what is few, and said where it is joined: Spark would take all mails for fewer than cells.
    looked_up = ("cells", "exchanges", "happenings") if spread.several else ("cells",)
    made = rows = session.sql(query)
    if name == "cells":
        made = rows = spread.at_hand(rows)
    (spread.looked_up(rows) if name in looked_up else rows).createOrReplaceTempView(name)
    return made


def defining(
    session: "SparkSession", making: Making, spread: Spread, before: "Mapping[str, Step[DataFrame]]"
) -> "dict[str, Step[DataFrame]]":
    """Return these steps, and those that define the views over headers and layers; each gives what its view is made of.

    Whoever asks several things at once must hold that: what nobody holds Spark forgets, while tasks still count in it.
    """
    runs = making.runs
    headers = {"topologies": making.worlds, "candidates": candidate_rows(runs), "runs": run_rows(runs)}
    steps = {
        **before,
        **{name: Step(partial(_header, session, spread, name, rows)) for name, rows in headers.items()},
    }
    for name, query in views().items():
        steps[name] = Step(partial(_define, session, spread, name, query), named_in(query, steps.keys()))
    return steps


def _header(session: "SparkSession", spread: Spread, name: str, rows: pa.Table) -> "DataFrame":
    made = session.createDataFrame(rows)
    spread.everywhere(made).createOrReplaceTempView(name)
    return made


def _define(session: "SparkSession", spread: Spread, name: str, query: str) -> "DataFrame":
    made = rows = session.sql(query)
    if name == "rechecks":  # Spark does not see that rows of eight queries still lie where their cells do
        rows = spread.together(rows)
    if name in KEPT:
        rows = spread.kept(rows)
    elif name in KEPT_WHERE_SMALL:
        rows = spread.kept_where_small(rows)
    rows.createOrReplaceTempView(name)
    return made
