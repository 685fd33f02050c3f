"""Runs the steps of a cell, one after another, and records when each began and ended.

`conformance.run.cell` makes a `StepRunner` when the nodes of the cell are ready. An *expectation* is a step that acts on
nothing: it states what must have happened by then. The *handler* of a step verb is the function that performs such steps. A
step may have a *label*, to which the `since` of a later expectation refers: its `within` counts from that step.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conformance.history.events import AnyEvent, StepEvent
from conformance.run.steps.handlers import Handler
from conformance.run.world import World
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Expect, Parallel, Repeat, Step
from conformance.scenarios.steps.nodes import Start

ExpectationHolds = Callable[[Cell, Step, Sequence[AnyEvent]], bool]
"""Returns whether an expectation holds on the history so far, so that the run need not wait for its deadline.

The judge decides that (`conformance.judge.incremental.IncrementalJudge`), not the runner.
"""

_DEADLINE_EPSILON_S = 0.001
"""Documented seconds: what happens exactly at a deadline still counts."""


class StepRunner:
    """Runs steps in one world. `handlers` has a function for each step verb.

    The `since` of an expectation is the label of an earlier step: `within` is counted from the time that `_began` has for that
    step; without `since`, from when the expectation is reached. `_holds` asks the judge whether an expectation holds on the
    events so far.
    """

    def __init__(self, world: World, handlers: Mapping[str, Handler[Any]], holds: ExpectationHolds) -> None:
        self._world = world
        self._handlers = handlers
        self._holds = holds
        self._began: dict[str, float] = {}
        """When each labelled step began; of a `start` step, when its nodes were ready. Documented seconds."""

    async def run(self, steps: Sequence[Step]) -> None:
        """Run steps in their order. An exception of a step is recorded and raised; later steps are not run then.

        What the judge raises for an expectation is raised without a record.
        """
        for step in steps:
            await self._run_step(step)

    async def _run_step(self, step: Step) -> None:
        """Run one step; record its beginning and its end, and then the lag, or its beginning and its failure.

        Keep in `_began` when a labelled step began; of a `start` step, when it ended. Raises what the handler of the step raises.
        An expectation is left to `_run_expect`.
        """
        if isinstance(step.action, Expect):
            await self._run_expect(step, step.action)
            return
        event = self._record("began", step)
        if step.label:
            self._began[step.label] = event.t
        try:
            detail = await self._perform(step)
        except Exception as error:
            self._record("failed", step, str(error))
            raise
        ended = self._record("ended", step, detail)
        if step.label and isinstance(step.action, Start):
            self._began[step.label] = ended.t
        self._world.lag.record()

    async def _perform(self, step: Step) -> str:
        """Perform the action of a step that is no expectation; return the detail to record, or "".

        The inner steps of a `parallel` run at the same time: when one fails, the others are cancelled, and the exceptions are raised
        as a group. Those of a `repeat` run one after another, several times. Any other step is performed by its handler.
        """
        action = step.action
        if isinstance(action, Parallel):
            async with asyncio.TaskGroup() as group:
                for inner in action.steps:
                    group.create_task(self._run_step(inner), name=f"step {inner.path}")
            return ""
        if isinstance(action, Repeat):
            for _ in range(action.times):
                await self.run(action.steps)
            return ""
        return await self._handlers[step.verb](self._world, action)

    async def _run_expect(self, step: Step, action: Expect) -> None:
        """Record that the expectation was reached, and its end; with `within`, wait in between until it holds.

        `within` counts from the step labelled `since` if that has begun, else from now. The wait ends at the latest when that time and the
        tolerance of the clock have passed, so that what comes a little late is recorded. Whether the expectation held is not
        recorded: the judge finds out later. Also record the lag.
        """
        reached = self._record("reached", step)
        within = action.expectation.within
        if within is not None:
            since = self._began.get(action.expectation.since or "", reached.t)
            await self._wait_until_holds(step, since + within + self._world.settings.tolerance + _DEADLINE_EPSILON_S)
        self._world.lag.record()  # before the end of the step, up to which lag counts for it
        self._record("ended", step)

    async def _wait_until_holds(self, step: Step, until: float) -> None:
        """Wait until the expectation of a step holds, at most until `until`, a time of the clock in documented seconds.

        Ask the judge (`_holds`) now, and again whenever events were recorded. Return without a wait if `until` has passed.
        """
        world = self._world
        recorded = asyncio.Event()
        unsubscribe = world.recorder.subscribe(lambda event: recorded.set())
        try:
            while not self._holds(world.cell, step, world.recorder.events):
                remaining = until - world.clock.elapsed()
                if remaining <= 0:
                    return
                recorded.clear()
                try:
                    async with asyncio.timeout(world.clock.duration(remaining)):
                        await recorded.wait()
                except TimeoutError:
                    return
        finally:
            unsubscribe()

    def _record(self, phase: str, step: Step, detail: str = "") -> StepEvent:
        """Record that a step has reached a phase (`began`, `ended`, `failed` or `reached`), and return the event."""
        return self._world.recorder.record(
            StepEvent,
            phase=phase,
            path=step.path,
            verb=step.action.verb if isinstance(step.action, Expect) else step.verb,
            line=step.line,
            label=step.label,
            detail=detail,
        )
