"""The page over all runs: what each candidate's newest run says, with its failures, and every table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.report.html import rendered
from conformance.report.safe import visible
from conformance.report.tables_page.labels import label_of, unit_of
from conformance.report.tables_page.trends import HEIGHT, WIDTH, trends
from conformance.results.whole import write_whole

ROWS = 200
"""Rows of a table that the page shows; the files beside it have all."""
FINDINGS = 20
"""Failures of one scenario that the page shows."""
TEXT = 600
"""Characters of a value that the page shows."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TableShown:
    """A table of an aggregation: its name, which its files have too, its title, its columns with their meanings, its rows."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: Rows


def write_tables_page(
    out: Path, tables: Sequence[TableShown], write: Callable[[Path, bytes], None] = write_whole
) -> Path:
    """Write `index.html` beside the tables' files with `write` and return its path. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    write(out / "index.html", tables_page(tables).encode())
    return out / "index.html"


def tables_page(tables: Sequence[TableShown]) -> str:
    """Return the page as HTML."""
    rows = {table.name: table.rows for table in tables}
    newest = _newest(rows["runs"], rows["matrix"])
    return rendered(
        "tables.html.j2",
        script="tables.js",
        shown=shown,
        figure=figure,
        runs=rows["runs"] or [{"started": ""}],
        newest=newest,
        figures=_figures(rows),
        trends=trends(rows),
        width=WIDTH,
        height=HEIGHT,
        matrix=_by(rows["matrix"], "scenario", newest, rows["failures"]),
        ledger=_by(rows["requirements"], "requirement", newest, []),
        tables=[
            {
                "name": table.name,
                "title": table.title,
                "total": len(table.rows),
                "columns": [(label_of(name), meaning) for name, meaning in table.columns],
                "rows": [[_in_unit(row.get(name), name) for name, _ in table.columns] for row in table.rows[:ROWS]],
            }
            for table in tables
        ],
    )


def _in_unit(value: object, column: str) -> object:
    """Return a value as the page has it: a share in percent, a hash as far as it tells two apart, a flag in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and unit_of(column) == "%":
        return round(100 * value, 1)
    return value[:12] if isinstance(value, str) and column.endswith("_sha256") else value


def shown(value: object) -> str:
    """Return a value as text to be read; what is too long is cut."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return visible(str(value), TEXT)


def figure(value: float) -> str:
    """Return a number with at most six digits after the point, and a mark at each thousand."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def _newest(runs: Rows, matrix: Rows) -> list[dict[str, str]]:
    """Return the newest run of each candidate, whichever parts of the suite it was of."""
    order = {row["run"]: place for place, row in enumerate(runs)}
    found: dict[str, str] = {}
    for row in sorted(matrix, key=lambda row: order[row["run"]]):
        found[row["candidate"]] = row["run"]
    return [{"candidate": candidate, "run": run} for candidate, run in sorted(found.items())]


def _by(rows: Rows, name: str, newest: list[dict[str, str]], failures: Rows) -> dict[str, dict[str, dict[str, Any]]]:
    wanted = {(one["candidate"], one["run"]) for one in newest}
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if (row["candidate"], row["run"]) in wanted:
            table.setdefault(row[name], {})[row["candidate"]] = {**row, "failures": []}
    for failure in failures:
        if (failure["candidate"], failure["run"]) in wanted:
            findings = table[failure[name]][failure["candidate"]]["failures"]
            if len(findings) < FINDINGS:
                findings.append(failure)
    return dict(sorted(table.items()))


def _figures(rows: Mapping[str, Rows]) -> list[dict[str, Any]]:
    standing = [row for row in rows["changes"] if row["standing"] and row["change"] == "regression"]
    numbers = (
        (sum(row["cells"] for row in rows["runs"]), "cells", "", ""),
        (sum(row["failed"] for row in rows["runs"]), "failed", "fail", "pass"),
        (len(standing), "standing regressions", "fail", "pass"),
        (len(rows["flaky"]), "flaky cells", "inconclusive", "pass"),
        (len(rows["losses"]), "losses", "fail", "pass"),
        (len(rows["disagreements"]), "disagreements of the two oracles", "error", "pass"),
        (sum(row["damaged"] for row in rows["runs"]), "damaged lines", "error", "pass"),
    )
    return [{"number": f"{n:,}", "what": what, "kind": some if n else none} for n, what, some, none in numbers]
