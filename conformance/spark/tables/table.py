"""The declaration of a table of an aggregation: its columns with their meanings, and the query that computes it.

The modules beside this one declare the tables, and `aggregation` queries and writes them.
"""

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

ColumnType = Literal["text", "whole", "number", "flag"]

ARROW = {"text": pa.string(), "whole": pa.int64(), "number": pa.float64(), "flag": pa.bool_()}

MEANING = {
    "run": "the run's name",
    "candidate": "the candidate under test",
    "scenario": "the scenario's id",
    "requirement": "a row of the requirement catalogue",
    "check": "the check: an expectation, or `invariant.<name>`",
    "nodeid": "the cell: file, scenario's place and axes",
    "cells": "how many cells",
    "passed": "of them passed",
    "failed": "of them failed",
    "inconclusive": "of them could not be judged",
    "not_applicable": "of them are not applicable: a capability that is not claimed",
    "errors": "of them ended in an error of the harness or the scenario",
    "cut_short": "of them have no footer",
    "outcome": "`pass`, `fail`, `inconclusive`, `not-applicable` or `error`; null: cut short",
    "occasions": "on how many occasions it could have failed",
    "verdicts": "how many verdicts",
    "message": "the message's name in the scenario",
    "message_id": "the Message-ID, else the hash of the body",
    "recipient": "the address",
    "event": "number of the event that shows it",
    "repeat": "the command that runs the cell again",
    "sentence": "what was found, in words",
    "action": "the kind of fault",
    "scenario_sha256": "hash of the scenario with its topology and messages",
    "candidate_sha256": "hash of the candidate's whole description",
    "environment_sha256": "hash of harness, Python, platform, packages",
    "seed": "the run's seed",
    "clock": "`virtual`, `scaled`, `shifted` or `real`",
    "started": "UTC, ISO 8601",
    "wall_seconds": "seconds of real time",
    "cpu_seconds": "seconds of CPU time",
    "simulated_seconds": "seconds of documented time",
}
"""The meaning of a column in any table that gives it no other."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a published table."""

    name: str
    kind: ColumnType
    meaning: str


def columns(text: str, **own: str) -> tuple[Column, ...]:
    """Return the columns that a text `name type, name type` declares; types are those of `ColumnType`.

    A column's meaning is the one in `own`, else that in `MEANING`. Raises KeyError for a column without a meaning, AssertionError
    for an unknown type.
    """
    parsed = []
    for part in text.replace("\n", " ").split(","):
        name, kind = part.split()
        assert kind in ARROW, kind
        parsed.append(Column(name=name, kind=kind, meaning=own[name] if name in own else MEANING[name]))  # type: ignore[arg-type]
    return tuple(parsed)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of an aggregation, computed by `query`, SQL over the views of `conformance.spark.views`; published unless internal.

    `order`: the columns by which its rows are sorted; none: they are not. `across`: it compares all runs or explorations and is
    computed by each aggregation, over the views of what was found before (`outcomes`, `row_outcomes`, `explored`, `found`); the
    others have rows for each run on its own, computed once when the run is added. `internal`: it is not exported.
    """

    name: str
    """Its name in files and queries."""
    title: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]
    query: str
    across: bool = False
    internal: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The table's Arrow schema."""
        return pa.schema([pa.field(column.name, ARROW[column.kind]) for column in self.columns])

    def conform(self, rows: pa.Table) -> pa.Table:
        """Return rows with exactly this table's columns and types, sorted by its order if it has one; other columns are dropped.

        Raises KeyError for a missing column, pa.ArrowInvalid for a value of another type.
        """
        table = rows.select([column.name for column in self.columns]).cast(self.schema)
        return table.sort_by([(name, "ascending") for name in self.order]) if self.order else table
