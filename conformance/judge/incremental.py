"""The judge as a run asks it, while the cell is still going on: does an expectation hold by now?"""

from collections.abc import Sequence

from conformance.history.events import AnyEvent, Command, Connected, Content, FaultFired, Lag
from conformance.judge.cell import find
from conformance.judge.trace import Trace
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.blocks import Step

COMPLETES_NOTHING = (Command, Connected, Content, FaultFired, Lag)
"""Kinds of events by which no expectation comes true; what they lead to is an event of its own."""


class IncrementalJudge:
    """Judges the history of one cell as it grows; each event is taken once, however often it is asked."""

    def __init__(self) -> None:
        self._trace = Trace()

    def __call__(self, cell: Cell, step: Step, events: Sequence[AnyEvent]) -> bool:
        """Return whether the expectation holds on what has happened so far. `events` only ever grows."""
        for n in range(len(self._trace.events), len(events)):
            self._trace.add(events[n])
        if isinstance(events[-1], COMPLETES_NOTHING):
            return False
        found = find(cell, step, self._trace)
        if found is None:
            return False
        finding, _ = found
        return finding.occasions > 0 and not finding.wrong and not finding.unclear
