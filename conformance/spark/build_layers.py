"""Runs' own tables made into the layers that Spark is asked of: `cells`, `transactions`, and the recorded verdicts.

Arrow reads and gathers outside of the JVM, while that starts. What a row of a layer is does not depend on other runs, nor on
other cells: any number of runs can be made at a time.
"""

import hashlib
import inspect
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conformance import parameters
from conformance.results.fingerprints import sha256_of_json
from conformance.results.layout import RunDirectoryError
from conformance.spark import dictionary_column, exchanges, single_events, topologies
from conformance.spark.dictionary_column import DictionaryColumn, Integers
from conformance.spark.layer import schema
from conformance.spark.topologies import extract_topologies

EVENTS = (
    "cell", "n", "t", "kind", "session", "client", "server", "listener", "verb", "line", "operation", "to", "code",
    "recipient", "digest", "how", "fault", "action", "healed", "message", "sender", "recipients", "outcome", "accepted",
    "dot_sent", "sink", "giver", "node", "changes", "refused", "waited", "quiet",
)  # fmt: skip
"""The columns of events that any layer has use for."""
VERDICTS = (
    "cell", "check", "outcome", "requirements", "sentence", "evidence", "occasions", "message", "moment", "remark",
)  # fmt: skip
"""And those of verdicts."""
LAYERS = ("cells", "transactions", "recorded")


def code_hash() -> str:
    """Return the hash of the code that makes the layers: other code may make other rows."""
    here = sys.modules[__name__]
    return sha256_of_json(
        [
            inspect.getsource(module)
            for module in (dictionary_column, exchanges, single_events, topologies, parameters, here)
        ]
    )


def cell_id(run: str, cell: str) -> int:
    """Return the number that stands for a run's cell: one number is joined sooner than two texts."""
    digest = hashlib.blake2b(f"{run}\0{cell}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def build_layers(run: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the layers of a run and its cells' worlds, of its tables `cells`, `verdicts` and `events` (which need but the columns named here)."""
    known: dict[str, int] = {}
    cells, verdicts, events = (tables[name].combine_chunks() for name in ("cells", "verdicts", "events"))
    numbers = _numbers(run, cells, known)
    whose = _numbers(run, events, known)
    names = dict(zip(known.values(), known.keys(), strict=True))
    rows = pa.concat_tables(
        [single_events.single_event_rows(events, whose), exchanges.exchange_rows(events, whose)],
        promote_options="default",
    )
    # What is of a cell without a header (it could not be read) is of no cell.
    rows = rows.filter(pc.is_in(rows["cell_id"], value_set=pa.array(numbers)))
    keyed = {
        "run": pa.repeat(pa.scalar(run, pa.string()), len(rows)),
        "cell": pa.array([names[one] for one in rows["cell_id"].to_pylist()], pa.string()),
    }
    columns = [keyed.get(field.name) if field.name in keyed else _column(rows, field) for field in schema()]
    transactions = pa.table(columns, schema=schema())
    order = pc.sort_indices(transactions, [("kind", "ascending"), ("cell", "ascending"), ("n", "ascending")])
    cells, worlds_of_cells = extract_topologies(cells)
    return {
        "worlds": worlds_of_cells,
        "cells": cells.add_column(0, "cell_id", pa.array(numbers)),
        "transactions": transactions.take(order),
        "recorded": _recorded(verdicts, _numbers(run, verdicts, known)),
    }


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    return rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)


def _numbers(run: str, rows: pa.Table, known: dict[str, int]) -> Integers:
    coded = DictionaryColumn.of(rows["cell"])
    for cell in coded.words:
        if cell not in known:
            known[cell] = cell_id(run, cell)
    return np.array([known[cell] for cell in coded.words], np.int64)[coded.codes]


def _recorded(verdicts: pa.Table, whose: Integers) -> pa.Table:
    """Return the recorded verdicts. How it came to it is asked of failures and remarks only."""
    remark = pc.fill_null(verdicts["remark"], False).combine_chunks()
    told = pc.or_(pc.fill_null(pc.equal(verdicts["outcome"], "fail"), False), remark).combine_chunks()
    evidence = verdicts["evidence"].combine_chunks()
    event = pc.list_element(
        pc.if_else(
            pc.greater(pc.fill_null(pc.list_value_length(evidence), 0), 0),
            evidence,
            pa.scalar([None], pa.list_(pa.int64())),
        ),
        0,
    )
    failure = pa.StructArray.from_arrays(
        [*(verdicts[name].combine_chunks() for name in ("message", "moment", "sentence")), event],
        ["message", "moment", "sentence", "event"],
        mask=pc.invert(told),
    )
    return pa.table(
        {
            "cell_id": pa.array(whose, pa.int64()),
            **{name: verdicts[name] for name in ("check", "outcome", "occasions", "requirements")},
            "remark": remark,
            "failure": failure,
        }
    )


def reject_cell_id_collisions(cells: Sequence[pa.Table]) -> None:
    """Raise RunDirectoryError when two cells have one number, and would be taken for one.

    Among a million cells that happens once in thirty million times; nobody would ever notice.
    """
    rows = pa.concat_tables(one.select(["cell_id", "run", "cell"]) for one in cells).sort_by("cell_id")
    numbers = rows["cell_id"].to_numpy()
    (twice,) = np.nonzero(numbers[1:] == numbers[:-1])
    if len(twice):
        one, other = rows.slice(int(twice[0]), 2).to_pylist()
        raise RunDirectoryError(
            f"{one['run']}/{one['cell']} and {other['run']}/{other['cell']} have one number by chance: add their runs one "
            "at a time"
        )
