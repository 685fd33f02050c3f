"""The HTML page of a cell: findings on top, the diagram in parts, each with its text alternative, and the verdicts.

`site` writes the pages. A *part* is a section of the diagram, of 80 rows at most. A *finding* is a verdict that is neither a
pass nor not applicable; a *remark* is a pass although a `should` row is violated; both have a *card*. The *evidence* of a
verdict are the numbers of the events that show it. A row may stand for several events; its *anchor* is the number of the
first.
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
from conformance.report.earlier_runs import EarlierOutcome, find_flaky_outcome
from conformance.report.event_text import format_moment
from conformance.report.evidence_location import locate_evidence
from conformance.report.failure_text import clause_of
from conformance.report.rendering import render_page
from conformance.results.layout import slug_of
from conformance.verdicts import Outcome, Verdict

_MAX_OPEN_PARTS = 8
"""Up to this number of parts, all are open at first; of more, the first, the last and those with evidence."""

MAX_PAGE_OCTETS = 500_000
"""Octets of a page."""
_MAX_ROWS = (400, 200, 100, 50)
"""Limits of the rows that are drawn: the next one is tried where the page gets too large."""
_MAX_FINDINGS = 30
"""Findings, and remarks, that have a card."""
_MAX_VERDICTS = 100
"""Verdicts that are listed, findings first."""

_EXPORT_SUFFIXES = {"pcapng": "pcapng", "perfetto": "json", "scenario": "scenario.yaml"}
"""Format of `conformance export` -> suffix of its file."""

_NO_FINDING_TEXT = {
    Outcome.PASS: "Every check of this cell passed.",
    Outcome.NOT_APPLICABLE: "Not applicable: the candidate does not claim what this scenario needs.",
}


def cell_page(
    cell: CellView, *, home: str = "", kept: str = "", earlier_outcomes: Sequence[EarlierOutcome] = (), shared: str = ""
) -> str:
    """Return the HTML page of a cell, of at most `MAX_PAGE_OCTETS` unless it is larger even with the fewest rows.

    A page that is too large is made again with fewer rows of the diagram. `home` is the relative link to the run's page,
    `kept` that to the copies of the nodes' directories; '' for none. `earlier_outcomes` has the cell's outcomes in earlier
    runs. `shared` is the relative path of the folder with the style sheet; with '' the page is self-contained (`render_page`).
    """
    rows = diagram_rows(cell)
    # The cards of findings link to these events, so their rows are not folded.
    linked = {n for verdict in (*cell.findings, *cell.remarks) for n in cell.evidence_of(verdict)}
    for max_rows in _MAX_ROWS:
        page = _render(cell, condense_rows(rows, max_rows, linked), home, kept, earlier_outcomes, shared)
        if len(page.encode()) <= MAX_PAGE_OCTETS:
            break
    return page


def _render(
    cell: CellView,
    rows: Sequence[DiagramRow],
    home: str,
    kept: str,
    earlier_outcomes: Sequence[EarlierOutcome],
    shared: str,
) -> str:
    """Return the page of a cell with these rows of its diagram.

    At most `_MAX_FINDINGS` findings, as many remarks, and `_MAX_VERDICTS` verdicts are shown. The other parameters are those of
    `cell_page`.
    """
    diagram = lay_out(rows, party_columns(cell.events, cell.server_names), cell.events)
    anchors = {number: row.numbers[0] for row in rows for number in row.numbers}
    return render_page(
        "cell.html.j2",
        script="cell.js",
        shared=shared,
        cell=cell,
        home=home,
        kept=kept,
        earlier_outcomes=earlier_outcomes,
        flaky=find_flaky_outcome(cell.outcome, earlier_outcomes),
        remarks=[_finding_context(verdict, cell, anchors) for verdict in cell.remarks[:_MAX_FINDINGS]],
        findings=[_finding_context(verdict, cell, anchors) for verdict in cell.findings[:_MAX_FINDINGS]],
        more_findings=max(len(cell.findings) - _MAX_FINDINGS, 0),
        verdicts=sorted(cell.verdicts, key=_has_no_finding)[:_MAX_VERDICTS],
        exports=_export_commands(cell.file) if cell.file is not None else [],
        quiet=_NO_FINDING_TEXT.get(cell.outcome, "No check gave a verdict."),
        sections=[_section_context(section, diagram) for section in diagram.sections],
    )


def _export_commands(file: Path) -> list[str]:
    """Return the commands, quoted for a shell, that export the cell with the file RUN/cells/SLUG.jsonl.gz, one for each format."""
    command = ["conformance", "export", str(file.parent.parent), "--cell", slug_of(file)]
    return [
        shlex.join([*command, "--format", name, "--out", f"cell.{suffix}"]) for name, suffix in _EXPORT_SUFFIXES.items()
    ]


def _has_no_finding(verdict: Verdict) -> bool:
    """Return whether a verdict is a pass without a remark, or not applicable; as a sort key it puts findings first."""
    return verdict.outcome in _NO_FINDING_TEXT and not verdict.remark


def _finding_context(verdict: Verdict, cell: CellView, anchors: dict[int, int]) -> dict[str, Any]:
    """Return the template's variables of a finding's card; `anchors` maps an event's number to that of its row's anchor."""
    return {
        "verdict": verdict,
        "clause": clause_of(verdict.requirements[0]) if verdict.requirements else "",
        "also": [(requirement, clause_of(requirement)) for requirement in verdict.requirements[1:]],
        "source": (cell.source_line(verdict.line) or "").strip(),
        "location": locate_evidence(verdict, cell),
        "places": [(number, anchors[number]) for number in cell.evidence_of(verdict) if number in anchors],
    }


def _section_context(section: Section, diagram: Diagram) -> dict[str, Any]:
    """Return the template's variables of a part of the diagram; `marked`: it has evidence of a violation or error.

    A part is open at first where the diagram has few parts, or where it is the first, the last or marked.
    """
    rows: list[DiagramRow] = [placed.row for placed in section.placed]
    numbers = [number for row in rows for number in row.numbers]
    all_open = len(diagram.sections) <= _MAX_OPEN_PARTS
    return {
        "number": section.number,
        "open": all_open or section.marked or section.number in (1, len(diagram.sections)),
        "marked": section.marked,
        "summary": _section_summary(rows, numbers),
        "svg": draw_section(diagram, section),
        "lines": [(row.marked, row_text(row)) for row in rows],
    }


def _section_summary(rows: list[DiagramRow], numbers: list[int]) -> str:
    """Return the range of events and times of a part: `events #1 to #80, 0.000s to 2m3.5s`; without `numbers` the times alone."""
    when = f"{format_moment(rows[0].t)} to {format_moment(rows[-1].t)}"
    return f"events #{min(numbers)} to #{max(numbers)}, {when}" if numbers else when
