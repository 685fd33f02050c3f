"""The page over all runs: what each candidate's newest run says, with its failures, and every table."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from conformance.report.escaping import visible
from conformance.report.rendering import render_page
from conformance.results.atomic_write import write_atomically

Unit = Literal["", "s", "%"]

LABELS: dict[str, str] = {
    "action": "Kind of fault",
    "before": "Outcome before",
    "before_run": "Run before",
    "candidate_sha256": "Hash of the candidate",
    "cause": "What changed",
    "cells_planned": "Cells planned",
    "cpu_seconds": "CPU time",
    "cut_short": "Cut short",
    "damaged": "Damaged lines",
    "environment_sha256": "Hash of the environment",
    "event": "Event number",
    "filtered": "Part of the suite only",
    "first_event": "First delivery: event number",
    "first_t": "First delivery",
    "found": "Found by the queries",
    "harness": "Harness version",
    "high": "Failure rate, at most",
    "holder_site": "Site of the copy",
    "holders": "Servers with a copy",
    "inside_boundary": "Inside the boundary",
    "last_event": "Last delivery: event number",
    "last_t": "Last delivery",
    "least": "Quickest",
    "low": "Failure rate, at least",
    "message_id": "Message-ID",
    "mode": "Kind of copy",
    "moment": "When",
    "most": "Slowest",
    "nodeid": "Cell",
    "not_applicable": "Not applicable",
    "occasions": "Occasions to fail",
    "p50": "Half within",
    "p95": "95 % within",
    "p99": "99 % within",
    "pairs_possible": "Pairs possible",
    "pairs_reached": "Pairs reached",
    "path": "History",
    "primary_site": "Site of the primary",
    "rate": "Failure rate",
    "reached": "Share reached",
    "recorded": "Recorded verdict",
    "repeat": "Command that repeats it",
    "same_site": "One site",
    "scenario_sha256": "Hash of the scenario",
    "simulated_seconds": "Documented time",
    "standing": "Nothing changed since",
    "started": "Began (UTC)",
    "times": "Times fired",
    "wall_seconds": "Wall time",
}
"""The columns whose name is not their label already."""

_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("wall_seconds", "cpu_seconds", "simulated_seconds", "moment", "first_t", "last_t"), "s"),
    **dict.fromkeys(("least", "p50", "p95", "p99", "most"), "s"),
    **dict.fromkeys(("rate", "low", "high", "reached"), "%"),
}


def label_of(name: str) -> str:
    """Return what a column is called on a page, with the unit of its numbers."""
    text = LABELS.get(name) or name.replace("_", " ").capitalize()
    unit = unit_of(name)
    return f"{text} ({unit})" if unit else text


def unit_of(name: str) -> Unit:
    """Return the unit that a column's numbers are shown in: `%` is of a share, which files have as 0 to 1."""
    return _UNITS.get(name, "")


WIDTH, HEIGHT = 360, 80
"""Of a plot's area, in the picture's own units."""
RUNS = 200
"""The newest runs that a plot shows."""


@dataclass(frozen=True, slots=True)
class TrendLine:
    """One candidate's line: what it is of, its points as an SVG polyline has them, its ends as numbers."""

    candidate: str
    what: str
    points: str
    runs: int
    first: float
    last: float
    least: float
    most: float


def trend_lines(rows: Mapping[str, list[dict[str, Any]]]) -> list[TrendLine]:
    """Return the lines of all candidates that have at least two runs, by candidate; `rows` are those of the tables."""
    order = {row["run"]: place for place, row in enumerate(rows["runs"])}
    found = []
    for what, values in (("failed, % of judged cells", _failed(rows["matrix"])), ("p95, s", _slow(rows["latency"]))):
        lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for (run, candidate), value in values.items():
            lines[candidate].append((order[run], value))
        found += [
            _trend(candidate, what, [value for _, value in sorted(line)][-RUNS:])
            for candidate, line in lines.items()
            if len(line) > 1
        ]
    return sorted(found, key=lambda one: (one.candidate, one.what))


def _failed(matrix: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    passed: dict[tuple[str, str], int] = defaultdict(int)
    failed: dict[tuple[str, str], int] = defaultdict(int)
    for row in matrix:
        passed[row["run"], row["candidate"]] += row["passed"]
        failed[row["run"], row["candidate"]] += row["failed"]
    return {key: 100 * failed[key] / (failed[key] + passed[key]) for key in passed if failed[key] + passed[key]}


def _slow(latency: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Return for each run and candidate the p95 of its slowest scenario."""
    slowest: dict[tuple[str, str], float] = {}
    for row in latency:
        if row["p95"] is not None:
            key = row["run"], row["candidate"]
            slowest[key] = max(slowest.get(key, row["p95"]), row["p95"])
    return slowest


def _trend(candidate: str, what: str, values: list[float]) -> TrendLine:
    least, most = min(values), max(values)
    span = most - least or 1.0
    points = " ".join(
        f"{place * WIDTH / (len(values) - 1):.1f},{HEIGHT - (value - least) / span * HEIGHT:.1f}"
        for place, value in enumerate(values)
    )
    return TrendLine(candidate, what, points, len(values), values[0], values[-1], least, most)


ROWS = 200
"""Rows of a table that the page shows; the files beside it have all."""
FINDINGS = 20
"""Failures of one scenario that the page shows."""
TEXT = 600
"""Characters of a value that the page shows."""

TableRows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TableOnPage:
    """A table of an aggregation: its name, which its files have too, its title, its columns with their meanings, its rows."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: TableRows


def write_tables_page(
    out: Path, tables: Sequence[TableOnPage], write: Callable[[Path, bytes], None] = write_atomically
) -> Path:
    """Write `index.html` beside the tables' files with `write` and return its path. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    write(out / "index.html", tables_page(tables).encode())
    return out / "index.html"


def tables_page(tables: Sequence[TableOnPage]) -> str:
    """Return the page as HTML."""
    rows = {table.name: table.rows for table in tables}
    newest = _newest(rows["runs"], rows["matrix"])
    return render_page(
        "tables.html.j2",
        script="tables.js",
        shown=value_text,
        figure=number_text,
        runs=rows["runs"] or [{"started": ""}],
        newest=newest,
        figures=_figures(rows),
        trends=trend_lines(rows),
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


def value_text(value: object) -> str:
    """Return a value as text to be read; what is too long is cut."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return visible(str(value), TEXT)


def number_text(value: float) -> str:
    """Return a number with at most six digits after the point, and a mark at each thousand."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def _newest(runs: TableRows, matrix: TableRows) -> list[dict[str, str]]:
    """Return the newest run of each candidate, whichever parts of the suite it was of."""
    order = {row["run"]: place for place, row in enumerate(runs)}
    found: dict[str, str] = {}
    for row in sorted(matrix, key=lambda row: order[row["run"]]):
        found[row["candidate"]] = row["run"]
    return [{"candidate": candidate, "run": run} for candidate, run in sorted(found.items())]


def _by(
    rows: TableRows, name: str, newest: list[dict[str, str]], failures: TableRows
) -> dict[str, dict[str, dict[str, Any]]]:
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


def _figures(rows: Mapping[str, TableRows]) -> list[dict[str, Any]]:
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
