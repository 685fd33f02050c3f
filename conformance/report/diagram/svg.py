"""SVG of one section of a diagram: colours by CSS class, all text escaped. Positions are in CSS pixels (`layout`).

`cell_page` draws the sections of a page, `excerpt` a small picture. Every row is a group with its text as tooltip and for screen
readers. A row is *marked* if it is evidence of a violation or error. `placed` is a row with its position; `room` is the number
of characters that fit there.
"""

from collections.abc import Iterator

from markupsafe import Markup, escape

from conformance.report.diagram.layout import GUTTER, HEAD, Diagram, PlacedRow, Section
from conformance.report.diagram.rows import row_text
from conformance.report.escaping import visible
from conformance.report.event_text import format_moment
from conformance.scenarios.values import format_duration

_MAX_TITLE = 600
"""Characters of a row's tooltip."""


def draw_section(diagram: Diagram, section: Section, *, hover_text: bool = True) -> Markup:
    """Return one section as an inline `<svg>`; the Tab key reaches marked rows, and `#eNUMBER` links to a row by its first event.

    Without `hover_text` rows have no tooltip, link target and text for screen readers, which images cannot use.
    """
    width, height = f"{diagram.width:g}", f"{section.height:g}"
    parts = [
        f'<svg class="diagram" role="group" aria-label="Sequence diagram, part {section.number}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        *(
            f'<line class="life{" down" if piece.down else ""}" x1="{piece.x:g}" x2="{piece.x:g}" '
            f'y1="{piece.top:g}" y2="{piece.bottom:g}"/>'
            for piece in section.lifelines
        ),
        *(
            f'<rect class="bar" x="{bar.x - 3:g}" y="{bar.top:g}" width="6" height="{bar.bottom - bar.top:g}" rx="3">'
            f"<title>session {escape(visible(bar.session, 20))}</title></rect>"
            for bar in section.bars
        ),
        *(part for y in section.heads for part in _draw_heads(diagram, y)),
        *(_draw_row(placed, diagram.width, hover_text) for placed in section.placed),
        "</svg>",
    ]
    return Markup("".join(parts))  # noqa: S704  # every text in it went through escape()


def _draw_heads(diagram: Diagram, y: float) -> Iterator[str]:
    """Yield for each party a box with its name, cut at 18 characters, in its column; `y` is the top of the boxes."""
    for name, x in diagram.columns.items():
        label = _cut(visible(name), 18)
        half_width = max(len(label) * 4.2 + 12, 34)
        yield (
            f'<g class="party"><rect x="{x - half_width:g}" y="{y + 6:g}" width="{2 * half_width:g}" height="{HEAD - 18}" rx="6"/>'
            f'<text x="{x:g}" y="{y + HEAD / 2 + 2:g}">{escape(label)}</text></g>'
        )


def _draw_row(placed: PlacedRow, width: float, hover_text: bool) -> str:
    """Return the SVG group of a row; without `hover_text` it has no tooltip, link target or text for screen readers.

    Then only a marked row has a background.
    """
    row = placed.row
    classes = f"row {row.kind} {row.style}" + (" marked" if row.marked else "")
    parts = [_draw_background(placed, width), _draw_gutter(placed), _draw_shape(placed, width), "</g>"]
    if not hover_text:
        return "".join([f'<g class="{classes}">', *(parts if row.marked else parts[1:])])
    title = escape(_cut(("marked: " if row.marked else "") + row_text(row), _MAX_TITLE))
    anchor = f' id="e{row.numbers[0]}"' if row.numbers else ""
    return "".join(
        [
            f'<g class="{classes}"{anchor} role="img" tabindex="{0 if row.marked else -1}" aria-label="{title}">',
            f"<title>{title}</title>",
            *parts,
        ]
    )


def _draw_background(placed: PlacedRow, width: float) -> str:
    """Return the rectangle behind a row, on which the pointer finds its tooltip; the style sheet colours that of a marked row."""
    return f'<rect class="ground" x="4" y="{placed.y - 16:g}" width="{width - 8:g}" height="32" rx="5"/>'


def _draw_gutter(placed: PlacedRow) -> str:
    """Return the number and time of the row's first event, left of the row; '' for a row without events."""
    row = placed.row
    if not row.numbers:
        return ""
    sign = "✗ " if row.marked else ""
    return (
        f'<text class="number" x="64" y="{placed.y + 4:g}">{sign}#{row.numbers[0]}</text>'
        f'<text class="time" x="{GUTTER - 8}" y="{placed.y + 4:g}">{escape(_short_time(row.t))}</text>'
    )


def _short_time(t: float) -> str:
    """Return a time short enough for the gutter: from one hour on in whole seconds, from one day on in whole minutes."""
    return (
        format_moment(t) if t < 3600 else format_duration(int(t)) if t < 86400 else format_duration(int(t) // 60 * 60)
    )


def _draw_shape(placed: PlacedRow, width: float) -> str:
    """Return the arrow, note, gap or band of a row, with its text."""
    match placed.row.kind:
        case "arrow" | "fold":
            return _draw_arrow(placed)
        case "note":
            return _draw_note(placed, width)
        case "gap":
            middle = (placed.x1 + placed.x2) / 2
            return (
                f'<line class="tear" x1="{placed.x1:g}" x2="{placed.x2:g}" y1="{placed.y:g}" y2="{placed.y:g}"/>'
                f'<rect class="paper" x="{middle - 70:g}" y="{placed.y - 11:g}" width="140" height="22" rx="11"/>'
                f'<text class="middle" x="{middle:g}" y="{placed.y + 4:g}">{escape(placed.row.text)}</text>'
            )
        case "band":
            return (
                f'<rect class="strip" x="{placed.x1:g}" y="{placed.y - 11:g}" '
                f'width="{placed.x2 - placed.x1:g}" height="22" rx="4"/>'
                f'<text x="{placed.x1 + 10:g}" y="{placed.y + 4:g}">{escape(_cut(placed.row.text, placed.room))}</text>'
            )


def _draw_arrow(placed: PlacedRow) -> str:
    """Return the arrow of a row with its text above; the arrow of folded exchanges has two heads."""
    row, y = placed.row, placed.y + 7
    direction = 1 if placed.x2 >= placed.x1 else -1
    start, end = placed.x1 + 5 * direction, placed.x2 - 5 * direction
    heads = _draw_arrowhead(end, y, direction) + (_draw_arrowhead(start, y, -direction) if row.kind == "fold" else "")
    text = f"{_SIGNS.get(row.style, '')}{row.text}"
    return (
        f'<line class="shaft" x1="{start:g}" x2="{end:g}" y1="{y:g}" y2="{y:g}"/>{heads}'
        f'<text class="middle" x="{(placed.x1 + placed.x2) / 2:g}" y="{y - 6:g}">'
        f"{escape(_cut(text, placed.room))}</text>"
    )


_SIGNS = {"fault": "⚡ ", "shadow": "◆ ", "discard": "◇ ", "content": "✉ ", "refusal": "⊘ "}
"""The sign before the text of a row, so that colours are not needed to tell rows apart."""


def _draw_arrowhead(x: float, y: float, direction: int) -> str:
    """Return an arrowhead with its tip at (x, y), which points to the right for `direction` 1 and to the left for -1."""
    return f'<path class="head" d="M{x:g} {y:g}l{-8 * direction} -4v8z"/>'


def _draw_note(placed: PlacedRow, width: float) -> str:
    """Return a box with a row's text at the line of its party, moved sideways where it would leave the diagram.

    A node that went down has a skull before the text, a delivery a check mark.
    """
    text = ("☠ " if placed.row.style == "down" else "✓ " if placed.row.style == "given" else "") + placed.row.text
    label = _cut(text, placed.room)
    half_width = len(label) * 3.5 + 10
    x = min(max(placed.x1, GUTTER + half_width), width - half_width - 8)
    return (
        f'<rect class="slip" x="{x - half_width:g}" y="{placed.y - 11:g}" width="{2 * half_width:g}" height="22" rx="4"/>'
        f'<text class="middle" x="{x:g}" y="{placed.y + 4:g}">{escape(label)}</text>'
    )


def _cut(text: str, room: int) -> str:
    """Return a text of at most `room` characters, with an ellipsis where it is cut."""
    return text if len(text) <= room else text[: room - 1] + "…"
