"""Whether waiting on can still do an expectation any good: what the run asks while it waits."""

from collections.abc import Sequence

from conformance.history.events import AnyEvent, Command, Connected
from conformance.judge.cell import find
from conformance.scenarios.document import Cell
from conformance.scenarios.steps import Step


def settled(cell: Cell, step: Step, events: Sequence[AnyEvent]) -> bool:
    """Return whether the expectation holds on what has happened so far."""
    if isinstance(events[-1], Command | Connected):
        return False  # neither completes anything that is expected, and the next event comes at once
    found = find(cell, step, events)
    return found is not None and found[0].occasions > 0 and not found[0].wrong
