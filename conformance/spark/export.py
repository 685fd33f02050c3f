"""Writes a table for whoever has no Spark: Parquet, CSV and JSON of one name, each whole or not at all."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from conformance.results.writer import write_whole

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula at the beginning of a text."""


def export(table: pa.Table, folder: Path, name: str) -> None:
    """Write a table as `name.parquet`, `name.csv` and `name.json` (a list of objects)."""
    folder.mkdir(parents=True, exist_ok=True)
    parquet = io.BytesIO()
    pq.write_table(table, parquet, compression="zstd")
    rows = table.to_pylist()
    write_whole(folder / f"{name}.parquet", parquet.getvalue())
    write_whole(folder / f"{name}.csv", _csv(table.column_names, rows).encode())
    write_whole(folder / f"{name}.json", (json.dumps(rows, indent=1, ensure_ascii=True) + "\n").encode())


def _csv(names: list[str], rows: list[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(names)
    writer.writerows([_harmless(row[name]) for name in names] for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    """Return a value for a CSV field: addresses and ids came over the wire, and must be no formulas."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
