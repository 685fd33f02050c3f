"""Positions of everything in a diagram, in CSS pixels: no colours, no markup.

Each party has a column. The rows are cut into sections of 80 rows, since browsers draw a section only when it is scrolled
into view. Within a section, `y` grows downward from 0: every twenty rows the parties' names are repeated as heads, and
each kind of row has a fixed height. A session is a bar on the lines of its two parties; bars of sessions that overlap at
one party are shifted by some pixels. A party's line consists of pieces, which show whether its node was down. `cell_page` and
`excerpt` call `lay_out`. `columns` maps each party to the middle of its column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from conformance.history.events import AnyEvent, NodeEvent
from conformance.report.diagram.rows import DiagramRow

GUTTER = 144
"""Width left of the first column, for number and time."""
HEAD = 46
"""Height of the parties' names."""
CHARACTER = 7.0
"""Width of one character of monospaced text."""

_MARGIN = 56
_COLUMNS_WIDTH, _MIN_COLUMN, _MAX_COLUMN = 850, 220, 340
"""The wanted width of all columns together, and limits of the distance between two columns."""
_HEIGHTS = {"arrow": 34, "fold": 34, "note": 34, "band": 30, "gap": 36}
_SECTION_ROWS = 80
_HEAD_INTERVAL = 20
"""Rows after which the parties' names are repeated."""
_DOWN = frozenset({"killed", "stopped", "exited", "failed"})
_UP = frozenset({"started", "ready"})


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A row with its position.

    `y` is its middle, `x1` and `x2` are the ends of its line, `room` is the number of characters of text that fit. A note
    is centred at `x1`.
    """

    row: DiagramRow
    y: float
    x1: float
    x2: float
    room: int


@dataclass(frozen=True, slots=True)
class SessionBar:
    """A session on a party's line, from its first to its last row in the section."""

    session: str
    x: float
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class LifelinePiece:
    """A piece of a party's line; `down` says whether its node was down."""

    x: float
    top: float
    bottom: float
    down: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the diagram that browsers draw or skip as a whole; `heads` are the tops of the parties' names."""

    number: int
    height: float
    heads: tuple[float, ...]
    placed: tuple[PlacedRow, ...]
    bars: tuple[SessionBar, ...]
    lifelines: tuple[LifelinePiece, ...]

    @property
    def marked(self) -> bool:
        """Whether a row of the section is evidence of a violation or error."""
        return any(placed.row.marked for placed in self.placed)


@dataclass(frozen=True, slots=True)
class Diagram:
    """A whole diagram: the middle of each party's column, the width, and the sections from top to bottom."""

    columns: Mapping[str, float]
    width: float
    sections: tuple[Section, ...]


def lay_out(rows: Sequence[DiagramRow], names: Sequence[str], events: Sequence[AnyEvent]) -> Diagram:
    """Return the diagram of these rows, with a column for each party in `names`, in this order.

    `events` are those of the whole cell, and tell when nodes were down. Without rows the diagram has no sections.
    """
    distance = max(_MIN_COLUMN, min(_MAX_COLUMN, _COLUMNS_WIDTH / max(len(names) - 1, 1)))
    columns = {name: GUTTER + _MARGIN + index * distance for index, name in enumerate(names)}
    width = GUTTER + _MARGIN + max(len(names) - 1, 0) * distance + 2 * _MARGIN
    changes = tuple(
        (e.n, e.node, e.action in _DOWN) for e in events if isinstance(e, NodeEvent) and e.action in _DOWN | _UP
    )
    down: set[str] = set()
    sections = []
    for number, start in enumerate(range(0, len(rows), _SECTION_ROWS), start=1):
        placed, heads, height = _place_rows(rows[start : start + _SECTION_ROWS], columns, width)
        lifelines, down = _lifeline_pieces(placed, height, columns, changes, down)
        sections.append(
            Section(
                number=number,
                height=height,
                heads=heads,
                placed=placed,
                bars=_session_bars(placed, columns),
                lifelines=lifelines,
            )
        )
    return Diagram(columns, width, tuple(sections))


def _place_rows(
    rows: Sequence[DiagramRow], columns: Mapping[str, float], width: float
) -> tuple[tuple[PlacedRow, ...], tuple[float, ...], float]:
    """Return the rows of one section with their positions, the tops of the heads, and the section's height.

    A head that at most ten rows would follow is left out, except for the first.
    """
    y: float = 0
    placed, heads = [], []
    for index, row in enumerate(rows):
        if index % _HEAD_INTERVAL == 0 and (index == 0 or index < len(rows) - _HEAD_INTERVAL // 2):
            heads.append(y)
            y += HEAD
        height = _HEIGHTS[row.kind]
        x1, x2 = _line_ends(row, columns, width)
        # Between the heads of an arrow; across the diagram; at one party.
        room = abs(x2 - x1) - 24 if row.kind in ("arrow", "fold") else width - GUTTER - 60 if row.left is None else 210
        placed.append(PlacedRow(row, y=y + height / 2, x1=x1, x2=x2, room=max(int(room / CHARACTER), 8)))
        y += height
    return tuple(placed), tuple(heads), y + 16


def _line_ends(row: DiagramRow, columns: Mapping[str, float], width: float) -> tuple[float, float]:
    """Return where a row's line begins and ends; a row of one party with itself gets a short line to the right.

    So does one to a party without a column. A row without parties, or from a party without a column, runs across the diagram; a
    note has no line, and both ends are its party's column.
    """
    if row.left is None or row.left not in columns:
        return GUTTER, width - 20
    x1 = columns[row.left]
    x2 = columns.get(row.right, x1) if row.right is not None else x1
    return x1, x2 + 60 if row.right is not None and x1 == x2 else x2


def _session_bars(placed: Sequence[PlacedRow], columns: Mapping[str, float]) -> tuple[SessionBar, ...]:
    """Return a bar for each session of one section and each of its parties.

    Bars that overlap at a party are side by side; a fifth one and further ones lie on the fourth.
    """
    spans: dict[tuple[str, str], tuple[float, float]] = {}
    for placed_row in placed:
        row = placed_row.row
        if row.session is None or row.kind not in ("arrow", "fold"):
            continue
        for party in (row.left, row.right):
            if party is not None and party in columns:
                top, _ = spans.get((row.session, party), (placed_row.y, placed_row.y))
                spans[row.session, party] = (top, placed_row.y)
    lane_ends: dict[str, list[float]] = {}  # party -> where the last bar ends in each of its lanes, 4 pixels apart
    bars = []
    for (session, party), (top, bottom) in spans.items():
        lanes = lane_ends.setdefault(party, [])
        lane = next((number for number, end in enumerate(lanes) if end < top), len(lanes))
        lanes[lane : lane + 1] = [bottom]
        x = columns[party] + min(lane, 3) * 4
        bars.append(SessionBar(session, x=x, top=top - 6, bottom=bottom + 6))
    return tuple(bars)


def _lifeline_pieces(
    placed: Sequence[PlacedRow],
    height: float,
    columns: Mapping[str, float],
    changes: Sequence[tuple[int, str, bool]],
    down: set[str],
) -> tuple[tuple[LifelinePiece, ...], set[str]]:
    """Return the pieces of the parties' lines in one section, and the parties that are down at its end.

    `changes` are (event number, node, whether it goes down); `down` has the parties that are down at the section's start.
    """
    y_of = {number: placed_row.y for placed_row in placed for number in placed_row.row.numbers}
    pieces: list[LifelinePiece] = []
    down_after = set(down)
    for name, x in columns.items():
        points = [(HEAD - 12.0, name in down)]  # below the box with the name
        points += [(y_of[number], goes_down) for number, node, goes_down in changes if node == name and number in y_of]
        for (top, is_down), (bottom, _) in pairwise([*points, (height, False)]):
            pieces.append(LifelinePiece(x, top, bottom, down=is_down))
        (down_after.add if points[-1][1] else down_after.discard)(name)
    return tuple(pieces), down_after
