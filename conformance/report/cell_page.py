"""The page of a cell: findings on top, the diagram in parts, each with its text, and all verdicts. A report that has
no page of its own gets the part around what the verdict points at, as one small SVG file.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.report.cell_view import CellView
from conformance.report.diagram.condensing import condense_rows
from conformance.report.diagram.layout import Diagram, Section, lay_out
from conformance.report.diagram.rows import DiagramRow, diagram_rows, party_columns, row_text
from conformance.report.diagram.svg import draw_section
from conformance.report.earlier_runs import EarlierOutcome, find_flaky_run
from conformance.report.event_text import format_moment
from conformance.report.evidence_location import locate_evidence
from conformance.report.failure_text import clause_of
from conformance.report.rendering import render_page
from conformance.results.layout import slug_of
from conformance.verdicts import Outcome, Verdict

_OPEN = 8
"""So many parts are open from the start; of a longer history only those that are marked, the first and the last."""

MAX_PAGE_OCTETS = 500_000
"""Octets of a page."""
_ROWS = (400, 200, 100, 50)
"""So many rows are drawn; fewer where their text is so long that the page would be too large."""
_FINDINGS = 30
"""So many findings have a card."""
_VERDICTS = 100
"""So many verdicts are listed, findings first."""

_SUFFIXES = {"pcapng": "pcapng", "perfetto": "json", "scenario": "scenario.yaml"}
"""Format of `conformance export` -> suffix of its file."""

_QUIET = {
    Outcome.PASS: "Every check of this cell passed.",
    Outcome.NOT_APPLICABLE: "Not applicable: the candidate does not claim what this scenario needs.",
}


def cell_page(
    cell: CellView, *, home: str = "", kept: str = "", past: Sequence[EarlierOutcome] = (), shared: str = ""
) -> str:
    """Return the HTML page of a cell; `home` is a relative link to the page of its run, `kept` one to the directory in which
    those of its nodes are kept, `past` is how the cell ended in the runs before. It is self-contained, or shares its style with
    others (`html.rendered`).
    """
    rows = diagram_rows(cell)
    shown = {n for verdict in (*cell.findings, *cell.remarks) for n in cell.evidence_of(verdict)}
    for most in _ROWS:
        page = _page(cell, condense_rows(rows, most, shown), home, kept, past, shared)
        if len(page.encode()) <= MAX_PAGE_OCTETS:
            break
    return page


def _page(
    cell: CellView, rows: Sequence[DiagramRow], home: str, kept: str, past: Sequence[EarlierOutcome], shared: str
) -> str:
    diagram = lay_out(rows, party_columns(cell.events, cell.server_names), cell.events)
    anchors = {number: row.numbers[0] for row in rows for number in row.numbers}
    return render_page(
        "cell.html.j2",
        script="cell.js",
        shared=shared,
        cell=cell,
        home=home,
        kept=kept,
        past=past,
        flaky=find_flaky_run(cell.outcome, past),
        remarks=[_finding(verdict, cell, anchors) for verdict in cell.remarks[:_FINDINGS]],
        findings=[_finding(verdict, cell, anchors) for verdict in cell.findings[:_FINDINGS]],
        more_findings=max(len(cell.findings) - _FINDINGS, 0),
        verdicts=sorted(cell.verdicts, key=_is_quiet)[:_VERDICTS],
        exports=_exports(cell.file) if cell.file is not None else [],
        quiet=_QUIET.get(cell.outcome, "No check came to a verdict."),
        sections=[_section(section, diagram) for section in diagram.sections],
    )


def _exports(file: Path) -> list[str]:
    """Return the commands that write the cell of this file in the formats of other tools."""
    words = ["conformance", "export", str(file.parent.parent), "--cell", slug_of(file)]
    return [shlex.join([*words, "--format", name, "--out", f"cell.{end}"]) for name, end in _SUFFIXES.items()]


def _is_quiet(verdict: Verdict) -> bool:
    return verdict.outcome in _QUIET and not verdict.remark


def _finding(verdict: Verdict, cell: CellView, anchors: dict[int, int]) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "clause": clause_of(verdict.requirements[0]) if verdict.requirements else "",
        "also": [(one, clause_of(one)) for one in verdict.requirements[1:]],
        "source": (cell.source_line(verdict.line) or "").strip(),
        "location": locate_evidence(verdict, cell),
        "places": [(number, anchors[number]) for number in cell.evidence_of(verdict) if number in anchors],
    }


def _section(section: Section, diagram: Diagram) -> dict[str, Any]:
    rows: list[DiagramRow] = [placed.row for placed in section.placed]
    numbers = [number for row in rows for number in row.numbers]
    few = len(diagram.sections) <= _OPEN
    return {
        "number": section.number,
        "open": few or section.marked or section.number in (1, len(diagram.sections)),
        "marked": section.marked,
        "summary": _summary(rows, numbers),
        "svg": draw_section(diagram, section),
        "lines": [(row.marked, row_text(row)) for row in rows],
    }


def _summary(rows: list[DiagramRow], numbers: list[int]) -> str:
    when = f"{format_moment(rows[0].t)} to {format_moment(rows[-1].t)}"
    return f"events #{min(numbers)} to #{max(numbers)}, {when}" if numbers else when
