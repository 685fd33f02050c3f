"""Where everything of a diagram stands: pure geometry, in CSS pixels, no colour and no markup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from conformance.history.events import AnyEvent, NodeEvent
from conformance.report.diagram.rows import DiagramRow

GUTTER = 144
"""Pixels left of the first column, for number and time."""
HEAD = 46
CHARACTER = 7.0
"""Pixels of one character of the wire's text."""

_MARGIN = 56
_WIDTH, _NARROWEST, _WIDEST = 850, 220, 340
_HEIGHTS = {"arrow": 34, "fold": 34, "note": 34, "band": 30, "gap": 36}
_ROWS = 80
"""Rows of a section."""
_NAMED = 20
"""After so many rows the parties are named again: nobody scrolls back to see who is who."""
_DOWN = frozenset({"killed", "stopped", "exited", "failed"})
_UP = frozenset({"started", "ready"})


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """A row at its place: `y` is its middle, `x1` to `x2` where its line runs (or its note hangs), `room` in
    characters."""

    row: DiagramRow
    y: float
    x1: float
    x2: float
    room: int


@dataclass(frozen=True, slots=True)
class SessionBar:
    """A session, seen on a party's line: from its first to its last row in the section."""

    session: str
    x: float
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class LifelinePiece:
    """A piece of a party's line; `down` while its node was."""

    x: float
    top: float
    bottom: float
    down: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of the diagram that is drawn, and left out by browsers, as one; the parties' names stand at `heads`."""

    number: int
    height: float
    heads: tuple[float, ...]
    placed: tuple[PlacedRow, ...]
    bars: tuple[SessionBar, ...]
    lives: tuple[LifelinePiece, ...]

    @property
    def marked(self) -> bool:
        """Whether a violation points into it."""
        return any(placed.row.marked for placed in self.placed)


@dataclass(frozen=True, slots=True)
class Diagram:
    """The whole of it: the columns' names and middles, and the sections one below the other."""

    columns: Mapping[str, float]
    width: float
    sections: tuple[Section, ...]


def lay_out(rows: Sequence[DiagramRow], names: Sequence[str], events: Sequence[AnyEvent]) -> Diagram:
    """Place the rows under the columns, cut into sections of equal numbers of rows."""
    between = max(_NARROWEST, min(_WIDEST, _WIDTH / max(len(names) - 1, 1)))
    columns = {name: GUTTER + _MARGIN + index * between for index, name in enumerate(names)}
    width = GUTTER + _MARGIN + max(len(names) - 1, 0) * between + 2 * _MARGIN
    changes = tuple(
        (e.n, e.node, e.action in _DOWN) for e in events if isinstance(e, NodeEvent) and e.action in _DOWN | _UP
    )
    down: set[str] = set()
    sections = []
    for number, start in enumerate(range(0, len(rows), _ROWS), start=1):
        placed, heads, height = _placed(rows[start : start + _ROWS], columns, width)
        lives, down = _lives(placed, height, columns, changes, down)
        sections.append(Section(number, height, heads, placed, _bars(placed, columns), lives))
    return Diagram(columns, width, tuple(sections))


def _placed(
    rows: Sequence[DiagramRow], columns: Mapping[str, float], width: float
) -> tuple[tuple[PlacedRow, ...], tuple[float, ...], float]:
    y: float = 0
    found, heads = [], []
    for place, row in enumerate(rows):
        if place % _NAMED == 0 and (place == 0 or place < len(rows) - _NAMED // 2):
            heads.append(y)
            y += HEAD
        height = _HEIGHTS[row.kind]
        x1, x2 = _ends(row, columns, width)
        room = abs(x2 - x1) - 24 if row.kind in ("arrow", "fold") else width - GUTTER - 60 if row.left is None else 210
        found.append(PlacedRow(row, y + height / 2, x1, x2, max(int(room / CHARACTER), 8)))
        y += height
    return tuple(found), tuple(heads), y + 16


def _ends(row: DiagramRow, columns: Mapping[str, float], width: float) -> tuple[float, float]:
    if row.left is None or row.left not in columns:
        return GUTTER, width - 20
    x1 = columns[row.left]
    x2 = columns.get(row.right, x1) if row.right is not None else x1
    return x1, x2 + 60 if row.right is not None and x1 == x2 else x2


def _bars(placed: Sequence[PlacedRow], columns: Mapping[str, float]) -> tuple[SessionBar, ...]:
    spans: dict[tuple[str, str], tuple[float, float]] = {}
    for one in placed:
        if one.row.session is None or one.row.kind not in ("arrow", "fold"):
            continue
        for party in (one.row.left, one.row.right):
            if party is not None and party in columns:
                top, _ = spans.get((one.row.session, party), (one.y, one.y))
                spans[one.row.session, party] = (top, one.y)
    ends: dict[str, list[float]] = {}
    bars = []
    for (session, party), (top, bottom) in spans.items():
        lanes = ends.setdefault(party, [])
        lane = next((place for place, end in enumerate(lanes) if end < top), len(lanes))
        lanes[lane : lane + 1] = [bottom]
        bars.append(SessionBar(session, columns[party] + min(lane, 3) * 4, top - 6, bottom + 6))
    return tuple(bars)


def _lives(
    placed: Sequence[PlacedRow],
    height: float,
    columns: Mapping[str, float],
    changes: Sequence[tuple[int, str, bool]],
    down: set[str],
) -> tuple[tuple[LifelinePiece, ...], set[str]]:
    at = {number: one.y for one in placed for number in one.row.numbers}
    lives: list[LifelinePiece] = []
    after = set(down)
    for name, x in columns.items():
        points = [(HEAD - 12.0, name in down)]
        points += [(at[number], goes) for number, node, goes in changes if node == name and number in at]
        for (top, is_down), (bottom, _) in pairwise([*points, (height, False)]):
            lives.append(LifelinePiece(x, top, bottom, is_down))
        (after.add if points[-1][1] else after.discard)(name)
    return tuple(lives), after
