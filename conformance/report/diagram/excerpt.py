"""An excerpt."""

from collections.abc import Iterable, Sequence

from conformance.report.cell_view import CellView
from conformance.report.diagram.layout import lay_out
from conformance.report.diagram.rows import DiagramRow, diagram_rows, party_columns
from conformance.report.diagram.svg import draw_section
from conformance.report.rendering import template_text

ROWS_AROUND = 4
"""Rows that are kept before and after one that the verdict points at."""
MAX_EXCERPT_ROWS = 40
"""Rows of an excerpt, not counted those that say how many were left out."""
_END = 20
"""Rows of an excerpt when a verdict points at nothing: the last ones."""


def excerpt_svg(cell: CellView) -> str:
    """Return the SVG document: the rows around the decisive evidence, in their order, the end of the cell without any.

    '' for a cell without events.
    """
    rows = diagram_rows(cell)
    kept = excerpt_rows(rows, _pointed_at(cell))
    shown = party_columns([cell.event_by_number[n] for row in kept for n in row.numbers], cell.server_names)
    diagram = lay_out(kept, shown, cell.events)
    if not diagram.sections:
        return ""
    style = template_text("palette.css") + template_text("diagram.css") + ":root{background:var(--sheet)}"
    picture = str(draw_section(diagram, diagram.sections[0], words=False))  # so few rows are one section
    return picture.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f"><style>{style}</style>", 1
    )


def excerpt_rows(rows: Sequence[DiagramRow], numbers: Iterable[int]) -> tuple[DiagramRow, ...]:
    """Return the rows around those of these events, the first ones when they are many, with a gap where some are left
    out.
    """
    place_of = {number: place for place, row in enumerate(rows) for number in row.numbers}
    chosen = set[int]()
    for place in (place_of[number] for number in numbers if number in place_of):
        near = range(max(place - ROWS_AROUND, 0), min(place + ROWS_AROUND + 1, len(rows)))
        chosen.update(list(near)[: max(MAX_EXCERPT_ROWS - len(chosen), 0)])
    places = sorted(chosen) or list(range(max(len(rows) - _END, 0), len(rows)))
    kept: list[DiagramRow] = []
    last = -1
    for place in places:
        kept += _left_out(rows, last + 1, place)
        kept.append(rows[place])
        last = place
    return (*kept, *_left_out(rows, last + 1, len(rows)))


def _left_out(rows: Sequence[DiagramRow], begin: int, end: int) -> tuple[DiagramRow, ...]:
    count = end - begin
    if count <= 0:
        return ()
    return (rows[begin],) if count == 1 else (DiagramRow("gap", "wire", (), rows[begin].t, f"… {count} rows …"),)


def _pointed_at(cell: CellView) -> list[int]:
    return [number for verdict in cell.findings for number in cell.evidence_of(verdict)]
