"""The verdict of a requirement row, from the verdicts of the checks that name it."""

from collections.abc import Iterable

from conformance.verdicts.outcome import Outcome, most_telling


def share(outcome: Outcome, rank: int, cell: Outcome) -> Outcome:
    """Return what a check's outcome means for one of the rows that the check names.

    `rank` is the row's place among them, from 0; `cell` is the outcome of the whole cell. A failure is blamed on the
    first row; the others may be the reason, so they are inconclusive. A cell that ended in an error proves nothing.
    """
    if cell is Outcome.ERROR:
        return Outcome.ERROR
    return Outcome.INCONCLUSIVE if outcome is Outcome.FAIL and rank > 0 else outcome


def of_row(shares: Iterable[Outcome]) -> Outcome | None:
    """Return the verdict of a row over all cells, or None when no check named it."""
    return most_telling(shares)
