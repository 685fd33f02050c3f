"""The part of a cell's diagram around what its verdict points at, as one small SVG file that needs no page."""

from collections.abc import Iterable, Sequence

from conformance.report.diagram.layout import laid_out
from conformance.report.diagram.rows import Row, parties, rows_of
from conformance.report.diagram.svg import drawn
from conformance.report.html import asset
from conformance.report.material import Material

AROUND = 4
"""Rows that are kept before and after one that the verdict points at."""
MOST = 40
"""Rows of an excerpt, not counted those that say how many were left out."""
_END = 20
"""Rows of an excerpt when a verdict points at nothing: the last ones."""


def excerpt_svg(material: Material) -> str:
    """Return the SVG document: the rows around the decisive evidence, in their order, the end of the cell without any.

    '' for a cell without events.
    """
    rows = rows_of(material)
    kept = kept_rows(rows, _pointed_at(material))
    shown = parties([material.by_number[n] for row in kept for n in row.numbers], material.servers)
    diagram = laid_out(kept, shown, material.events)
    if not diagram.sections:
        return ""
    style = asset("palette.css") + asset("diagram.css") + ":root{background:var(--sheet)}"
    picture = str(drawn(diagram, diagram.sections[0], words=False))  # so few rows are one section
    return picture.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f"><style>{style}</style>", 1
    )


def kept_rows(rows: Sequence[Row], numbers: Iterable[int]) -> tuple[Row, ...]:
    """Return the rows around those of these events, the first ones when they are many, with a gap where some are left
    out.
    """
    place_of = {number: place for place, row in enumerate(rows) for number in row.numbers}
    chosen = set[int]()
    for place in (place_of[number] for number in numbers if number in place_of):
        near = range(max(place - AROUND, 0), min(place + AROUND + 1, len(rows)))
        chosen.update(list(near)[: max(MOST - len(chosen), 0)])
    places = sorted(chosen) or list(range(max(len(rows) - _END, 0), len(rows)))
    kept: list[Row] = []
    last = -1
    for place in places:
        kept += _left_out(rows, last + 1, place)
        kept.append(rows[place])
        last = place
    return (*kept, *_left_out(rows, last + 1, len(rows)))


def _left_out(rows: Sequence[Row], begin: int, end: int) -> tuple[Row, ...]:
    count = end - begin
    if count <= 0:
        return ()
    return (rows[begin],) if count == 1 else (Row("gap", "wire", (), rows[begin].t, f"… {count} rows …"),)


def _pointed_at(material: Material) -> list[int]:
    return [number for verdict in material.findings for number in material.evidence(verdict)]
