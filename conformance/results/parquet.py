"""A finished run's cells, verdicts and events once more as Parquet: a twentieth of the size, and read at once.

Optional: without pyarrow there is none, and readers take the cells' files. The manifest beside the tables names the
files that they were made from, so that nobody reads a table that is older than its run.
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

_ROWS = 20_000
"""Rows of events that are gathered before they are written."""
_TOLD = 100
"""Damaged lines that the manifest names; all are counted."""
_AT_ONCE = 2
"""Threads that make rows."""
_Made = tuple[dict[str, pa.Table], list[Damage]]
_SCALARS = {
    "text": pa.string(),
    "json": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "texts": pa.list_(pa.string()),
    "wholes": pa.list_(pa.int64()),
}


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return columns as an Arrow schema."""
    return pa.schema([pa.field(column.name, _arrow_type(column)) for column in columns])


def _arrow_type(column: Column) -> pa.DataType:
    if isinstance(column.type, tuple):
        return pa.struct([pa.field(inner.name, _arrow_type(inner)) for inner in column.type])
    return _SCALARS[column.type]


def write_parquet(run_dir: Path) -> Manifest:
    """Write a run's tables into its folder `parquet`, the manifest last, and return that.

    Lines that cannot be read are left out and counted. Raises RunDirectoryError, SchemaTooNew.
    """
    run = read_run(run_dir)
    folder = run_dir / PARQUET_FOLDER
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    damage: list[Damage] = []
    before = compute_manifest(run_dir)
    schemas = {name: arrow_schema(columns) for name, columns in TABLES.items()}
    rows = dict.fromkeys(TABLES, 0)
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd"))
            for name, schema in schemas.items()
        }
        for name, some in _rows(run, damage):
            files[name].write_table(some)
            rows[name] += len(some)
    told = tuple(str(one) for one in damage[:_TOLD])
    hashes = {name: sha256_of_file(folder / f"{name}.parquet") for name in TABLES}
    manifest = before.model_copy(update={"damaged": len(damage), "damage": told, "rows": rows, "tables": hashes})
    write_atomically(folder / MANIFEST, (manifest.model_dump_json(by_alias=True, indent=2) + "\n").encode())
    return manifest


def run_tables(run_dir: Path) -> tuple[dict[str, pa.Table], list[Damage]]:
    """Return a run's tables as `write_parquet` would write them, and what could not be read.

    Raises RunDirectoryError, SchemaTooNew.
    """
    damage: list[Damage] = []
    made = {name: [arrow_schema(columns).empty_table()] for name, columns in TABLES.items()}
    for name, some in _rows(read_run(run_dir), damage):
        made[name].append(some)
    return {name: pa.concat_tables(parts) for name, parts in made.items()}, damage


def _rows(run: StoredRun, damage: list[Damage]) -> Iterator[tuple[str, pa.Table]]:
    """Yield some rows of each table at a time, in their order, and tell what cannot be read in `damage`.

    Rows are made in threads beside whoever reads the cells: Arrow holds no lock of Python's.
    """
    maker = _Maker(run.header.run)
    being_made: deque[Future[_Made]] = deque()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for cells in _gathered(run.cells(damage, unparsed=PLAIN_LINES)):
            being_made.append(pool.submit(maker.make, cells))
            if len(being_made) > _AT_ONCE:
                yield from _next(being_made, damage)
        while being_made:
            yield from _next(being_made, damage)
    damage += maker.damage


def _next(being_made: deque[Future[_Made]], damage: list[Damage]) -> Iterator[tuple[str, pa.Table]]:
    made, told = being_made.popleft().result()
    damage += told
    yield from made.items()


def _gathered(cells: Iterable[StoredCell]) -> Iterator[list[StoredCell]]:
    """Yield cells, so many at a time that it is worth while to make rows of them."""
    gathered: list[StoredCell] = []
    lines = 0
    for cell in cells:
        gathered.append(cell)
        lines += len(cell.events) + cell.unparsed.count(b"\n")
        if lines >= _ROWS:
            yield gathered
            gathered, lines = [], 0
    if gathered:
        yield gathered


class _Maker:
    """Makes rows of cells. The lines that a cell has unparsed are events that are rows as they stand."""

    def __init__(self, run: str) -> None:
        self.damage: list[Damage] = []
        """What fits no row, as it is found."""
        self._run = run
        self._schemas = {name: arrow_schema(columns) for name, columns in TABLES.items()}

    def make(self, cells: list[StoredCell]) -> _Made:
        try:
            plain = parse_plain_lines(b"".join(cell.unparsed for cell in cells), self._schemas["events"])
        except pa.ArrowInvalid:  # one of them is damaged: which one, and what is left, the slow way
            return self.make([read_cell(cell.path) for cell in cells])
        whose = pa.concat_arrays([pa.repeat(cell.name, cell.unparsed.count(b"\n")) for cell in cells])
        others = self._table("events", [(cell, _plain_event(event)) for cell in cells for event in cell.events])
        events = pa.concat_tables([others, self._keyed("events", plain, whose)])
        made = {
            "cells": self._table("cells", [(cell, _cell(cell)) for cell in cells]),
            "verdicts": self._table("verdicts", [(cell, _plain(one)) for cell in cells for one in cell.verdicts]),
            "events": events.sort_by([("cell", "ascending"), ("n", "ascending")]),
        }
        return made, [one for cell in cells for one in cell.damage]

    def _table(self, name: str, records: list[tuple[StoredCell, dict[str, Any]]]) -> pa.Table:
        schema = self._schemas[name]
        try:
            rows = pa.Table.from_pylist([_fit(name, values) for _, values in records], schema=schema)
        except (OverflowError, pa.ArrowInvalid, pa.ArrowTypeError):
            # One of them has a number that no column holds: a damaged line may.
            records = [one for one in records if self._fits(name, *one)]
            rows = pa.Table.from_pylist([_fit(name, values) for _, values in records], schema=schema)
        return self._keyed(name, rows, pa.array([cell.name for cell, _ in records], pa.string()))

    def _fits(self, name: str, cell: StoredCell, values: dict[str, Any]) -> bool:
        try:
            pa.Table.from_pylist([_fit(name, values)], schema=self._schemas[name])
        except (OverflowError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
            self.damage.append(Damage(cell.path, 1, f"a record that fits no row of {name}: {str(error)[:200]}"))
            return False
        return True

    def _keyed(self, name: str, rows: pa.Table, whose: pa.Array) -> pa.Table:
        """Return rows with all columns of their table; `whose` is the cell of each."""
        values = {"run": pa.repeat(self._run, len(rows)), "cell": whose}
        schema = self._schemas[name]
        return pa.table(
            [values[field.name] if field.name in values else rows[field.name] for field in schema], schema=schema
        )


def _cell(cell: StoredCell) -> dict[str, Any]:
    return {**_plain(cell.header), **(_plain(cell.footer) if cell.footer else {})}


def _plain(record: BaseModel) -> dict[str, Any]:
    return record.model_dump(mode="json", by_alias=True)


def _plain_event(event: AnyEvent) -> dict[str, Any]:
    values: dict[str, Any] = EVENT_ADAPTER.dump_python(event, mode="json")
    return values


_KINDS = {table: {column.name: column.type for column in columns} for table, columns in TABLES.items()}


def _fit(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a record has a column. Columns that it has nothing for are left out: an event has few of them."""
    kinds = _KINDS[table]
    return {name: _value(kinds[name], value) for name, value in values.items() if name in kinds}


def _value(kind: object, value: Any) -> Any:
    if kind == "json" and value is not None and not isinstance(value, str):
        return json.dumps(value, sort_keys=True)
    return value


_BLOCK = 1 << 20
"""Octets that Arrow parses at a time, unless a line is longer."""


def _is_plain(kind: type) -> bool:
    columns = {column.name: column.type for column in EVENT_COLUMNS}
    hints = get_type_hints(kind)
    return all(columns[field.name] != "json" or hints[field.name] is str for field in fields(kind))


PLAIN_KINDS = tuple(
    get_args(get_type_hints(kind)["kind"])[0] for kind in get_args(get_args(AnyEvent)[0]) if _is_plain(kind)
)
"""The kinds of events that are rows as they stand."""

PLAIN_LINES = re.compile(
    rb'(?>\{"record":"event","n":\d+,"t":[-+.e\d]+,"kind":"(?:%b)"[^\n]*\}\n)++' % "|".join(PLAIN_KINDS).encode()
)
"""Lines that follow one another and are such events."""


def parse_plain_lines(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of such lines, in the columns of `schema` (those of the table of events).

    Raises pyarrow.ArrowInvalid when one of them is no such row.
    """
    if not lines:
        return schema.empty_table()
    longest = max(map(len, lines.split(b"\n")))
    read = pyarrow.json.read_json(
        io.BytesIO(lines),
        read_options=pyarrow.json.ReadOptions(block_size=max(_BLOCK, 2 * longest)),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema.append(pa.field("record", pa.string())), unexpected_field_behavior="error"
        ),
    )
    return read.drop_columns(["record"])
