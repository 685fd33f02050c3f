"""Which violated rows of the catalogue may be mere consequences of other violated rows, which reports then show first.

A row that presupposes another cannot hold, or cannot be seen to hold, while the other is violated. So each violated row
gets a root: a violated row that it presupposes, directly or through others, and that presupposes no violated row itself.
An exception are rows that were violated independently: their violation does not follow from what they presuppose, and the
order is turned round.
"""

from collections.abc import Collection, Iterable

from conformance.requirements.catalogue import Catalogue, catalogue
from conformance.verdicts import Outcome, Verdict


def root_violations(
    violated: Collection[str], known: Catalogue | None = None, independent: Collection[str] = ()
) -> dict[str, str]:
    """Return the root of each violated row: the violated row from which its violation may follow, or itself.

    Of several roots the first in the order of the catalogue `known` (None: the package's) is chosen. Ids that it does not
    have are their own roots. `independent` are violated rows that were violated independently: they are roots, and the
    violated rows that they presuppose may follow from them.
    """
    rows = known if known is not None else catalogue()
    order = {row.id: position for position, row in enumerate(rows.requirements)}
    causes = {row: rows.prerequisites(row).intersection(violated) for row in violated}
    # An independent row becomes the cause of what it presupposes, which has no other causes then.
    presupposed = {row: causes[row] for row in independent if row in causes}
    for row in frozenset().union(*presupposed.values()):
        causes[row] = frozenset(lead for lead, below in presupposed.items() if row in below)
    causes |= dict.fromkeys(presupposed, frozenset())

    def root_of(row: str) -> str:
        """Return the root of a violated row: follow the first of its causes that have no cause, or else the first of all."""
        if not causes[row]:
            return row
        # After the turn a cause may have causes itself, which are followed.
        candidates = [cause for cause in causes[row] if not causes[cause]] or causes[row]
        return root_of(min(candidates, key=lambda cause: order[cause]))

    return {row: root_of(row) for row in violated}


def independently_violated(
    cells: Iterable[Iterable[Verdict]], known: Catalogue | None = None
) -> dict[str, frozenset[str]]:
    """Return the rows that the verdicts of one candidate's cells show to be violated independently.

    The result has, for each such row, the rows that it presupposes and that were seen to hold. A row counts where an expectation about it
    alone failed, while in the same cell the same kind of expectation passed for a row that it presupposes: the server can
    do what that row asks for, and does not in the case that this row adds (a default, another kind of sender). Its
    violation explains violations of the presupposed row, which may be about the same case. A row for which that kind of
    expectation passed in any cell is left out: a server whose behaviour changed in between would look the same.
    """
    rows = known if known is not None else catalogue()
    found: dict[tuple[str, str], frozenset[str]] = {}
    passed_anywhere: set[tuple[str, str]] = set()
    for verdicts in cells:
        # Only verdicts of expectations have a step.
        single = [verdict for verdict in verdicts if verdict.step is not None and len(verdict.requirements) == 1]
        failed = {_check_and_row(verdict) for verdict in single if verdict.outcome is Outcome.FAIL}
        # A pass with a remark has a violated `should` row.
        clean = (verdict for verdict in single if verdict.outcome is Outcome.PASS and not verdict.remark)
        passed = set(map(_check_and_row, clean)) - failed
        passed_anywhere |= passed
        for check, row in failed:
            held = frozenset(other for other in rows.prerequisites(row) if (check, other) in passed)
            found[check, row] = found.get((check, row), frozenset()) | held
    violated: dict[str, frozenset[str]] = {}
    for (check, row), held in found.items():
        if held and (check, row) not in passed_anywhere:
            violated[row] = violated.get(row, frozenset()) | held  # of each check that shows it
    return violated


def _check_and_row(verdict: Verdict) -> tuple[str, str]:
    """Return the check of a verdict and the one requirement that it is about."""
    return verdict.check, verdict.requirements[0]
