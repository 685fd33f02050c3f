"""What may follow from what: violated rows, ordered by the rows that they presuppose."""

from collections.abc import Collection

from conformance.requirements.catalogue import Catalogue, catalogue


def roots(violated: Collection[str], known: Catalogue | None = None, lead: str | None = None) -> dict[str, str]:
    """Return the root of each violated row: the violated row from which its violation may follow, or itself.

    A root presupposes no other violated row. Of several roots the first in the catalogue's order is chosen. Ids that
    the catalogue does not have are their own roots. `lead` is a row that was seen to be broken by itself: it is a root,
    and what it presupposes may follow from it.
    """
    rows = known if known is not None else catalogue()
    order = {row.id: place for place, row in enumerate(rows.requirements)}
    before = {one: rows.prerequisites(one).intersection(violated) for one in violated}
    if lead in before:
        for one in before[lead]:
            before[one] = frozenset({lead})
        before[lead] = frozenset()

    def root(one: str) -> str:
        if not before[one]:
            return one
        own = [other for other in before[one] if not before[other]] or before[one]
        return root(min(own, key=lambda other: order[other]))

    return {one: root(one) for one in violated}
