"""Plays the steps of a cell, one after another, and writes down when each began and ended."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conformance.history.events import AnyEvent, StepEvent
from conformance.run.steps.handlers import Handler
from conformance.run.world import World
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.blocks import Expect, Parallel, Repeat, Step
from conformance.scenarios.steps.nodes import Start

Holds = Callable[[Cell, Step, Sequence[AnyEvent]], bool]
"""Says whether an expectation holds on the history so far, so that a run need not wait for its bound. The judge says it
(`conformance.judge.incremental.IncrementalJudge`), not the runner."""


_BOUND_ITSELF = 0.001
"""Documented seconds: what happens at the very moment of a bound still counts."""


class Script:
    """The steps of one cell, played on one world."""

    def __init__(self, world: World, handlers: Mapping[str, Handler[Any]], holds: Holds) -> None:
        self._world = world
        self._handlers = handlers
        self._holds = holds
        self._began: dict[str, float] = {}

    async def play(self, steps: Sequence[Step]) -> None:
        """Play steps in order. An exception of a step is recorded and passes through."""
        for step in steps:
            await self._step(step)

    async def _step(self, step: Step) -> None:
        if isinstance(step.action, Expect):
            await self._expect(step, step.action)
            return
        event = self._note("began", step)
        if step.label:
            self._began[step.label] = event.t
        try:
            detail = await self._do(step)
        except Exception as error:
            self._note("failed", step, str(error))
            raise
        ended = self._note("ended", step, detail)
        if step.label and isinstance(step.action, Start):
            self._began[step.label] = ended.t
        self._world.note_lag()

    async def _do(self, step: Step) -> str:
        action = step.action
        if isinstance(action, Parallel):
            async with asyncio.TaskGroup() as group:
                for inner in action.steps:
                    group.create_task(self._step(inner), name=f"step {inner.path}")
            return ""
        if isinstance(action, Repeat):
            for _ in range(action.times):
                await self.play(action.steps)
            return ""
        return await self._handlers[step.verb](self._world, action)

    async def _expect(self, step: Step, action: Expect) -> None:
        """Note that the expectation was reached; with `within`, go on until it holds or its bound has passed, and with it
        the tolerance of the clock: what comes a little late shall be seen, and judged."""
        reached = self._note("reached", step)
        within = action.expectation.within
        if within is not None:
            since = self._began.get(action.expectation.since or "", reached.t)
            await self._wait(step, since + within + self._world.settings.tolerance + _BOUND_ITSELF)
        self._world.note_lag()  # before the end, up to which it is judged
        self._note("ended", step)

    async def _wait(self, step: Step, until: float) -> None:
        world = self._world
        news = asyncio.Event()
        forget = world.recorder.subscribe(lambda event: news.set())
        try:
            while not self._holds(world.cell, step, world.recorder.events):
                left = until - world.clock.elapsed()
                if left <= 0:
                    return
                news.clear()
                try:
                    async with asyncio.timeout(world.clock.duration(left)):
                        await news.wait()
                except TimeoutError:
                    return
        finally:
            forget()

    def _note(self, phase: str, step: Step, detail: str = "") -> StepEvent:
        return self._world.recorder.record(
            StepEvent,
            phase=phase,
            path=step.path,
            verb=step.action.verb if isinstance(step.action, Expect) else step.verb,
            line=step.line,
            label=step.label,
            detail=detail,
        )
