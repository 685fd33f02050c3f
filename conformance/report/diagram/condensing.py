"""Shortening of a diagram's rows: repeated stretches are folded, and a diagram that is still too long is cut.

Folding. Rows are alike if they have the same parties, operation and reply code, whatever their ids, addresses and sizes
are. A row is repetitive if three rows like it come before it. A stretch of at least twelve repetitive rows becomes one
band with their number, except for its last four rows, which lead to what comes next. Evidence, rows that the page links
to, steps, faults and changes of nodes are never folded.

Cutting. Of a diagram that is still longer than the limit, rows are chosen in this order until the limit is reached: the
first and last rows, rows around the evidence, faults, steps and changes of nodes, and then the others from both ends
inwards. Each stretch of several rows between chosen ones becomes one band; a single row stays.

A row is *marked* if a violation or an error rests on one of its events. A *gap row* stands for time without events. A *band*
runs across the diagram, with a text. `cell_page` calls `condense_rows`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from conformance.report.diagram.rows import DiagramRow
from conformance.report.event_text import rounded_duration

_DRAWN_ALIKE = 3
"""Rows that are alike and are drawn, before further ones count as repetitive."""
_MIN_FOLDED = 8
"""Rows of the smallest stretch that is folded."""
_DRAWN_LAST = 4
"""Rows at the end of a repetitive stretch that are drawn."""
_AROUND = 12
"""Rows before and after a marked row that are chosen next."""
_ENDS = 40
"""Rows at the beginning, and at the end, that are chosen first; fewer with a low limit."""

_NEVER_FOLDED = frozenset({"fault", "down", "node", "step"})
_CODE = re.compile(r"\d{3}(?: \d\.\d{1,3}\.\d{1,3})?(?= |$)")
_WORD_WITH_DIGIT = re.compile(r"[^\s,:/]*\d[^\s,:/]*")
"""An id, an address or a size in a row's text; rows that differ in nothing else are alike."""
_LONG_WORD_WITH_DIGIT = re.compile(r"(?=[^\s,:/]{4})[^\s,:/]*\d[^\s,:/]*")


def condense_rows(
    rows: Sequence[DiagramRow], max_rows: int = 400, linked: Collection[int] = ()
) -> tuple[DiagramRow, ...]:
    """Return rows with repetitive stretches folded; of more than `max_rows`, that many are chosen and the others cut.

    The bands and single rows between chosen ones come on top of `max_rows`. The rows of the events with the numbers in `linked`
    are not folded, so that links lead to the rows themselves; a link to a row that was cut leads to its band.
    """
    folded = tuple(_fold_repetitive(rows, frozenset(linked)))
    return folded if len(folded) <= max_rows else tuple(_cut_to(folded, max_rows))


def _fold_repetitive(rows: Sequence[DiagramRow], linked: frozenset[int]) -> Iterator[DiagramRow]:
    """Yield the rows, with each long stretch of repetitive rows as one band, followed by the last rows of the stretch.

    Rows of the events with the numbers in `linked` are not folded.
    """
    seen: Counter[object] = Counter()
    repetitive = []
    for row in rows:
        likeness = _likeness(row)
        matters = row.marked or row.style in _NEVER_FOLDED or not linked.isdisjoint(row.numbers)
        repetitive.append(not matters and seen[likeness] >= _DRAWN_ALIKE)
        seen[likeness] += 1
    for is_repetitive, pairs in groupby(zip(repetitive, rows, strict=True), key=lambda pair: pair[0]):
        stretch = [row for _, row in pairs]
        if is_repetitive and len(stretch) >= _MIN_FOLDED + _DRAWN_LAST:
            yield _band(stretch[:-_DRAWN_LAST], "{count} exchanges like those above, {span}")
            stretch = stretch[-_DRAWN_LAST:]
        yield from stretch


def _likeness(row: DiagramRow) -> object:
    """Return a value that is equal for rows that are alike."""
    if row.kind == "gap":
        return "gap"
    code = _CODE.match(row.text)
    text, operation = _WORD_WITH_DIGIT.sub("#", row.text), _LONG_WORD_WITH_DIGIT.sub("#", row.operation)
    return row.kind, row.style, row.left, row.right, code and code[0], text, operation


def _cut_to(rows: Sequence[DiagramRow], max_rows: int) -> Iterator[DiagramRow]:
    """Yield the `max_rows` rows that are chosen as the module says, and a band for each stretch between them.

    A stretch of one row is yielded as it is. `_band` fills in the number of rows and the time that a stretch takes. `inwards` has
    the indexes of the first and last row, of the second and last but one, and so on.
    """
    last = len(rows) - 1
    half = max_rows // 2
    inwards = [index for pair in zip(range(half), range(last, last - half, -1), strict=True) for index in pair]
    indexes = inwards[: min(2 * _ENDS, max_rows // 4)]
    for mark in (index for index, row in enumerate(rows) if row.marked):
        indexes += range(max(mark - _AROUND, 0), min(mark + _AROUND, last) + 1)
    indexes += [index for index, row in enumerate(rows) if row.style in _NEVER_FOLDED]
    drawn = set(list(dict.fromkeys([*indexes, *inwards]))[:max_rows])
    for is_drawn, pairs in groupby(enumerate(rows), key=lambda pair: pair[0] in drawn):
        stretch = [row for _, row in pairs]
        if is_drawn or len(stretch) == 1:
            yield from stretch
        else:
            yield _band(stretch, "{count} exchanges are not drawn here, {span}: the whole history has them")


def _band(stretch: Sequence[DiagramRow], template: str) -> DiagramRow:
    """Return the band that replaces a stretch of rows; `template` takes their `count` (without gap rows) and time `span`."""
    numbers = sorted(number for row in stretch for number in row.numbers)
    count = sum(row.kind != "gap" for row in stretch)
    duration = rounded_duration(stretch[-1].t - stretch[0].t)
    text = f"… {template.format(count=f'{count:,}', span=duration)} …"
    return DiagramRow(kind="band", style="wire", numbers=tuple(numbers), t=stretch[0].t, text=text)
