"""A run's cells, verdicts and events as Parquet tables (and as Arrow tables, without writing them).

The tables repeat what the cells' files say, in a twentieth of the space and much faster to read. They are optional:
without pyarrow a run has none, and readers use the cells' files. `manifest.json`, written last, names the files that the
tables were made from, so that a reader does not use tables that are older than the run.

How rows are made:

- Most events need no parsing in Python. `PLAIN_KINDS` are the kinds of events each of whose fields has the type of its column, or
  is a text; `PLAIN_LINES` matches consecutive lines of such events, written exactly as this harness writes them. The reader
  leaves those lines unparsed (`StoredCell.unparsed`), and Arrow parses them by the thousand (`parse_plain_lines`).
- All other records (headers, footers, verdicts, and events with a field that is not always a text in a column of type
  `json`, such as the number `line` of a step) are parsed and validated, and become rows through their dictionaries (`_row_values`).
- Cells are gathered until they have 20,000 events. Each batch is made into tables in one of two threads while the next one
  is read: Arrow works without holding Python's global lock. Batches are yielded in the order of the cells.
- Where Arrow rejects a batch's unparsed lines, one of them is damaged. The batch's cells are then read again with every
  line parsed, which finds the damaged lines. A parsed record that fits no row (a number beyond 64 bits) is damage too.
"""

import io
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
from pydantic import BaseModel

from conformance.history.events import EVENT_ADAPTER, AnyEvent
from conformance.results.atomic_write import write_atomically
from conformance.results.columns import EVENT as EVENT_COLUMNS
from conformance.results.columns import TABLES, Column
from conformance.results.layout import PARQUET_FOLDER
from conformance.results.manifest import Manifest, compute_manifest, sha256_of_file
from conformance.results.reader import Damage, StoredCell, StoredRun, read_cell, read_run

MANIFEST = "manifest.json"

_LINES_PER_BATCH = 20_000
_MAX_DAMAGE = 100
"""Damaged lines that the manifest names; all are counted."""
_THREADS = 2
_BLOCK = 1 << 20
"""Octets that Arrow parses at a time, unless a line is longer."""

_Batch = tuple[dict[str, pa.Table], list[Damage]]
"""The rows of some cells, by the table's name, and the damage of those cells."""

_SCALARS = {
    "text": pa.string(),
    "json": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "texts": pa.list_(pa.string()),
    "wholes": pa.list_(pa.int64()),
}
_COLUMN_TYPES = {table: {column.name: column.type for column in columns} for table, columns in TABLES.items()}


def _is_plain(event_class: type) -> bool:
    """Return whether every field of a class of events has the type of its column, or is a text in a column of JSON."""
    columns = {column.name: column.type for column in EVENT_COLUMNS}
    hints = get_type_hints(event_class)
    return all(columns[field.name] != "json" or hints[field.name] is str for field in fields(event_class))


PLAIN_KINDS = tuple(
    get_args(get_type_hints(event_class)["kind"])[0]
    for event_class in get_args(get_args(AnyEvent)[0])
    if _is_plain(event_class)
)
"""The kinds of events whose lines Arrow can parse into rows."""

PLAIN_LINES = re.compile(
    rb'(?>\{"record":"event","n":\d+,"t":[-+.e\d]+,"kind":"(?:%b)"[^\n]*\}\n)++' % "|".join(PLAIN_KINDS).encode()
)
"""Consecutive lines of events of these kinds, as this harness writes them. `(?>` and `++` prevent backtracking."""


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return columns as an Arrow schema."""
    return pa.schema([pa.field(column.name, _arrow_type(column)) for column in columns])


def _arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column; a column with inner columns is a struct."""
    if isinstance(column.type, tuple):
        return pa.struct([pa.field(inner.name, _arrow_type(inner)) for inner in column.type])
    return _SCALARS[column.type]


def write_parquet(run_dir: Path) -> Manifest:
    """Write a run's tables into its folder `parquet`, the manifest last, and return the manifest.

    Lines that cannot be read are skipped and counted; the manifest names the first hundred. Earlier tables are replaced; where
    that fails, the folder has no manifest, so that its tables are not used. Raises RunDirectoryError, SchemaTooNew, OSError.
    """
    run = read_run(run_dir)
    folder = run_dir / PARQUET_FOLDER
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    damage: list[Damage] = []
    content = compute_manifest(run_dir)
    schemas = {name: arrow_schema(columns) for name, columns in TABLES.items()}
    row_counts = dict.fromkeys(TABLES, 0)
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd"))
            for name, schema in schemas.items()
        }
        for name, rows in _yield_tables(run, damage):
            writers[name].write_table(rows)
            row_counts[name] += len(rows)
    manifest = content.model_copy(
        update={
            "damaged": len(damage),
            "damage": tuple(map(str, damage[:_MAX_DAMAGE])),
            "rows": row_counts,
            "tables": {name: sha256_of_file(folder / f"{name}.parquet") for name in TABLES},
        }
    )
    write_atomically(folder / MANIFEST, (manifest.model_dump_json(by_alias=True, indent=2) + "\n").encode())
    return manifest


def run_tables(run_dir: Path) -> tuple[dict[str, pa.Table], list[Damage]]:
    """Return a run's tables as `write_parquet` would write them, and the lines that could not be read.

    The tables are in memory, by name. Nothing is written. Raises RunDirectoryError, SchemaTooNew.
    """
    damage: list[Damage] = []
    tables = {name: [arrow_schema(columns).empty_table()] for name, columns in TABLES.items()}
    for name, rows in _yield_tables(read_run(run_dir), damage):
        tables[name].append(rows)
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}, damage


def _yield_tables(run: StoredRun, damage: list[Damage]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of a run batch by batch, as (table's name, rows); append lines that cannot be read to `damage`.

    `damage` is complete when the last batch has been yielded.
    """
    maker = _RowMaker(run.header.run)
    pending: deque[Future[_Batch]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        for cells in _batches(run.cells(damage, unparsed=PLAIN_LINES)):
            pending.append(pool.submit(maker.make_rows, cells))
            if len(pending) > _THREADS:
                yield from _await_first(pending, damage)
        while pending:
            yield from _await_first(pending, damage)
    damage += maker.damage


def _await_first(pending: deque[Future[_Batch]], damage: list[Damage]) -> Iterator[tuple[str, pa.Table]]:
    """Remove the oldest pending batch, wait for it, yield its tables and append its damage to `damage`."""
    tables, batch_damage = pending.popleft().result()
    damage += batch_damage
    yield from tables.items()


def _batches(cells: Iterable[StoredCell]) -> Iterator[list[StoredCell]]:
    """Yield the cells in lists of at least `_LINES_PER_BATCH` events, parsed or not; the last list may have fewer."""
    batch: list[StoredCell] = []
    lines = 0
    for cell in cells:
        batch.append(cell)
        lines += len(cell.events) + cell.unparsed.count(b"\n")
        if lines >= _LINES_PER_BATCH:
            yield batch
            batch, lines = [], 0
    if batch:
        yield batch


class _RowMaker:
    """Makes Arrow rows of cells that were read with `unparsed=PLAIN_LINES`; threads may share one.

    A cell's `slug` is the name of its file without suffixes; its `unparsed` are the lines that Arrow parses. `_schemas` has
    the columns of each table, `_run` is the run's name.
    """

    def __init__(self, run: str) -> None:
        """Make rows for the run of this name."""
        self.damage: list[Damage] = []
        """Records that fit no row, appended to as they are found."""
        self._run = run
        self._schemas = {name: arrow_schema(columns) for name, columns in TABLES.items()}

    def make_rows(self, cells: list[StoredCell]) -> _Batch:
        """Return the rows of these cells for each table, events ordered by cell and number, and the damage of the cells' files.

        Where Arrow rejects an unparsed line, the cells' files are read again with every line parsed. Records that fit no row
        are added to `self.damage` instead.
        """
        try:
            plain = parse_plain_lines(b"".join(cell.unparsed for cell in cells), self._schemas["events"])
        except pa.ArrowInvalid:  # a line is damaged: parsing each line tells which one
            return self.make_rows([read_cell(cell.path) for cell in cells])  # these have no unparsed lines
        plain_slugs = pa.concat_arrays([pa.repeat(cell.slug, cell.unparsed.count(b"\n")) for cell in cells])
        parsed = self._make_table("events", [(cell, _event_values(event)) for cell in cells for event in cell.events])
        events = pa.concat_tables([parsed, self._add_key("events", plain, plain_slugs)])
        tables = {
            "cells": self._make_table("cells", [(cell, _cell_values(cell)) for cell in cells]),
            "verdicts": self._make_table("verdicts", [(cell, _values(v)) for cell in cells for v in cell.verdicts]),
            "events": events.sort_by([("cell", "ascending"), ("n", "ascending")]),
        }
        return tables, [damage for cell in cells for damage in cell.damage]

    def _make_table(self, name: str, records: list[tuple[StoredCell, dict[str, Any]]]) -> pa.Table:
        """Return the rows of the table `name` for records, pairs of a cell and the fields of the record.

        Records that fit no row are skipped and added to `self.damage`.
        """
        schema = self._schemas[name]
        try:
            rows = pa.Table.from_pylist([_row_values(name, values) for _, values in records], schema=schema)
        except (OverflowError, pa.ArrowInvalid, pa.ArrowTypeError):
            # A number in a damaged line may be too large for its column.
            records = [(cell, values) for cell, values in records if self._can_be_row(name, cell, values)]
            rows = pa.Table.from_pylist([_row_values(name, values) for _, values in records], schema=schema)
        return self._add_key(name, rows, pa.array([cell.slug for cell, _ in records], pa.string()))

    def _can_be_row(self, name: str, cell: StoredCell, values: dict[str, Any]) -> bool:
        """Return whether a record can be a row of the table `name`; else append it to `self.damage`.

        The damage names line 1, since the record's own line is not known here.
        """
        try:
            pa.Table.from_pylist([_row_values(name, values)], schema=self._schemas[name])
        except (OverflowError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
            self.damage.append(Damage(cell.path, 1, f"a record that fits no row of {name}: {str(error)[:200]}"))
            return False
        return True

    def _add_key(self, name: str, rows: pa.Table, slugs: pa.Array) -> pa.Table:
        """Return rows of the table `name` with the key columns `run` and `cell` filled in; `slugs` has the cell of each row."""
        key = {"run": pa.repeat(self._run, len(rows)), "cell": slugs}
        schema = self._schemas[name]
        return pa.table([key[field.name] if field.name in key else rows[field.name] for field in schema], schema=schema)


def parse_plain_lines(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of lines that match `PLAIN_LINES`, in the columns of `schema` (that of the table `events`).

    Raises pyarrow.ArrowInvalid where a line is damaged.
    """
    if not lines:
        return schema.empty_table()
    longest = max(map(len, lines.split(b"\n")))  # Arrow refuses a line that is longer than a block
    table = pyarrow.json.read_json(
        io.BytesIO(lines),
        read_options=pyarrow.json.ReadOptions(block_size=max(_BLOCK, 2 * longest)),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema.append(pa.field("record", pa.string())), unexpected_field_behavior="error"
        ),
    )
    return table.drop_columns(["record"])


def _cell_values(cell: StoredCell) -> dict[str, Any]:
    """Return the fields of a cell's header and footer together; without a footer those of the header alone."""
    return {**_values(cell.header), **(_values(cell.footer) if cell.footer else {})}


def _values(record: BaseModel) -> dict[str, Any]:
    """Return the fields of a record as JSON values."""
    return record.model_dump(mode="json", by_alias=True)


def _event_values(event: AnyEvent) -> dict[str, Any]:
    """Return the fields of an event as JSON values."""
    values: dict[str, Any] = EVENT_ADAPTER.dump_python(event, mode="json")
    return values


def _row_values(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that have a column in a table, JSON columns as text.

    Columns without a field are not filled in, since an event has few of the columns.
    """
    types = _COLUMN_TYPES[table]
    return {name: _column_value(types[name], value) for name, value in values.items() if name in types}


def _column_value(column_type: object, value: Any) -> Any:
    """Return a value as its column stores it: in one of type `json` as JSON text, unless it is a text or None; else unchanged."""
    if column_type == "json" and value is not None and not isinstance(value, str):
        return json.dumps(value, sort_keys=True)
    return value
