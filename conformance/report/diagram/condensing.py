"""Stretches of a diagram that say nothing new, folded to one row each before anything is drawn.

A row is uneventful when three like it stand above: the same parties, the same meaning, the same reply code, whatever the
ids, addresses and sizes are. What a violation points at, steps, faults and nodes' starts and ends are never folded. A
history that is longer even so is drawn where it matters: around its marks, at its beginning and at its end.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from conformance.report.diagram.rows import DiagramRow
from conformance.report.event_text import rounded_duration

_ENOUGH = 3
"""So many rows that are alike are drawn before others like them are uneventful."""
_LEAST = 8
"""Rows of a stretch that is worth folding."""
_BEFORE = 4
"""Rows at the end of a stretch that are drawn: they lead to what matters again."""
_AROUND = 12
"""Rows before and after a mark that are always drawn."""
_ENDS = 40
"""Rows at the beginning, and at the end, of a diagram that is too long; more where there is room."""

_ALWAYS = frozenset({"fault", "down", "node", "step"})
_CODE = re.compile(r"\d{3}(?: \d\.\d{1,3}\.\d{1,3})?(?= |$)")
_OWN = re.compile(r"[^\s,:/]*\d[^\s,:/]*")
"""What is a row's own: a word with a digit in it. In what it means, only one that is longer than a small number."""
_ID = re.compile(r"(?=[^\s,:/]{4})[^\s,:/]*\d[^\s,:/]*")


def condense_rows(rows: Sequence[DiagramRow], most: int = 400, shown: Collection[int] = ()) -> tuple[DiagramRow, ...]:
    """Return rows with their uneventful stretches folded, and of those the `most` that matter most.

    `shown` are numbers of events that something links to: their rows are not folded for being like others.
    """
    folded = tuple(_folded(rows, frozenset(shown)))
    return folded if len(folded) <= most else tuple(_shortened(folded, most))


def _folded(rows: Sequence[DiagramRow], shown: frozenset[int]) -> Iterator[DiagramRow]:
    seen: Counter[object] = Counter()
    uneventful = []
    for row in rows:
        like = _like(row)
        matters = row.marked or row.style in _ALWAYS or not shown.isdisjoint(row.numbers)
        uneventful.append(not matters and seen[like] >= _ENOUGH)
        seen[like] += 1
    for quiet, pairs in groupby(zip(uneventful, rows, strict=True), key=lambda pair: pair[0]):
        stretch = [row for _, row in pairs]
        if quiet and len(stretch) >= _LEAST + _BEFORE:
            yield _one(stretch[:-_BEFORE], "{count} exchanges like those above, {span}")
            stretch = stretch[-_BEFORE:]
        yield from stretch


def _like(row: DiagramRow) -> object:
    """Return what uneventful rows have in common."""
    if row.kind == "gap":
        return "gap"
    code = _CODE.match(row.text)
    return row.kind, row.style, row.left, row.right, code and code[0], _OWN.sub("#", row.text), _ID.sub("#", row.means)


def _shortened(rows: Sequence[DiagramRow], most: int) -> Iterator[DiagramRow]:
    """Yield the rows that matter most, and one for each stretch between them."""
    last = len(rows) - 1
    inwards = [
        place for pair in zip(range(most // 2), range(last, last - most // 2, -1), strict=True) for place in pair
    ]
    places = inwards[: min(2 * _ENDS, most // 4)]
    for mark in (place for place, row in enumerate(rows) if row.marked):
        places += range(max(mark - _AROUND, 0), min(mark + _AROUND, last) + 1)
    places += [place for place, row in enumerate(rows) if row.style in _ALWAYS]
    drawn = set(list(dict.fromkeys([*places, *inwards]))[:most])
    for is_drawn, pairs in groupby(enumerate(rows), key=lambda pair: pair[0] in drawn):
        stretch = [row for _, row in pairs]
        if is_drawn or len(stretch) == 1:
            yield from stretch
        else:
            yield _one(stretch, "{count} exchanges are not drawn here, {span}: the whole history has them")


def _one(stretch: Sequence[DiagramRow], words: str) -> DiagramRow:
    """Return the row that stands for a stretch of rows."""
    numbers = sorted(number for row in stretch for number in row.numbers)
    count = sum(row.kind != "gap" for row in stretch)
    lasted = rounded_duration(stretch[-1].t - stretch[0].t)
    text = f"… {words.format(count=f'{count:,}', span=lasted)} …"
    return DiagramRow("band", "wire", tuple(numbers), stretch[0].t, text)
