"""One page over all runs: what each candidate's newest run says, with its failures, and every table."""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from conformance.results.whole import write_whole
from conformance.spark.export import printable
from conformance.spark.tables.labels import label_of, unit_of
from conformance.spark.tables.table import Table
from conformance.spark.trends import HEIGHT, WIDTH, trends
from conformance.verdicts.outcome import WORDS

ROWS = 200
"""Rows of a table that the page shows; the files beside it have all."""
FINDINGS = 20
"""Failures of one scenario that the page shows."""
_TEXT = 600
"""Characters of a value that the page shows."""


def write_site(
    out: Path,
    titles: Sequence[Table],
    rows: Mapping[str, list[dict[str, Any]]],
    write: Callable[[Path, bytes], None] = write_whole,
) -> Path:
    """Write `index.html` from the tables' rows and return its path."""
    page = render(titles, rows)
    out.mkdir(parents=True, exist_ok=True)
    write(out / "index.html", page.encode())
    return out / "index.html"


def render(titles: Sequence[Table], rows: Mapping[str, list[dict[str, Any]]]) -> str:
    """Return the page as HTML. `rows` are those of each table, by its name."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"shown": shown, "figure": figure}
    style, script = _resource("style.css"), _resource("script.js")
    newest = _newest(rows["runs"], rows["matrix"])
    return environment.from_string(_resource("page.html")).render(
        policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'",
        style=style,
        script=script,
        glyphs={str(outcome): words.sign for outcome, words in WORDS.items()},
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
                "total": len(rows[table.name]),
                "columns": [(label_of(column.name), column.meaning) for column in table.columns],
                "rows": [
                    [_in_unit(row.get(column.name), column.name) for column in table.columns]
                    for row in rows[table.name][:ROWS]
                ],
            }
            for table in titles
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
    """Return a value as text to be read: what is not printable made visible, and not too long. Escaping comes after."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    text = str(value)
    text = text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
    return printable(text)


def figure(value: float) -> str:
    """Return a number with at most six digits after the point, and a mark at each thousand."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def _newest(runs: list[dict[str, Any]], matrix: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the newest run of each candidate, whichever parts of the suite it was of."""
    order = {row["run"]: place for place, row in enumerate(runs)}
    found: dict[str, str] = {}
    for row in sorted(matrix, key=lambda row: order[row["run"]]):
        found[row["candidate"]] = row["run"]
    return [{"candidate": candidate, "run": run} for candidate, run in sorted(found.items())]


def _by(
    rows: list[dict[str, Any]], name: str, newest: list[dict[str, str]], failures: list[dict[str, Any]]
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


def _figures(rows: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
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


def _resource(name: str) -> str:
    return (files("conformance.spark.page") / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
