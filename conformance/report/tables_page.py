"""The page over the tables of an aggregation: the newest run of each candidate, trends over runs, and every table.

`conformance.spark` makes the tables, and `conformance aggregate` writes the page. A row is a dictionary of the table's
columns. The table `runs` has the oldest run first; the tables `matrix`, `latency` and `failures` have rows for each run and
candidate. *p95* is the documented time within which 95 % of the messages of a scenario were acknowledged.
"""

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
    "before_version": "Version before",
    "candidate_sha256": "Hash of the candidate",
    "cause": "What changed",
    "cells_planned": "Cells planned",
    "cpu_seconds": "CPU time",
    "cut_short": "Cut short",
    "damaged": "Damaged lines",
    "environment_sha256": "Hash of the environment",
    "event": "Event number",
    "filtered": "Part of the suite only",
    "fired_share": "Share fired",
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
    "original": "Plan as it was run",
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
"""Labels of columns whose name, with spaces, is not a good label."""

_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("wall_seconds", "cpu_seconds", "simulated_seconds", "moment", "first_t", "last_t"), "s"),
    **dict.fromkeys(("least", "p50", "p95", "p99", "most"), "s"),
    **dict.fromkeys(("rate", "low", "high", "reached", "fired_share"), "%"),
}


def label_of(name: str) -> str:
    """Return the label of a column on the page, with the unit of its numbers in parentheses."""
    text = LABELS.get(name) or name.replace("_", " ").capitalize()
    unit = unit_of(name)
    return f"{text} ({unit})" if unit else text


def unit_of(name: str) -> Unit:
    """Return the unit in which the page shows a column's numbers, '' for none; shares are 0 to 1 in files and `%` on the page."""
    return _UNITS.get(name, "")


WIDTH, HEIGHT = 360, 80
"""The size of a plot, in SVG units."""
MAX_TREND_RUNS = 200
"""Runs that a plot shows, the newest ones."""


@dataclass(frozen=True, slots=True)
class TrendLine:
    """A plot of one measure of one candidate over runs.

    `points` are those of an SVG polyline, `runs` is how many values it shows; `first`, `last`, `least` and `most` are values of
    the measure.
    """

    candidate: str
    measure: str
    points: str
    runs: int
    first: float
    last: float
    least: float
    most: float


def trend_lines(rows: Mapping[str, list[dict[str, Any]]]) -> list[TrendLine]:
    """Return the plots of the failure rate and of the slowest scenario's p95 for each candidate, ordered by candidate and measure.

    `rows` has the rows of each table. A candidate with fewer than two values of a measure has no plot of it; of more than
    `MAX_TREND_RUNS` the newest are shown.
    """
    order = {row["run"]: index for index, row in enumerate(rows["runs"])}
    plots = []
    measures = (
        ("failed, % of judged cells", _failure_rates(rows["matrix"])),
        ("p95, s", _slowest_p95(rows["latency"])),
    )
    for measure, values in measures:
        lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for (run, candidate), value in values.items():
            lines[candidate].append((order[run], value))
        plots += [
            _trend_line(candidate, measure, [value for _, value in sorted(line)][-MAX_TREND_RUNS:])
            for candidate, line in lines.items()
            if len(line) > 1
        ]
    return sorted(plots, key=lambda plot: (plot.candidate, plot.measure))


def _failure_rates(matrix: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Return (run, candidate) -> failed cells in percent of passed and failed ones; no entry where there are none of these."""
    passed: dict[tuple[str, str], int] = defaultdict(int)
    failed: dict[tuple[str, str], int] = defaultdict(int)
    for row in matrix:
        passed[row["run"], row["candidate"]] += row["passed"]
        failed[row["run"], row["candidate"]] += row["failed"]
    return {key: 100 * failed[key] / (failed[key] + passed[key]) for key in passed if failed[key] + passed[key]}


def _slowest_p95(latency: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Return (run, candidate) -> the p95 of the slowest scenario, in documented seconds; no entry where no scenario has a p95."""
    slowest: dict[tuple[str, str], float] = {}
    for row in latency:
        if row["p95"] is not None:
            key = row["run"], row["candidate"]
            slowest[key] = max(slowest.get(key, row["p95"]), row["p95"])
    return slowest


def _trend_line(candidate: str, measure: str, values: list[float]) -> TrendLine:
    """Return the plot of at least two values, the oldest first, scaled to the plot's size; `measure` is its label."""
    least, most = min(values), max(values)
    span = most - least or 1.0
    points = " ".join(
        f"{index * WIDTH / (len(values) - 1):.1f},{HEIGHT - (value - least) / span * HEIGHT:.1f}"
        for index, value in enumerate(values)
    )
    return TrendLine(
        candidate=candidate,
        measure=measure,
        points=points,
        runs=len(values),
        first=values[0],
        last=values[-1],
        least=least,
        most=most,
    )


MAX_ROWS = 200
"""Rows of a table that the page shows; the files beside the page have all."""
MAX_FAILURES = 20
"""Failures of one scenario that the page shows."""
MAX_TEXT = 600
"""Characters of a value that the page shows."""

TableRows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TableOnPage:
    """A table of an aggregation; `name` is also that of its files, `columns` are (name, meaning) pairs."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: TableRows


def write_tables_page(
    out: Path, tables: Sequence[TableOnPage], write: Callable[[Path, bytes], None] = write_atomically
) -> Path:
    """Write `index.html` into the directory `out`, by calling `write`, and return its path. Raises OSError."""
    out.mkdir(parents=True, exist_ok=True)
    write(out / "index.html", tables_page(tables).encode())
    return out / "index.html"


def tables_page(tables: Sequence[TableOnPage]) -> str:
    """Return the page as HTML. `tables` are those of an aggregation.

    The tables `runs`, `matrix`, `requirements`, `failures`, `changes`, `flaky`, `losses`, `disagreements` and `latency` must be
    among them: a missing one raises KeyError.
    """
    rows = {table.name: table.rows for table in tables}
    newest = _newest_runs(rows["runs"], rows["matrix"])
    return render_page(
        "tables.html.j2",
        script="tables.js",
        text=value_text,
        number=number_text,
        runs=rows["runs"] or [{"started": ""}],
        newest=newest,
        figures=_headline_figures(rows),
        trends=trend_lines(rows),
        width=WIDTH,
        height=HEIGHT,
        matrix=_cells_of_newest(rows["matrix"], "scenario", newest, rows["failures"]),
        requirements=_cells_of_newest(rows["requirements"], "requirement", newest, []),
        tables=[
            {
                "name": table.name,
                "title": table.title,
                "total": len(table.rows),
                "columns": [(label_of(name), meaning) for name, meaning in table.columns],
                "rows": [
                    [_page_value(row.get(name), name) for name, _ in table.columns] for row in table.rows[:MAX_ROWS]
                ],
            }
            for table in tables
        ],
    )


def _page_value(value: object, column: str) -> object:
    """Return a value for the page: a share in percent, the first 12 digits of a hash, a flag as yes or no, others unchanged."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and unit_of(column) == "%":
        return round(100 * value, 1)
    return value[:12] if isinstance(value, str) and column.endswith("_sha256") else value


def value_text(value: object) -> str:
    """Return a value as printable text, cut at `MAX_TEXT` characters; a list joined by commas, '' for None."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return visible(str(value), MAX_TEXT)


def number_text(value: float) -> str:
    """Return a number with commas between thousands and at most six decimal places."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def _newest_runs(runs: TableRows, matrix: TableRows) -> list[dict[str, str]]:
    """Return `candidate` and `run`, its newest run, for each candidate, ordered by candidate.

    Runs of a part of the suite count. `runs` has the oldest run first; `matrix` has a row for each run, candidate and scenario.
    """
    order = {row["run"]: index for index, row in enumerate(runs)}
    newest: dict[str, str] = {}
    for row in sorted(matrix, key=lambda row: order[row["run"]]):
        newest[row["candidate"]] = row["run"]
    return [{"candidate": candidate, "run": run} for candidate, run in sorted(newest.items())]


def _cells_of_newest(
    rows: TableRows, column: str, newest: list[dict[str, str]], failures: TableRows
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return value of `column` -> candidate -> its row of the newest run, with at most `MAX_FAILURES` of its failures.

    `newest` has candidate and run; `failures` has rows with the same `column`. A copy of the row gets the new key `failures`. The
    result is sorted by the values of `column`.
    """
    wanted = {(entry["candidate"], entry["run"]) for entry in newest}
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if (row["candidate"], row["run"]) in wanted:
            table.setdefault(row[column], {})[row["candidate"]] = {**row, "failures": []}
    for failure in failures:
        if (failure["candidate"], failure["run"]) in wanted:
            findings = table[failure[column]][failure["candidate"]]["failures"]
            if len(findings) < MAX_FAILURES:
                findings.append(failure)
    return dict(sorted(table.items()))


def _headline_figures(rows: Mapping[str, TableRows]) -> list[dict[str, Any]]:
    """Return the numbers at the top of the page, each with its label and the CSS class of its colour.

    A regression stands if it is the latest change of its cell.
    """
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
    return [
        {"number": f"{count:,}", "label": label, "kind": kind_if_any if count else kind_if_zero}
        for count, label, kind_if_any, kind_if_zero in numbers
    ]
