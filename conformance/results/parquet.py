"""A finished run's cells, verdicts and events once more as Parquet: a twentieth of the size, and read at once.

Optional: without pyarrow there is none, and readers take the cells' files. The manifest beside the tables names the
files that they were made from, so that nobody reads a table that is older than its run.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from conformance.results.columns import TABLES, Column
from conformance.results.content import Manifest, content_of
from conformance.results.layout import PARQUET
from conformance.results.reader import Damage, StoredCell, read_run
from conformance.results.whole import write_whole

MANIFEST = "manifest.json"

_ROWS = 20_000
"""Rows of events that are gathered before they are written."""
_TOLD = 100
"""Damaged lines that the manifest names; all are counted."""
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
    folder = run_dir / PARQUET
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    damage: list[Damage] = []
    before = content_of(run_dir)
    with _Tables(folder) as tables:
        for cell in run.cells(damage):
            damage += cell.damage
            tables.add(run.header.run, cell)
    told = tuple(str(one) for one in damage[:_TOLD])
    manifest = before.model_copy(update={"damaged": len(damage), "damage": told, "rows": tables.rows})
    write_whole(folder / MANIFEST, (manifest.model_dump_json(by_alias=True, indent=2) + "\n").encode())
    return manifest


def rows_of(run: str, cell: StoredCell) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a cell, each with its table's name."""
    key = {"run": run, "cell": cell.path.stem}
    footer = _plain(cell.footer) if cell.footer else {}
    yield "cells", _fit("cells", {**_plain(cell.header), **footer, **key})
    for verdict in cell.verdicts:
        yield "verdicts", _fit("verdicts", {**_plain(verdict), **key})
    for event in cell.events:
        yield "events", _fit("events", {**_plain(event), **key})


def _plain(record: BaseModel) -> dict[str, Any]:
    return record.model_dump(mode="json", by_alias=True)


_KINDS = {table: {column.name: column.type for column in columns} for table, columns in TABLES.items()}


def _fit(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a record has a column. Columns that it has nothing for are left out: an event has few of them."""
    kinds = _KINDS[table]
    return {name: _value(kinds[name], value) for name, value in values.items() if name in kinds}


def _value(kind: object, value: Any) -> Any:
    if kind == "json" and value is not None and not isinstance(value, str):
        return json.dumps(value, sort_keys=True)
    return value


class _Tables:
    """The three files, each written a few thousand rows at a time."""

    def __init__(self, folder: Path) -> None:
        self.rows = dict.fromkeys(TABLES, 0)
        self._schemas = {name: arrow_schema(columns) for name, columns in TABLES.items()}
        self._waiting: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self._files = {
            name: pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd")
            for name, schema in self._schemas.items()
        }

    def __enter__(self) -> "_Tables":
        return self

    def __exit__(self, *error: object) -> None:
        for name, file in self._files.items():
            self._flush(name)
            file.close()

    def add(self, run: str, cell: StoredCell) -> None:
        for name, row in rows_of(run, cell):
            self._waiting[name].append(row)
        for name, rows in self._waiting.items():
            if len(rows) >= _ROWS:
                self._flush(name)

    def _flush(self, name: str) -> None:
        rows = self._waiting[name]
        if rows:
            self._files[name].write_table(pa.Table.from_pylist(rows, schema=self._schemas[name]))
            self.rows[name] += len(rows)
            rows.clear()
