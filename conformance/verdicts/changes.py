"""Compares the outcomes of one cell in two or more runs: the kind of a change, its possible causes, and flakiness.

A *cell* is one scenario with one value for each axis and one candidate for each server. A *remark* on a passed cell says
that a row (requirement) of the level `should` is violated. The *state* of a cell is its outcome with the remark. Pages that
compare runs use this module, and Spark the SQL that `conformance.verdicts.sql` makes of its tables.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from conformance.verdicts.outcome import Outcome

Should = Literal["warn", "fail"]
"""What a violated `should` row does: `warn` leaves a remark on a passed cell, `fail` fails the cell like a `must` row."""


class CellState(StrEnum):
    """A cell's outcome in one run; `remark` is a pass with a remark, `absent` a run without the cell."""

    PASS = "pass"  # noqa: S105  # not a password
    REMARK = "remark"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not-applicable"
    ERROR = "error"
    ABSENT = "absent"


class ChangeKind(StrEnum):
    """The kind of a change between an earlier and a later run of a cell.

    - `regression`: it passed and now fails or could not be judged; or it could not be judged and now fails
    - `new`: it was absent or not applicable and now fails
    - `fixed`: it failed or could not be judged and now passes
    - `lost`: it passed and now is absent or not applicable
    - `other`: any other change
    """

    REGRESSION = "regression"
    NEW = "new"
    FIXED = "fixed"
    LOST = "lost"
    OTHER = "other"


_PASSES = frozenset({CellState.PASS, CellState.REMARK})
_UNJUDGED = frozenset({CellState.ERROR, CellState.INCONCLUSIVE})
_NOT_RUN = frozenset({CellState.ABSENT, CellState.NOT_APPLICABLE})

TRANSITIONS: tuple[tuple[frozenset[CellState], frozenset[CellState], ChangeKind], ...] = (
    (_NOT_RUN, frozenset({CellState.FAIL}), ChangeKind.NEW),
    (_PASSES, _NOT_RUN, ChangeKind.LOST),
    (_PASSES | _UNJUDGED, frozenset({CellState.FAIL}), ChangeKind.REGRESSION),
    (_PASSES, _UNJUDGED, ChangeKind.REGRESSION),
    (_UNJUDGED | {CellState.FAIL}, _PASSES, ChangeKind.FIXED),
)
"""States before, states after, kind; the first line that matches counts. Other pairs of different states are `other`."""


def cell_state(outcome: Outcome | None, *, remark: bool = False, should: Should = "warn") -> CellState:
    """Return the state of a cell with this outcome; `absent` for None, a run without the cell.

    `remark` counts only for a pass: with `should="fail"` such a pass is a failure, else it is `remark`.
    """
    if outcome is None:
        return CellState.ABSENT
    if outcome is Outcome.PASS and remark:
        return CellState.FAIL if should == "fail" else CellState.REMARK
    return CellState(outcome.value)


def change_kind(before: CellState, after: CellState) -> ChangeKind | None:
    """Return the kind of a change from one state of a cell to a later one, None where the states are the same."""
    if before is after:
        return None
    return next(
        (kind for earlier, later, kind in TRANSITIONS if before in earlier and after in later), ChangeKind.OTHER
    )


Cause = Literal["candidate", "suite", "environment", "settings"]

CAUSES: dict[Cause, tuple[str, ...]] = {
    "candidate": ("candidate_sha256",),
    "suite": ("scenario_sha256",),
    "environment": ("environment_sha256",),
    "settings": ("seed", "clock", "scale", "tolerance", "should"),
}
"""The possible causes of a change, and the fields of a cell's header that differ when it is one."""


def change_causes(before: object, after: object) -> tuple[Cause, ...]:
    """Return the possible causes of a change, () where no field in `CAUSES` differs.

    `before` and `after` are headers of a cell, or other objects with the attributes named in `CAUSES`.
    """
    return tuple(
        cause
        for cause, fields in CAUSES.items()
        if any(getattr(before, field) != getattr(after, field) for field in fields)
    )


FLAKY = frozenset({Outcome.PASS, Outcome.FAIL})
"""A cell with each of these outcomes in comparable runs is flaky.

An inconclusive outcome or an error does not make it flaky: there the harness or the machine was at fault.
"""


def is_flaky(outcomes: Iterable[Outcome]) -> bool:
    """Return whether a cell both passed and failed, given its outcomes in runs that differ in no field of `CAUSES`."""
    return set(outcomes) >= FLAKY
