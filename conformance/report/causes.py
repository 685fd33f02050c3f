"""What a run's violations come from: the rows that are violated, each with those that may follow from it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.report.book import Entry
from conformance.requirements.consequences import roots
from conformance.verdicts import Outcome


@dataclass(frozen=True, slots=True)
class Cause:
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


def blamed(cell: Entry) -> str:
    """Return the row that a cell is put under: the first of the first verdict that decided it, or '' when there is none."""
    decided = (one for one in cell.verdicts if one.outcome is cell.outcome)
    return next((one.requirements[0] for one in decided if one.requirements), "")


def _violated(cell: Entry) -> str:
    """Return the row that a new violation in a cell is blamed on, or ''."""
    return blamed(cell) if cell.outcome is Outcome.FAIL and not cell.known else ""


def causes(cells: Sequence[Entry]) -> tuple[Cause, ...]:
    """Return the causes of the violations in these cells, for each candidate the one with the most cells first.

    A cell leads to the root of the row that its first violation is blamed on. A row follows from one that it
    presupposes if that is blamed in as many cells at least: what breaks a prerequisite breaks it more often than not.
    What is known to fail is left out.
    """
    found: list[Cause] = []
    for candidate in dict.fromkeys(cell.header.candidate for cell in cells):
        rows = [_violated(cell) for cell in cells if cell.header.candidate == candidate]
        counted = Counter(row for row in rows if row)
        root = {row: roots([other for other in counted if counted[other] >= counted[row]])[row] for row in counted}
        whole = Counter[str]()
        for row, number in counted.items():
            whole[root[row]] += number
        for requirement, number in sorted(whole.items(), key=lambda pair: (-pair[1], pair[0])):
            following = [row for row, _ in counted.most_common() if root[row] == requirement and row != requirement]
            found.append(Cause(candidate, requirement, number, tuple(following)))
    return tuple(found)


def ordered(cells: Sequence[Entry], found: Sequence[Cause]) -> list[tuple[Entry, str]]:
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

    def rank(cell: Entry) -> tuple[int, bool]:
        return place.get((cell.header.candidate, _violated(cell)), last)

    return [(cell, found[rank(cell)[0]].requirement if rank(cell)[1] else "") for cell in sorted(cells, key=rank)]
