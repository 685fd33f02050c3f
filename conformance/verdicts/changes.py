"""What changed between two runs of a cell: the kind of the change, what may have caused it, and whether it is flaky."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from conformance.verdicts.outcome import Outcome

Should = Literal["warn", "fail"]
"""What a violated `should` row does: `warn` leaves a remark on a passed cell, `fail` fails the cell like a `must` row."""


class CellState(StrEnum):
    """How a cell stands in a run: its outcome, `remark` for a pass with a remark, `absent` when the run lacks it."""

    PASS = "pass"  # noqa: S105  # not a password
    REMARK = "remark"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not-applicable"
    ERROR = "error"
    ABSENT = "absent"


class ChangeKind(StrEnum):
    """What a change is to a reader.

    - `regression`: a cell that passed fails or cannot be judged; or a cell that was judged otherwise now fails
    - `new`: a cell fails that was not there, or did not apply
    - `fixed`: a cell passes that did not
    - `lost`: a cell that passed is not there, or does not apply
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
"""States before, states after, kind: the first line that fits holds. Any other pair of different states is `other`."""


def cell_state(outcome: Outcome | None, *, remark: bool = False, should: Should = "warn") -> CellState:
    """Return the state of a cell; None stands for a cell that the run lacks.

    A pass with a remark counts as a failure where a broken `should` is to fail.
    """
    if outcome is None:
        return CellState.ABSENT
    if outcome is Outcome.PASS and remark:
        return CellState.FAIL if should == "fail" else CellState.REMARK
    return CellState(outcome.value)


def change_kind(before: CellState, after: CellState) -> ChangeKind | None:
    """Return the kind of a change, or None where nothing changed."""
    if before is after:
        return None
    return next((kind for was, now, kind in TRANSITIONS if before in was and after in now), ChangeKind.OTHER)


Cause = Literal["candidate", "suite", "environment", "settings"]

CAUSES: dict[Cause, tuple[str, ...]] = {
    "candidate": ("candidate_sha256",),
    "suite": ("scenario_sha256",),
    "environment": ("environment_sha256",),
    "settings": ("seed", "clock", "scale", "tolerance", "should"),
}
"""The fields of a cell's header that tell causes of a change apart."""


def change_causes(was: object, now: object) -> tuple[Cause, ...]:
    """Return what differs between two runs of one cell; nothing when nothing that is recorded differs.

    `was` and `now` have the attributes that `CAUSES` names, as the headers of cells do.
    """
    return tuple(
        cause for cause, fields in CAUSES.items() if any(getattr(was, one) != getattr(now, one) for one in fields)
    )


FLAKY = frozenset({Outcome.PASS, Outcome.FAIL})
"""A cell is flaky when it ended in each of these although no field in `CAUSES` differed.

An inconclusive outcome or an error does not make a cell flaky: it says that the harness or the machine was at fault.
"""


def is_flaky(outcomes: Iterable[Outcome]) -> bool:
    """Say whether a cell is flaky, from its outcomes in runs that differ in nothing recorded."""
    return set(outcomes) >= FLAKY
