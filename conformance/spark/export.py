"""Write a table as Parquet, CSV and JSON files, for readers without Spark; `aggregation` calls this for each published table."""

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

_FORMULA_START = re.compile(r"(^|[;|\t\r\n])(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet would begin to read a formula: at the start of a field, or after `;`, `|` or a tab, which some settings take as
separators, or at the start of a line: with another separator the quotes around a text do not hold its lines together."""


def export_table(
    table: pa.Table, folder: Path, name: str, write: Callable[[Path, bytes], None] = write_atomically
) -> list[dict[str, Any]]:
    """Write a table as `name.parquet`, `name.csv` and `name.json` into a folder, and return its rows as dictionaries.

    The folder is created where it is missing. The JSON file is a list of objects, one a line. `write(path, octets)` is called
    for each file; the default replaces the file atomically. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parquet = io.BytesIO()
    pq.write_table(table, parquet, compression="zstd")
    rows: list[dict[str, Any]] = table.to_pylist()
    write(folder / f"{name}.parquet", parquet.getvalue())
    write(folder / f"{name}.csv", _format_csv(table.column_names, rows).encode())
    lines = ",\n".join(map(json.dumps, rows))
    write(folder / f"{name}.json", f"[{lines}]\n".encode())
    return rows


def _format_csv(columns: list[str], rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV with a header line; texts are made safe for spreadsheets and terminals (`_SafeTexts`).

    Each row has its values in the order of `columns`.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    safe = _SafeTexts()
    writer.writerows([safe[value] if isinstance(value, str) else value for value in row.values()] for row in rows)
    return text.getvalue()


class _SafeTexts(dict[str, str]):
    """A cache from texts to CSV fields that neither start a formula nor hold control characters but line feeds.

    An apostrophe goes before what would start a formula: a spreadsheet then takes the field as text.
    The texts may come from a server under test. Parquet and JSON hold them unchanged. Each distinct text is converted once,
    since a table repeats the same few in row after row.
    """

    def __missing__(self, text: str) -> str:
        """Convert a text that is not in the cache yet, enter it and return it; `dict` calls this for an unknown key."""
        self[text] = safe = escape_unprintable(_FORMULA_START.sub(r"\1'", text))
        return safe


def escape_unprintable(text: str) -> str:
    r"""Return a text with each unprintable character but the line feed escaped, as `\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)
