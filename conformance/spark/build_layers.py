"""Build the layers that Spark queries (cells, transactions, recorded verdicts) from a run's own tables.

`write_layers` calls this with Arrow and numpy, outside the JVM and while that starts. A *layer* is an Arrow table with a column
`cell_id`. A row of a layer depends on its own cell only, so any number of runs can be built at a time.
"""

import ast
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
from conformance.spark.schemas import transactions_schema
from conformance.spark.topologies import extract_topologies

EVENT_COLUMNS = (
    "cell", "n", "t", "kind", "session", "client", "server", "listener", "verb", "line", "operation", "to", "code",
    "recipient", "digest", "how", "fault", "action", "healed", "message", "sender", "recipients", "outcome", "accepted",
    "dot_sent", "sink", "giver", "node", "changes", "refused", "waited", "quiet",
)  # fmt: skip
"""The columns of events that the layers are built from."""
VERDICT_COLUMNS = (
    "cell", "check", "outcome", "requirements", "sentence", "evidence", "occasions", "message", "moment", "remark",
)  # fmt: skip
"""The columns of verdicts that the layers are built from."""
LAYERS = ("cells", "transactions", "recorded_verdicts")
"""The layers that become files; `build_layers` returns the topologies besides."""


def code_hash() -> str:
    """Return the hash of the code that builds the layers, since other code may build other rows.

    Comments, docstrings and the layout of the source do not count.
    """
    this = sys.modules[__name__]
    modules = (dictionary_column, exchanges, single_events, topologies, parameters, this)
    return sha256_of_json([_code_alone(inspect.getsource(module)) for module in modules])


def _code_alone(source: str) -> str:
    """Return a module's source without comments, docstrings and other statements that are only a string."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_string(one)]
    return ast.unparse(tree)


def _is_string(statement: ast.stmt) -> bool:
    """Whether a statement is only a string."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def cell_id(run: str, cell: str) -> int:
    """Return a hash of 64 bits that stands for a run's cell: joins compare one number instead of two texts.

    `cell` is the name of the cell's file without its suffix.
    """
    digest = hashlib.blake2b(f"{run}\0{cell}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def build_layers(run: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return a run's layers by name, and as `topologies` those of its cells.

    `tables` are the run's `cells`, `verdicts` and `events`; of the last two only `VERDICT_COLUMNS` and `EVENT_COLUMNS` are
    needed. Events of a cell that is not among `cells`, since its header could not be read, are left out. The transactions are
    sorted by kind, cell and number.
    """
    ids: dict[str, int] = {}
    cells, verdicts, events = (tables[name].combine_chunks() for name in ("cells", "verdicts", "events"))
    ids_of_cells = _cell_ids(run, cells, ids)
    ids_of_events = _cell_ids(run, events, ids)
    names = dict(zip(ids.values(), ids.keys(), strict=True))
    rows = pa.concat_tables(
        [single_events.single_event_rows(events, ids_of_events), exchanges.exchange_rows(events, ids_of_events)],
        promote_options="default",
    )
    rows = rows.filter(pc.is_in(rows["cell_id"], value_set=pa.array(ids_of_cells)))
    identity = {
        "run": pa.repeat(pa.scalar(run, pa.string()), len(rows)),
        "cell": pa.array([names[number] for number in rows["cell_id"].to_pylist()], pa.string()),
    }
    schema = transactions_schema()
    transactions = pa.table(
        [identity.get(field.name, _column_or_nulls(rows, field)) for field in schema], schema=schema
    )
    order = pc.sort_indices(transactions, [("kind", "ascending"), ("cell", "ascending"), ("n", "ascending")])
    cells, topologies_of_cells = extract_topologies(cells)
    return {
        "topologies": topologies_of_cells,
        "cells": cells.add_column(0, "cell_id", pa.array(ids_of_cells)),
        "transactions": transactions.take(order),
        "recorded_verdicts": _recorded_verdicts(verdicts, _cell_ids(run, verdicts, ids)),
    }


def _column_or_nulls(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    """Return a column of rows with a field's type; nulls where the rows have no such column."""
    return rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)


def _cell_ids(run: str, rows: pa.Table, ids: dict[str, int]) -> Integers:
    """Return the id of each row's cell, by its column `cell`.

    `ids` maps names of cells to ids; those that it lacks are added to it.
    """
    column = DictionaryColumn.encode(rows["cell"])
    for cell in column.values:
        if cell not in ids:
            ids[cell] = cell_id(run, cell)
    return np.array([ids[cell] for cell in column.values], np.int64)[column.codes]


def _recorded_verdicts(verdicts: pa.Table, cell_ids: Integers) -> pa.Table:
    """Return the layer of recorded verdicts; the column `failure` is null but for failures and for passes with a remark.

    `failure.event` is the first of the verdict's `evidence`, which are numbers of events, and null without evidence.
    `cell_ids` has the id of each verdict's cell.
    """
    remark = pc.fill_null(verdicts["remark"], False).combine_chunks()
    has_failure = pc.or_(pc.fill_null(pc.equal(verdicts["outcome"], "fail"), False), remark).combine_chunks()
    evidence = verdicts["evidence"].combine_chunks()
    first_event = pc.list_element(
        pc.if_else(
            pc.greater(pc.fill_null(pc.list_value_length(evidence), 0), 0),
            evidence,
            pa.scalar([None], pa.list_(pa.int64())),
        ),
        0,
    )
    failure = pa.StructArray.from_arrays(
        [*(verdicts[name].combine_chunks() for name in ("message", "moment", "sentence")), first_event],
        ["message", "moment", "sentence", "event"],
        mask=pc.invert(has_failure),
    )
    return pa.table(
        {
            "cell_id": pa.array(cell_ids, pa.int64()),
            **{name: verdicts[name] for name in ("check", "outcome", "occasions", "requirements")},
            "remark": remark,
            "failure": failure,
        }
    )


def reject_cell_id_collisions(cells: Sequence[pa.Table]) -> None:
    """Raise RunDirectoryError when two cells have the same id, since their rows would be joined with each other.

    Among a million cells the chance is one in thirty million, but no result would show the error. Each table has the
    columns `cell_id`, `run` and `cell`.
    """
    rows = pa.concat_tables(table.select(["cell_id", "run", "cell"]) for table in cells).sort_by("cell_id")
    numbers = rows["cell_id"].to_numpy()
    (duplicates,) = np.nonzero(numbers[1:] == numbers[:-1])
    if len(duplicates):
        first, second = rows.slice(int(duplicates[0]), 2).to_pylist()
        raise RunDirectoryError(
            f"{first['run']}/{first['cell']} and {second['run']}/{second['cell']} have the same id by chance: aggregate their "
            "runs one at a time"
        )
