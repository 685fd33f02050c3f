"""What a table is, and what its columns mean."""

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

Kind = Literal["text", "whole", "number", "flag"]

ARROW = {"text": pa.string(), "whole": pa.int64(), "number": pa.float64(), "flag": pa.bool_()}

MEANING = {
    "run": "the run's name",
    "candidate": "who was judged",
    "scenario": "the scenario's id",
    "requirement": "a row of the requirement catalogue",
    "check": "what was judged: an expectation, or `invariant.<name>`",
    "nodeid": "the cell: file, scenario's place and axes",
    "cells": "how many cells",
    "passed": "of them passed",
    "failed": "of them failed",
    "inconclusive": "of them could not be judged",
    "not_applicable": "of them are not applicable: a capability that is not claimed",
    "errors": "of them ended in an error of the harness or the scenario",
    "cut_short": "of them have no footer",
    "outcome": "`pass`, `fail`, `inconclusive`, `not-applicable` or `error`; nothing: cut short",
    "occasions": "how often it could have failed",
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
    "wall_seconds": "seconds that it took",
    "cpu_seconds": "seconds of CPU that it took",
    "simulated_seconds": "seconds of documented time that passed in it",
}
"""What a column means wherever it stands; a table's own meaning goes first."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: name, type, meaning."""

    name: str
    kind: Kind
    meaning: str


def columns(text: str, **own: str) -> tuple[Column, ...]:
    """Read `name kind, name kind`; `own` has the meanings that `MEANING` does not have, or has otherwise."""
    found = []
    for part in text.replace("\n", " ").split(","):
        name, kind = part.split()
        assert kind in ARROW, kind
        found.append(Column(name, kind, own[name] if name in own else MEANING[name]))  # type: ignore[arg-type]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name in files, its title for people, its columns, the order of its rows (if they have one), its query.

    `across`: a question over all runs at once, made anew each time; the others have rows for each run on its own,
    which are made when the run is added and never again.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]
    query: str
    across: bool = False
    internal: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The table's columns in Arrow's terms."""
        return pa.schema([pa.field(column.name, ARROW[column.kind]) for column in self.columns])

    def shaped(self, rows: pa.Table) -> pa.Table:
        """Return rows with exactly this table's columns, in its order. Raises pa.ArrowInvalid, KeyError."""
        table = rows.select([column.name for column in self.columns]).cast(self.schema)
        return table.sort_by([(name, "ascending") for name in self.order]) if self.order else table
