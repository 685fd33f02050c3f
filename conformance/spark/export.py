"""Writes a table for whoever has no Spark: Parquet, CSV and JSON of one name, each whole or not at all."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from conformance.results.atomic_write import write_atomically

_FORMULA = re.compile(r"(^|[;|])(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet takes what follows for a formula: at the beginning of a text, also of what it splits at `;` or `|`
where these separate fields."""


def export_table(
    table: pa.Table, folder: Path, name: str, write: Callable[[Path, bytes], None] = write_atomically
) -> list[dict[str, Any]]:
    """Write a table as `name.parquet`, `name.csv` and `name.json` (a list of objects, one a line); return its rows."""
    folder.mkdir(parents=True, exist_ok=True)
    parquet = io.BytesIO()
    pq.write_table(table, parquet, compression="zstd")
    rows: list[dict[str, Any]] = table.to_pylist()
    write(folder / f"{name}.parquet", parquet.getvalue())
    write(folder / f"{name}.csv", _csv(table.column_names, rows).encode())
    lines = ",\n".join(map(json.dumps, rows))
    write(folder / f"{name}.json", f"[{lines}]\n".encode())
    return rows


def _csv(names: list[str], rows: list[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(names)
    harmless = _Harmless()
    writer.writerows([harmless[value] if isinstance(value, str) else value for value in row.values()] for row in rows)
    return text.getvalue()


class _Harmless(dict[str, str]):
    """Texts as a CSV field may have them: what came over the wire must be no formula, and nothing that a terminal obeys.

    Parquet and JSON have them as they were. Each text is looked at once: a table has the same few in row after row.
    """

    def __missing__(self, text: str) -> str:
        self[text] = harmless = printable(_FORMULA.sub(r"\1'", text))
        return harmless


def printable(text: str) -> str:
    """Return a text with everything written out that is not printable; its lines stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)
