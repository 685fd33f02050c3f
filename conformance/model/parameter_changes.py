"""Which values a transport parameter may have had between two events, while it was perhaps being changed.

A change takes effect at any time between its offer, the begin of the step `configure`, and the server's answer. One that was
made while the server was down takes effect where it is recorded, immediately before the start at which the server reads it.
`Facts` makes one `ParameterChanges` for each history. `n` is an event's number; `after_n` and `before_n` are two events.
"""

from collections import defaultdict
from collections.abc import Sequence
from heapq import merge
from typing import NamedTuple

from pydantic import JsonValue

from conformance.history.events import Configured, StepEvent
from conformance.trace.context import CheckContext
from conformance.trace.parameters import DEFAULTS, parameter_at


class ParameterRange(NamedTuple):
    """The least and the greatest number that a parameter may have been: documented seconds, or a count."""

    least: float
    greatest: float


class ParameterChanges:
    """The accepted changes of each server's parameters.

    `_first` has the value from the start by server and parameter, `_changes` each accepted change: the number of the event with which
    it was offered, that of the server's answer, and the new value.
    """

    def __init__(self, context: CheckContext) -> None:
        """Collect the accepted changes, each with the step `configure` in which it was offered."""
        self._context = context
        self._first: dict[tuple[str, str], JsonValue] = {}
        self._changes: dict[tuple[str, str], list[tuple[int, int, JsonValue]]] = defaultdict(list)
        steps: list[StepEvent | Configured] = [e for e in context.trace.events_of(StepEvent) if e.verb == "configure"]
        open_steps: dict[str, int] = {}  # the begin of each step that has not ended, by its path
        answered: dict[str, int] = {}  # the last answer of each server: an offer before that was of another step
        for event in merge(steps, context.trace.events_of(Configured), key=lambda event: event.n):
            if isinstance(event, StepEvent):
                if event.phase == "began":
                    open_steps[event.path] = event.n
                else:
                    open_steps.pop(event.path, None)
                continue
            began = [n for n in open_steps.values() if n > answered.get(event.node, -1)]
            offered_n = min(began, default=event.n)
            answered[event.node] = event.n
            if event.refused is None:
                for name, value in event.changes.items():
                    self._changes[event.node, name].append((offered_n, event.n, value))

    def accepted(self, server: str, name: str) -> Sequence[tuple[int, int, JsonValue]]:
        """Return the accepted changes of a parameter, in order: the number of the offer's event, of the answer's, the new value.

        `listeners.NAME` names the limits of a receive connector; the new value has those that change.
        """
        return self._changes.get((server, name), ())

    def possible_values(self, server: str, name: str, after_n: int, before_n: int) -> list[JsonValue]:
        """Return each value that a parameter may have had between two events, oldest first; more than one if it was changed then.

        A change counts as possible from its offer to the server's answer. Both events are included.
        """
        if (server, name) not in self._first:
            self._first[server, name] = parameter_at(self._context, server, name, -1)
        values, value = [], self._first[server, name]
        for offered_n, answered_n, changed in self._changes.get((server, name), ()):
            if offered_n > before_n:
                break
            if answered_n >= after_n:
                values.append(value)
            value = changed
        return [*values, value]

    def possible_range(self, server: str, name: str, after_n: int, before_n: int) -> ParameterRange:
        """Return the least and the greatest number that a parameter may have been between two events, both included.

        The documented default takes the place of a value that is not a number: the server should have refused that value.
        """
        values = self.possible_values(server, name, after_n, before_n)
        numbers = [
            value if isinstance(value, int | float) and not isinstance(value, bool) else DEFAULTS[name]
            for value in values
        ]
        numeric = [float(number) for number in numbers if isinstance(number, int | float)]
        return ParameterRange(least=min(numeric), greatest=max(numeric))
