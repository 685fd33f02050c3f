"""What the trials of a defect blame."""

from collections.abc import Iterable

from conformance.defects.plan import PlannedTrial
from conformance.defects.trial import run_trial


def is_blamed(row: str, planned: Iterable[PlannedTrial]) -> bool:
    """Return whether a trial of a defect blames the row; no trial is run after the first that does."""
    return any(blame.requirement == row for one in planned for blame in run_trial(one, seed=1).blames)
