"""Root causes: which violated requirements of a run explain the others.

A requirement (a row of the catalogue) may presuppose others: a shadow copy cannot be discarded in time if it was never
made. So a server with one mistake may violate many rows, and a list of all violations hides the mistake.

1. Each failed cell is counted for one row: the first requirement of the first failed verdict that has one (`_violated_row`).
   Known failures (those that the candidate's baseline lists) are not counted.
2. The root of each such row is found among the rows that it presupposes (`root_violations`). Only a row that at least as
   many cells violate counts as violated there: what breaks a prerequisite breaks it more often than not.
3. The other way round for rows that a cell shows to be violated on their own (`independently_violated`): these are roots,
   and the rows that they presuppose may follow from them.
4. The cells of all rows with one root are added up. For each candidate, root causes are ordered by that number; of equal
   ones the first is that whose row fewer cells judged, since a larger part of its cells violates it.

This is a heuristic for reading, so reports say "may follow from". It changes no verdict.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.report.run_summary import CellSummary
from conformance.requirements.consequences import independently_violated, root_violations
from conformance.verdicts import Outcome


@dataclass(frozen=True, slots=True)
class RootCause:
    """A violated row of one candidate from which the violations of other rows may follow (steps 2 and 3 of the module).

    `cells` counts the failed cells of this row and of the rows in `following`: violated rows that may follow from it, those
    with the most cells first.
    """

    candidate: str
    requirement: str
    cells: int
    following: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """One line: `SR-CRE-01 is violated (90 cells); 25 rows may follow from SR-CRE-01: SR-CRE-02, ...`."""
        cells = "1 cell" if self.cells == 1 else f"{self.cells} cells"
        line = f"{self.requirement} is violated ({cells})"
        if not self.following:
            return line
        rows = "1 row" if len(self.following) == 1 else f"{len(self.following)} rows"
        return f"{line}; {rows} may follow from {self.requirement}: {', '.join(self.following)}"


def blamed_requirement(cell: CellSummary) -> str:
    """Return the first requirement of the first verdict that has the cell's outcome and a requirement; '' without one."""
    deciding = (verdict for verdict in cell.verdicts if verdict.outcome is cell.outcome)
    return next((verdict.requirements[0] for verdict in deciding if verdict.requirements), "")


def _violated_row(cell: CellSummary) -> str:
    """Return the row that a failed cell violates; '' for other cells and for a known failure."""
    return blamed_requirement(cell) if cell.outcome is Outcome.FAIL and not cell.known else ""


def find_root_causes(cells: Sequence[CellSummary]) -> tuple[RootCause, ...]:
    """Return the root causes of the violations in these cells, by candidate, those with the most cells first.

    Candidates are in the order of their first cells. Only failed cells that are not known are counted. Which rows were violated
    on their own is decided by all cells except known failures; the order of equal numbers by all that passed or failed.
    """
    root_causes: list[RootCause] = []
    for candidate in dict.fromkeys(cell.header.candidate for cell in cells):
        candidate_cells = [cell for cell in cells if cell.header.candidate == candidate]
        violations = Counter(row for row in map(_violated_row, candidate_cells) if row)
        independent = independently_violated(cell.verdicts for cell in candidate_cells if not cell.known)
        root = {row: _root_of(row, violations, independent) for row in violations}
        cells_of_root = Counter[str]()
        for row, number in violations.items():
            cells_of_root[root[row]] += number
        judged = Counter(row for cell in candidate_cells for row in _judged_rows(cell))
        for row, number in sorted(cells_of_root.items(), key=lambda pair: (-pair[1], judged[pair[0]], pair[0])):
            following = [other for other, _ in violations.most_common() if root[other] == row and other != row]
            root_causes.append(RootCause(candidate, requirement=row, cells=number, following=tuple(following)))
    return tuple(root_causes)


def _judged_rows(cell: CellSummary) -> frozenset[str]:
    """Return the rows that a cell judged: its scenario's and the violated one; none unless the cell passed or failed."""
    decided = cell.outcome in (Outcome.PASS, Outcome.FAIL)
    return frozenset((*cell.header.requirements, *filter(None, [_violated_row(cell)]))) if decided else frozenset()


def _root_of(row: str, violations: Counter[str], independent: Mapping[str, frozenset[str]]) -> str:
    """Return the root of a violated row among the rows that at least as many cells violate (see the module's steps).

    `violations` counts the failed cells of each row. `independent` has the rows that are roots in any case, each with
    the rows that it presupposes.
    """
    violated = {other for other in violations if violations[other] >= violations[row]}
    return root_violations(violated.union(independent, *independent.values()), independent=independent)[row]


def order_by_root_cause(
    cells: Sequence[CellSummary], root_causes: Sequence[RootCause]
) -> list[tuple[CellSummary, str]]:
    """Return the cells in the order of `root_causes`, each with the row that its violation may follow from, or ''.

    Cells that violate the root cause itself come before those that may follow from it. Cells without a violation and
    known failures come last, in their order.
    """
    ranks = {
        (cause.candidate, row): (number, row != cause.requirement)
        for number, cause in enumerate(root_causes)
        for row in (cause.requirement, *cause.following)
    }
    last = (len(root_causes), False)

    def rank(cell: CellSummary) -> tuple[int, bool]:
        """Return the sort key of a cell: the index of its root cause, and whether it only may follow from it."""
        return ranks.get((cell.header.candidate, _violated_row(cell)), last)

    return [(cell, root_causes[rank(cell)[0]].requirement if rank(cell)[1] else "") for cell in sorted(cells, key=rank)]
