"""The rules of this package as SQL text for Spark, generated from the same tables.

All texts are made of the constants of this package and of column names that the caller writes in its source.
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
"""The columns that `count_outcomes_sql` makes, and the number of cells, as tables declare them."""


def count_outcomes_sql(column: str) -> str:
    """Return the select list that counts each outcome of a group."""
    return ", ".join(f"count_if({column} = '{outcome}') AS {name}" for outcome, name in _COUNTERS.items())


def sum_counts_sql(relation: str) -> str:
    """Return the select list that adds up what `count_outcomes_sql` gave of parts of a group, as columns of `relation`."""
    return ", ".join(f"sum({relation}.{name}) AS {name}" for name in _COUNTERS.values())


def worst_outcome_sql(column: str, order: Sequence[Outcome] = OVER_CELLS) -> str:
    """Return the aggregate expression of the first outcome in `order` that a group has.

    NULL counts as a cell that was not judged. Outcomes are compared by their place in `order`, so the expression is
    one minimum.
    """
    places = " ".join(f"WHEN '{outcome}' THEN {place}" for place, outcome in enumerate(order))
    names = ", ".join(f"'{outcome}'" for outcome in order)
    return f"element_at(array({names}), min(CASE coalesce({column}, '{NOT_JUDGED}') {places} END) + 1)"


def change_kind_sql(before: str, after: str) -> str:
    """Return the expression of the kind of a change between two columns of states; NULL where nothing changed."""

    def one_of(column: str, states: frozenset[CellState]) -> str:
        return f"{column} IN ({', '.join(sorted(repr(str(state)) for state in states))})"

    lines = " ".join(
        f"WHEN {one_of(before, was)} AND {one_of(after, now)} THEN '{kind}'" for was, now, kind in TRANSITIONS
    )
    return f"CASE WHEN {before} = {after} THEN NULL {lines} ELSE '{ChangeKind.OTHER}' END"


def change_causes_sql(was: str, now: str) -> str:
    """Return the expression of what differs, joined with `+`; '' when nothing does.

    `was` and `now` are formats of column names: `{}` stands for a field of `CAUSES`.
    """
    parts = (
        "CASE WHEN "
        + " OR ".join(f"{was.format(one)} IS DISTINCT FROM {now.format(one)}" for one in fields)
        + f" THEN '{cause}' END"
        for cause, fields in CAUSES.items()
    )
    return f"concat_ws('+', {', '.join(parts)})"


COMPARED_COLUMNS = tuple(field for fields in CAUSES.values() for field in fields)
"""The columns that must be equal for two runs of a cell to be comparable."""


def outcome_for_row_sql(outcome: str, rank: str, cell: str) -> str:
    """Return the expression of `ledger.share`: what a check's outcome means for the row at `rank`, from 0."""
    return (
        f"CASE WHEN {cell} = '{Outcome.ERROR}' THEN '{Outcome.ERROR}' "
        f"WHEN {outcome} = '{Outcome.FAIL}' AND {rank} > 0 THEN '{Outcome.INCONCLUSIVE}' ELSE {outcome} END"
    )
