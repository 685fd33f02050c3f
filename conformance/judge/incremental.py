"""Judges while a cell still runs whether an expectation holds on the events so far.

This is the only way in which a run asks the judge: an expectation with `within` need not be waited for once it holds. The
run gets an `IncrementalJudge` as the function `ExpectationHolds`, and calls it in its event loop after new events.
"""

from collections.abc import Sequence

from conformance.history.events import AnyEvent, Command, Connected, Content, FaultFired, Lag
from conformance.judge.cell import find_on_events_so_far
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Step
from conformance.trace.trace import Trace

_NEVER_CONFIRMS = (Command, Connected, Content, FaultFired, Lag)
"""Types of events by which no expectation begins to hold; it may by a reply, delivery or closing that follows."""


class IncrementalJudge:
    """Judges the growing history of one cell; each event is indexed once, in `_trace`, however often the judge is called."""

    def __init__(self) -> None:
        """Begin with a history without events."""
        self._trace = Trace()

    def __call__(self, cell: Cell, step: Step, events: Sequence[AnyEvent]) -> bool:
        """Return whether the expectation `step` holds on `events`, which must begin with the events of earlier calls.

        It holds when its check had an occasion and found neither a violation nor anything undecided; its bounds `after` and
        `within` do not matter here. False before the scenario has reached the step, and when the last event is of a type that
        cannot confirm (`_NEVER_CONFIRMS`): then nothing is judged. `events` must not be empty.
        """
        for n in range(len(self._trace.events), len(events)):
            self._trace.add(events[n])
        if isinstance(events[-1], _NEVER_CONFIRMS):
            return False
        result = find_on_events_so_far(cell, step, self._trace)
        if result is None:  # the scenario has not reached the step
            return False
        finding, _ = result
        return finding.occasions > 0 and not finding.violations and not finding.undecided
