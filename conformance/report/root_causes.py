"""Root causes of a run's violations: the violated rows that presuppose no other violated row."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.report.run_summary import CellSummary
from conformance.requirements.consequences import independently_violated, root_violations
from conformance.verdicts import Outcome


@dataclass(frozen=True, slots=True)
class RootCause:
    """A violated row of one candidate that presupposes no other violated one.

    `cells` counts the cells that lead to it, `following` names the violated rows that may follow from it, those with
    the most cells first.
    """

    candidate: str
    requirement: str
    cells: int
    following: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The cause in one line: `SR-CRE-01 is violated (90 cells); 25 rows may follow from it: ...`."""
        cells = "1 cell" if self.cells == 1 else f"{self.cells} cells"
        line = f"{self.requirement} is violated ({cells})"
        if not self.following:
            return line
        rows = "1 row" if len(self.following) == 1 else f"{len(self.following)} rows"
        return f"{line}; {rows} may follow from {self.requirement}: {', '.join(self.following)}"


def blamed_requirement(cell: CellSummary) -> str:
    """Return the row that a cell is put under: the first of the first verdict that decided it, or '' when there is none."""
    decided = (one for one in cell.verdicts if one.outcome is cell.outcome)
    return next((one.requirements[0] for one in decided if one.requirements), "")


def _violated(cell: CellSummary) -> str:
    """Return the row that a new violation in a cell is blamed on, or ''."""
    return blamed_requirement(cell) if cell.outcome is Outcome.FAIL and not cell.known else ""


def find_root_causes(cells: Sequence[CellSummary]) -> tuple[RootCause, ...]:
    """Return the causes of the violations in these cells, for each candidate the one with the most cells first; of those
    with equally many the one whose row fewer cells judge, of which it was thus violated in the larger part.

    A cell leads to the root of the row that its first violation is blamed on. A row follows from one that it
    presupposes if that is blamed in as many cells at least: what breaks a prerequisite breaks it more often than not.
    Where a cell shows that a row is broken by itself, it is the other way round: what it presupposes may follow from it.
    What is known to fail is left out.
    """
    found: list[RootCause] = []
    for candidate in dict.fromkeys(cell.header.candidate for cell in cells):
        own = [cell for cell in cells if cell.header.candidate == candidate]
        counted = Counter(row for row in map(_violated, own) if row)
        leading = independently_violated(cell.verdicts for cell in own if not cell.known)
        root = {row: _root(row, counted, leading) for row in counted}
        whole = Counter[str]()
        for row, number in counted.items():
            whole[root[row]] += number
        judged = Counter(row for cell in own for row in _judged(cell))
        for requirement, number in sorted(whole.items(), key=lambda pair: (-pair[1], judged[pair[0]], pair[0])):
            following = [row for row, _ in counted.most_common() if root[row] == requirement and row != requirement]
            found.append(RootCause(candidate, requirement, number, tuple(following)))
    return tuple(found)


def _judged(cell: CellSummary) -> frozenset[str]:
    """Return the rows that a cell was decided on: its scenario's, and that on which it is blamed."""
    decided = cell.outcome in (Outcome.PASS, Outcome.FAIL)
    return frozenset((*cell.header.requirements, *filter(None, [_violated(cell)]))) if decided else frozenset()


def _root(row: str, counted: Counter[str], leading: Mapping[str, frozenset[str]]) -> str:
    violated = {other for other in counted if counted[other] >= counted[row]}
    return root_violations(violated.union(leading, *leading.values()), independent=leading)[row]


def order_by_root_cause(cells: Sequence[CellSummary], found: Sequence[RootCause]) -> list[tuple[CellSummary, str]]:
    """Return the cells with the row that their violation may follow from ('' where there is none).

    Those of a cause stand together, its own first and then what may follow from it; causes are in the order of
    `found`. Cells that are not violations, or are known to be, come last, in their order.
    """
    place = {
        (cause.candidate, row): (number, row != cause.requirement)
        for number, cause in enumerate(found)
        for row in (cause.requirement, *cause.following)
    }
    last = (len(found), False)

    def rank(cell: CellSummary) -> tuple[int, bool]:
        return place.get((cell.header.candidate, _violated(cell)), last)

    return [(cell, found[rank(cell)[0]].requirement if rank(cell)[1] else "") for cell in sorted(cells, key=rank)]
