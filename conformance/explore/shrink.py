"""Reduces a plan that violates a rule to one that still does, and has as few steps, messages and recipients as possible.

Delta debugging (Zeller and Hildebrandt, 2002) over the steps: halves, then quarters, and so on down to single steps are left out
while the same check fails. Then numbers of messages become 1 and lists of recipients lose entries. A plan that leaves out too
much is invalid or sound; both count as not failing.
"""

from collections.abc import Callable, Iterator, Sequence

from conformance.explore.sweep import Plan, numbered
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Parallel, Repeat, Step
from conformance.scenarios.steps.sending import Send

MAX_RUNS = 150
"""Runs that the reduction of one plan may take, without another limit."""

StillFails = Callable[[Plan], bool]


class _Budget:
    """Counts the runs of a reduction; once `max_runs` are used up, `fails` returns False without a run."""

    def __init__(self, fails: StillFails, max_runs: int) -> None:
        """Begin to count; `fails` runs a plan and returns whether the check still fails."""
        self._fails = fails
        self._max_runs = max_runs
        self.runs = 0

    def fails(self, plan: Plan) -> bool:
        """Return whether the plan still fails; False when no run is left."""
        if self.runs >= self._max_runs:
            return False
        self.runs += 1
        return self._fails(plan)


def shrink(plan: Plan, fails: StillFails, max_runs: int = MAX_RUNS) -> Plan:
    """Return the smallest plan that was found for which `fails` holds; it must hold for `plan`.

    Blocks: each call of `fails` runs a plan, `max_runs` at the most.
    """
    budget = _Budget(fails, max_runs)
    while True:
        smaller = _with_smaller_sends(_with_fewer_steps(plan, budget), budget)
        if smaller.cell.steps == plan.cell.steps:
            return plan
        plan = smaller


def _with_fewer_steps(plan: Plan, budget: _Budget) -> Plan:
    """Return the plan without the steps that can be left out, by delta debugging."""
    steps, parts = list(_steps_of_blocks(plan.cell.steps)), 2
    while len(steps) > 1:
        size = -(-len(steps) // parts)
        for start in range(0, len(steps), size):
            candidate = _with_steps(plan, [*steps[:start], *steps[start + size :]])
            if budget.fails(candidate):
                steps = list(candidate.cell.steps)
                plan = candidate
                parts = max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(steps), parts * 2)
    return plan


def _with_smaller_sends(plan: Plan, budget: _Budget) -> Plan:
    """Return the plan with one message and one recipient in each step that sends, where that still fails."""
    for number, step in enumerate(plan.cell.steps):
        for action in _smaller_sends(step):
            steps = list(plan.cell.steps)
            steps[number] = step.model_copy(update={"action": action})
            candidate = _with_steps(plan, steps)
            if budget.fails(candidate):
                plan, step = candidate, steps[number]
    return plan


def _smaller_sends(step: Step) -> Iterator[Send]:
    """Yield versions of a step that sends one message, or to one recipient; none for a step that cannot be made smaller."""
    action = step.action
    if not isinstance(action, Send):
        return
    if action.count > 1:
        yield action.model_copy(update={"count": 1, "concurrency": 1})
    if len(action.to) > 1:
        yield from (action.model_copy(update={"to": (recipient,)}) for recipient in action.to)


def _steps_of_blocks(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps, with those of `parallel` and single `repeat` blocks in place of the block."""
    for step in steps:
        if isinstance(step.action, Parallel) or (isinstance(step.action, Repeat) and step.action.times == 1):
            yield from _steps_of_blocks(step.action.steps)
        else:
            yield step


def _with_steps(plan: Plan, steps: Sequence[Step]) -> Plan:
    """Return the plan with these steps in place of its own, numbered anew."""
    cell: Cell = plan.cell.model_copy(update={"steps": numbered(steps)})
    return Plan(name=plan.name, cell=cell, faults=plan.faults)
