"""Read explorations, and make of them the two small relations that the tables `explorations` and `findings` are queried from.

An *exploration* is the directory that `conformance explore` wrote: the plans that were run, and what they found. `aggregation`
calls this. The warehouse's catalog keeps explorations whole, since each is a few kilobytes; an aggregation without any defines
no view of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from conformance.results.exploration import Exploration, read_exploration
from conformance.results.layout import RunDirectoryError, SchemaTooNew
from conformance.spark.tables.explorations import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TEXTS = (
    "exploration",
    "started",
    "harness",
    "candidate",
    "version",
    "candidate_sha256",
    "method",
    "scenarios",
    "clock",
    "never_seen",
)
_WHOLES = (
    "seed", "plans", "sound", "violated", "unfinished", "inapplicable", "enumerated", "pruned", "not_run", "faults", "fired", "states",
    "transitions", "states_seen_once", "sometimes", "seen",
)  # fmt: skip
EXPLORED_SCHEMA = pa.schema(
    {
        **dict.fromkeys(_TEXTS, pa.string()),
        **dict.fromkeys(_WHOLES, pa.int64()),
        **dict.fromkeys(("scale", "wall_seconds", "new_states_per_100_plans"), pa.float64()),
    }
)
"""The view `explored`: a row for each exploration."""
FOUND_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("exploration", "check", "requirement", "plan", "sentence", "file", "original"), pa.string()),
        **dict.fromkeys(
            ("plans", "steps", "faults", "messages", "servers", "original_steps", "original_faults", "original_messages", "original_servers"),
            pa.int64(),
        ),
    }
)  # fmt: skip
"""The view `found`: a row for each finding of each exploration."""


@dataclass(frozen=True, slots=True)
class ReadableExplorations:
    """The explorations that could be read, by name, and a message for each other directory of one."""

    explorations: Mapping[str, Exploration]
    unreadable: tuple[str, ...]


def read_explorations(paths: Iterable[Path]) -> ReadableExplorations:
    """Return the explorations in these directories, with a message for each that cannot be read; two copies of one count once.

    Raises RunDirectoryError where two different ones have the same name, SchemaTooNew for one of a later program.
    """
    found: dict[str, Exploration] = {}
    unreadable: list[str] = []
    for path in paths:
        try:
            read = read_exploration(path)
        except SchemaTooNew:
            raise
        except RunDirectoryError as error:
            unreadable.append(str(error))
            continue
        known = found.setdefault(read.header.exploration, read)
        if known.content_sha256 != read.content_sha256:
            raise RunDirectoryError(
                f"{known.path} and {path} are different explorations named {read.header.exploration!r}: rename one of the "
                "directories, and explore into it once more"
            )
    return ReadableExplorations(found, tuple(unreadable))


def explored_rows(explorations: Iterable[Exploration]) -> pa.Table:
    """Return a row for each exploration: its header, and the numbers of its summary."""
    return pa.Table.from_pylist([_explored_row(one) for one in explorations], EXPLORED_SCHEMA)


def _explored_row(one: Exploration) -> dict[str, Any]:
    """Return the row of one exploration, by the columns of `EXPLORED_SCHEMA`; an outcome without plans is 0."""
    header, summary = one.header, one.summary
    outcomes = ("sound", "violated", "unfinished", "inapplicable")
    return {
        **{
            name: getattr(header, name)
            for name in ("exploration", "started", "harness", "method", "seed", "clock", "scale")
        },
        "candidate": header.candidate.name,
        "version": header.candidate.version,
        "candidate_sha256": header.candidate.sha256,
        "scenarios": " ".join(header.scenarios),
        "wall_seconds": header.seconds,
        **{name: summary.outcomes.get(name, 0) for name in outcomes},
        **{
            name: getattr(summary, name)
            for name in (
                "plans",
                "enumerated",
                "not_run",
                "states",
                "transitions",
                "states_seen_once",
                "new_states_per_100_plans",
            )
        },
        "pruned": sum(summary.pruned.values()),
        "faults": summary.faults.drawn,
        "fired": summary.faults.fired,
        "sometimes": len(summary.sometimes),
        "seen": len(summary.sometimes) - len(summary.never_seen),
        "never_seen": "; ".join(summary.never_seen),
    }


def found_rows(explorations: Iterable[Exploration]) -> pa.Table:
    """Return a row for each finding of each exploration."""
    rows = [
        {
            "exploration": one.header.exploration,
            **{
                name: getattr(finding, name)
                for name in ("check", "requirement", "plan", "sentence", "file", "original", "plans")
            },
            **finding.size.model_dump(),
            **{f"original_{name}": value for name, value in finding.original_size.model_dump().items()},
        }
        for one in explorations
        for finding in one.summary.findings
    ]
    return pa.Table.from_pylist(rows, FOUND_SCHEMA)


def compare_explorations(session: "SparkSession", explorations: Sequence[Exploration]) -> dict[str, pa.Table]:
    """Define the views `explored` and `found` in the session, and return the rows of the tables of explorations, by table.

    Blocks while Spark queries. Without an exploration the tables are empty, and Spark is not used.
    """
    if not explorations:
        return {table.name: table.schema.empty_table() for table in TABLES}
    for name, rows in (("explored", explored_rows(explorations)), ("found", found_rows(explorations))):
        session.createDataFrame(rows).createOrReplaceTempView(name)
    return {table.name: table.conform(session.sql(table.query).toArrow()) for table in TABLES}
