"""What every question is asked of: the layers, read from the files of a batch, and the views over them.

The files of a history of several parts are written by the part that each cell is in. Any query takes those columns that it
wants, and no node of a cluster takes them with it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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
def layers(session: "SparkSession", folders: Mapping[str, Path], batch: str, spread: Spread) -> Iterator[None]:
    """Let the session know the files of a batch by the names of the layers; afterwards it forgets them, and the files stay.

    Nearly whatever is asked of them is asked of each cell on its own: rows of a cell lie together in the files already.
    """
    tables = {name: f"conformance_{name}_{batch}" for name in STORED} if spread.several else {}
    try:
        for name, columns in STORED.items():
            if spread.several:
                spread.known(session, tables[name], columns, folders[name])
            rows = (
                session.table(tables[name])
                if spread.several
                else session.read.schema(columns).parquet(literal(folders[name]))
            )
            (rows if spread.several else spread.together(rows)).createOrReplaceTempView(f"stored_{name}")
        for name, query in LAYERS.items():
            rows = session.sql(query)
            if name == "cells":
                rows = spread.at_hand(rows)
            (rows if name == "recorded" else spread.looked_up(rows)).createOrReplaceTempView(name)
        yield
    finally:
        for table in tables.values():
            session.sql(f"DROP TABLE IF EXISTS {table}")


def view_headers(session: "SparkSession", making: Making, spread: Spread) -> None:
    runs = making.runs
    for name, rows in (("runs", run_rows(runs)), ("candidates", candidate_rows(runs)), ("topologies", making.worlds)):
        spread.everywhere(session.createDataFrame(rows)).createOrReplaceTempView(name)


def defining(session: "SparkSession", spread: Spread) -> "dict[str, Step[DataFrame]]":
    """Return the steps that define the views over the layers; each gives what its view is made of.

    Whoever asks several things at once must hold that: what nobody holds Spark forgets, while tasks still count in it.
    """
    steps: dict[str, Step[DataFrame]] = {}
    for name, query in views().items():
        steps[name] = Step(partial(_define, session, spread, name, query), named_in(query, steps.keys()))
    return steps


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
