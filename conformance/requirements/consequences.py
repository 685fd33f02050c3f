"""What may follow from what: violated rows, ordered by the rows that they presuppose."""

from collections.abc import Collection, Iterable

from conformance.requirements.catalogue import Catalogue, catalogue
from conformance.verdicts import Outcome, Verdict


def root_violations(
    violated: Collection[str], known: Catalogue | None = None, independent: Collection[str] = ()
) -> dict[str, str]:
    """Return the root of each violated row: the violated row from which its violation may follow, or itself.

    A root presupposes no other violated row. Of several roots the first in the catalogue's order is chosen. Ids that
    the catalogue does not have are their own roots. `independent` are rows that were seen to be broken by themselves:
    they are roots, and what they presuppose may follow from them.
    """
    rows = known if known is not None else catalogue()
    order = {row.id: place for place, row in enumerate(rows.requirements)}
    before = {one: rows.prerequisites(one).intersection(violated) for one in violated}
    leading = {one: before[one] for one in independent if one in before}
    for one in frozenset().union(*leading.values()):
        before[one] = frozenset(lead for lead, presupposed in leading.items() if one in presupposed)
    before |= dict.fromkeys(leading, frozenset())

    def root(one: str) -> str:
        if not before[one]:
            return one
        own = [other for other in before[one] if not before[other]] or before[one]
        return root(min(own, key=lambda other: order[other]))

    return {one: root(one) for one in violated}


def independently_violated(
    cells: Iterable[Iterable[Verdict]], known: Catalogue | None = None
) -> dict[str, frozenset[str]]:
    """Return the rows that the verdicts of these cells of one candidate show to be broken by themselves, each with the rows
    of which they show it.

    Such a row was violated where an expectation is about it alone, while in the same cell the same expectation held where
    it is about a row that the former presupposes. The server can do what the presupposed row asks for, and does not do it
    in the case that this row adds (the default, a sender of another kind): what violates the presupposed row, or what
    presupposes that, may be the same case. A row for which that expectation held in any of the cells is left out: a server
    that does now what it did not do a moment ago would look the same.
    """
    rows = known if known is not None else catalogue()
    found: dict[tuple[str, str], frozenset[str]] = {}
    held_anywhere: set[tuple[str, str]] = set()
    for verdicts in cells:
        alone = [one for one in verdicts if one.step is not None and len(one.requirements) == 1]
        violated = {_about(one) for one in alone if one.outcome is Outcome.FAIL}
        held = {_about(one) for one in alone if one.outcome is Outcome.PASS and not one.remark} - violated
        held_anywhere |= held
        for check, row in violated:
            beside = frozenset(other for other in rows.prerequisites(row) if (check, other) in held)
            found[check, row] = found.get((check, row), frozenset()) | beside
    return {about[1]: beside for about, beside in found.items() if beside and about not in held_anywhere}


def _about(verdict: Verdict) -> tuple[str, str]:
    return verdict.check, verdict.requirements[0]
