"""The rules of this package as SQL text for Spark, generated from the same tables.

Each function returns SQL made of constants of this package and of its arguments: names of columns or relations, or
expressions, that the caller writes in its source. None of them may come from data. Outcomes and states are text.
"""

from collections.abc import Sequence

from conformance.verdicts.changes import CAUSES, TRANSITIONS, CellState, ChangeKind
from conformance.verdicts.outcome import NOT_JUDGED, OVER_CELLS, Outcome

_COUNTERS = {
    Outcome.PASS: "passed",
    Outcome.FAIL: "failed",
    Outcome.INCONCLUSIVE: "inconclusive",
    Outcome.NOT_APPLICABLE: "not_applicable",
    Outcome.ERROR: "errors",
}

COUNT_COLUMNS = "cells whole, " + ", ".join(f"{name} whole" for name in _COUNTERS.values())
"""The declaration of a table's columns for the number of cells and for the counts of `count_outcomes_sql`."""


def count_outcomes_sql(column: str) -> str:
    """Return a select list with a count of each outcome in a group, named as in `COUNT_COLUMNS`; `column` has the outcomes."""
    return ", ".join(f"count_if({column} = '{outcome}') AS {name}" for outcome, name in _COUNTERS.items())


def sum_counts_sql(relation: str) -> str:
    """Return a select list that adds up the columns of `count_outcomes_sql` in a group of rows of `relation`."""
    return ", ".join(f"sum({relation}.{name}) AS {name}" for name in _COUNTERS.values())


def worst_outcome_sql(column: str, order: Sequence[Outcome] = OVER_CELLS) -> str:
    """Return an aggregate expression for the outcome in a group that comes first in `order`.

    NULL, a cell without a verdict, counts as `NOT_JUDGED`. The expression is the minimum of the outcomes' places in
    `order`, turned into the outcome at that place (`element_at` counts from 1).
    """
    places = " ".join(f"WHEN '{outcome}' THEN {place}" for place, outcome in enumerate(order))
    names = ", ".join(f"'{outcome}'" for outcome in order)
    return f"element_at(array({names}), min(CASE coalesce({column}, '{NOT_JUDGED}') {places} END) + 1)"


def change_kind_sql(before: str, after: str) -> str:
    """Return an expression for the kind of a change between two states (`changes.change_kind`), NULL where they are equal."""

    def is_one_of(column: str, states: frozenset[CellState]) -> str:
        """Return an expression for whether a column has one of the states."""
        return f"{column} IN ({', '.join(sorted(repr(str(state)) for state in states))})"

    lines = " ".join(
        f"WHEN {is_one_of(before, earlier)} AND {is_one_of(after, later)} THEN '{kind}'"
        for earlier, later, kind in TRANSITIONS
    )
    return f"CASE WHEN {before} = {after} THEN NULL {lines} ELSE '{ChangeKind.OTHER}' END"


def change_causes_sql(before: str, after: str) -> str:
    """Return an expression for the causes of a change (`changes.change_causes`), joined with `+`; '' for none.

    `before` and `after` are format strings of columns: `{}` stands for a field of `CAUSES`, as in `"o.before_{}"`.
    """
    parts = (
        "CASE WHEN "
        + " OR ".join(f"{before.format(field)} IS DISTINCT FROM {after.format(field)}" for field in fields)
        + f" THEN '{cause}' END"
        for cause, fields in CAUSES.items()
    )
    return f"concat_ws('+', {', '.join(parts)})"


COMPARED_COLUMNS = tuple(field for fields in CAUSES.values() for field in fields)
"""The columns with the fields of `CAUSES`: two runs of a cell are comparable when these are equal."""


def outcome_for_row_sql(outcome: str, rank: str, cell: str) -> str:
    """Return an expression for `outcome.outcome_for_row`; the arguments are expressions for its arguments.

    `outcome` is the verdict's, `rank` the row's place in it, `cell` the cell's outcome.
    """
    return (
        f"CASE WHEN {cell} = '{Outcome.ERROR}' THEN '{Outcome.ERROR}' "
        f"WHEN {outcome} = '{Outcome.FAIL}' AND {rank} > 0 THEN '{Outcome.INCONCLUSIVE}' ELSE {outcome} END"
    )
