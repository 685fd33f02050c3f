"""What may follow from what: violated rows, ordered by the rows that they presuppose."""

from collections.abc import Collection

from conformance.requirements.catalogue import Catalogue, catalogue


def roots(violated: Collection[str], known: Catalogue | None = None) -> dict[str, str]:
    """Return the root of each violated row: the violated row from which its violation may follow, or itself.

    A root presupposes no other violated row. Of several roots the first in the catalogue's order is chosen. Ids that
    the catalogue does not have are their own roots.
    """
    rows = known if known is not None else catalogue()
    order = {row.id: place for place, row in enumerate(rows.requirements)}
    broken = {one: rows.prerequisites(one).intersection(violated) for one in violated}
    return {
        one: min((other for other in broken[one] if not broken[other]), key=lambda other: order[other], default=one)
        for one in violated
    }
