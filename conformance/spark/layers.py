"""What every question is asked of: the layers that are made of runs' own tables, and the views over them.

A small history is computed in memory, and written beside. One of several parts is written first, by the part that each
cell is in, and then read: columns on disk that any query takes those from that it wants, and that no node takes with it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from conformance.results.errors import RunDirectoryError
from conformance.spark import invariants, messages, traffic
from conformance.spark.ingest import Ingested, candidate_rows, run_rows
from conformance.spark.schemas import TABLE_DDL
from conformance.spark.spread import Spread
from conformance.spark.warehouse import PARTITIONED

JUDGED = """
SELECT v.cell_id, c.run, c.candidate, v.check, v.outcome, v.occasions, v.requirements, v.remark, v.failure
FROM recorded v JOIN cells c ON c.cell_id = v.cell_id
"""
"""The recorded verdicts, and whose they are."""

KEPT = (
    "exchanges",
    "happenings",
    "topologies",
    "conditions",
    "made",
    "mails",
    "acknowledgements",
    "rechecks",
    "verdicts",
)
"""Views that more than one query builds on: each is computed once."""


def layers() -> dict[str, str]:
    """Return the query of what is made of `raw_cells`, `raw_verdicts` and `raw_events`, in order."""
    return {
        "cells": traffic.CELLS,
        "recorded": traffic.RECORDED,
        "said": traffic.SAID,
        "exchanges": traffic.EXCHANGES,
        "happenings": traffic.HAPPENINGS,
        "transactions": traffic.TRANSACTIONS,
    }


def views() -> dict[str, str]:
    """Return the query of every view over the layers, in order."""
    return {
        "topologies": messages.TOPOLOGIES,
        "conditions": invariants.CONDITIONS,
        **messages.VIEWS,
        "rechecks": invariants.rechecks(),
        "verdicts": JUDGED,
    }


def follow(session: SparkSession, sources: Mapping[str, DataFrame], spread: Spread) -> None:
    """Define the layers `cells` and `transactions` of runs, and the recorded verdicts.

    Nearly whatever is asked of them is asked of each cell on its own: rows that belong together are put together
    once, here, and few queries have to move them again.
    """
    for name in TABLE_DDL:
        sources[name].createOrReplaceTempView(f"raw_{name}")
    for name, query in layers().items():
        rows = session.sql(query)
        if name in ("cells", "recorded", "said", "happenings"):
            rows = spread.together(rows)
        if name in ("cells", *KEPT) and not spread.several:
            rows = spread.kept(rows)
        elif name == "cells":
            rows = spread.looked_up(rows)
        rows.createOrReplaceTempView(name)


@contextmanager
def written_tables(session: SparkSession, batch: str) -> Iterator[dict[str, str]]:
    """Give the names by which the session knows a batch's files, and let it forget them afterwards; the files stay."""
    tables = {name: f"conformance_{name}_{batch}" for name in PARTITIONED}
    try:
        yield tables
    finally:
        for table in tables.values():
            session.sql(f"DROP TABLE IF EXISTS {table}")


def read_back(session: SparkSession, tables: Mapping[str, str], spread: Spread) -> None:
    """Let what the layers are asked be asked of the tables that were written of them, by their names."""
    layer = session.table(tables["transactions"])
    exchanged = "kind IN ('mail', 'discard')"
    for name, rows in (
        ("cells", session.table(tables["cells"])),
        ("exchanges", layer.where(exchanged)),
        ("happenings", layer.where(f"NOT {exchanged}")),
    ):
        spread.looked_up(rows).createOrReplaceTempView(name)


def refuse_one_number_for_two(session: SparkSession) -> None:
    """Raise RunDirectoryError when two cells of the view `cells` have one number, and would be taken for one.

    Among a million cells that happens once in thirty million times; nobody would ever notice.
    """
    shared = session.sql(
        "SELECT min(struct(run, cell)) AS one, max(struct(run, cell)) AS other FROM cells GROUP BY cell_id "
        "HAVING min(struct(run, cell)) <> max(struct(run, cell))"
    )
    if found := shared.head(1):
        one, other = found[0]
        raise RunDirectoryError(
            f"{one.run}/{one.cell} and {other.run}/{other.cell} have one number by chance: add their runs one at a time"
        )


def view_headers(session: SparkSession, runs: Mapping[str, Ingested], spread: Spread) -> None:
    for name, rows in (("runs", run_rows(runs)), ("candidates", candidate_rows(runs))):
        spread.everywhere(session.createDataFrame(rows)).createOrReplaceTempView(name)


def define(session: SparkSession, spread: Spread) -> list[DataFrame]:
    """Define the views over the layers, and return what they are made of.

    Whoever asks several things at once must hold that: what nobody holds Spark forgets, while tasks still count in it.
    """
    made = []
    for name, query in views().items():
        rows = session.sql(query)
        made.append(rows)
        if name == "rechecks":  # Spark does not see that rows of eight queries still lie where their cells do
            rows = spread.together(rows)
        if name in KEPT:
            rows = spread.kept(rows)
        if name == "topologies":
            rows = spread.everywhere(rows)
        rows.createOrReplaceTempView(name)
    return made
