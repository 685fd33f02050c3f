"""An excerpt of a cell's diagram, as a small SVG file: the rows around the evidence of its findings.

`allure_content` attaches it to a result, which has no page with the whole diagram. A *finding* is a verdict that is neither a
pass nor not applicable; its *evidence* are the numbers of the events that show it. A *gap row* stands for rows that are left out;
a single row is not left out.
"""

from collections.abc import Iterable, Sequence

from conformance.report.cell_view import CellView
from conformance.report.diagram.layout import lay_out
from conformance.report.diagram.rows import DiagramRow, diagram_rows, party_columns
from conformance.report.diagram.svg import draw_section
from conformance.report.rendering import template_text

ROWS_AROUND = 4
"""Rows before and after each row of the evidence."""
MAX_EXCERPT_ROWS = 40
"""Rows that are chosen for an excerpt; gap rows, and single rows between chosen ones, come on top."""
_LAST_ROWS = 20
"""Rows of an excerpt where the findings have no evidence: the last ones of the cell."""


def excerpt_svg(cell: CellView) -> str:
    """Return the SVG document of a cell's excerpt: the rows around the evidence, or its last rows without evidence.

    '' for a cell whose diagram has no rows.
    """
    rows = diagram_rows(cell)
    numbers = [number for verdict in cell.findings for number in cell.evidence_of(verdict)]
    excerpt = excerpt_rows(rows, numbers)
    shown = {number for row in excerpt for number in row.numbers}
    # the parties of a session are those of the event that opened it, which may lie before the excerpt
    sessions = {row.session for row in excerpt}
    shown |= {connected.n for session, connected in cell.sessions.items() if session in sessions}
    columns = party_columns([event for event in cell.events if event.n in shown], cell.server_names)
    diagram = lay_out(excerpt, columns, cell.events)
    if not diagram.sections:
        return ""
    style = template_text("palette.css") + template_text("diagram.css") + ":root{background:var(--sheet)}"
    picture = str(draw_section(diagram, diagram.sections[0], hover_text=False))  # an excerpt is one section
    return picture.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f"><style>{style}</style>", 1
    )


def excerpt_rows(rows: Sequence[DiagramRow], numbers: Iterable[int]) -> tuple[DiagramRow, ...]:
    """Return the rows around those of the events with these numbers, with a gap row wherever at least two rows are left out.

    At most `MAX_EXCERPT_ROWS` are chosen, those around the first numbers; without any, the last rows are.
    """
    index_of = {number: index for index, row in enumerate(rows) for number in row.numbers}
    chosen = set[int]()
    for index in (index_of[number] for number in numbers if number in index_of):
        near = range(max(index - ROWS_AROUND, 0), min(index + ROWS_AROUND + 1, len(rows)))
        chosen.update(list(near)[: max(MAX_EXCERPT_ROWS - len(chosen), 0)])
    indexes = sorted(chosen) or list(range(max(len(rows) - _LAST_ROWS, 0), len(rows)))
    excerpt: list[DiagramRow] = []
    last = -1
    for index in indexes:
        excerpt += _gap_row(rows, last + 1, index)
        excerpt.append(rows[index])
        last = index
    return (*excerpt, *_gap_row(rows, last + 1, len(rows)))


def _gap_row(rows: Sequence[DiagramRow], begin: int, end: int) -> tuple[DiagramRow, ...]:
    """Return what stands for the rows from `begin` to before `end`: nothing for none, a single row itself, else a gap."""
    count = end - begin
    if count <= 0:
        return ()
    if count == 1:
        return (rows[begin],)
    return (DiagramRow(kind="gap", style="wire", numbers=(), t=rows[begin].t, text=f"… {count} rows …"),)
