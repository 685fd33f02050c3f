"""The real time that one cell may take: its bound, and what ends it there."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from conformance.clocks import CLOCKS
from conformance.history.events import AnyEvent, Drained, StepEvent
from conformance.run.settings import Settings
from conformance.run.watch import Watch
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.blocks import Expect, Parallel, Repeat, Step
from conformance.scenarios.steps.sending import Resend, Send
from conformance.scenarios.steps.talking import Talk
from conformance.scenarios.steps.timing import Advance

_ALLOWANCE_S = 600.0
"""Real seconds above what a cell's own steps and drain take: for starting nodes, and for a busy machine."""
_SESSION_S = 600.0
"""Documented seconds for one session: the longest timeout of RFC 5321 4.5.3.2, that after the final dot."""


class CellTimeout(Exception):
    """A cell used up its real time."""


def cell_timeout(cell: Cell, settings: Settings) -> float:
    """Return the real seconds that a cell may take: `settings.cell_timeout`, or by default 10 minutes more than its
    steps and its drain take on the clock. Where time jumps they take none."""
    if settings.cell_timeout is not None:
        return settings.cell_timeout
    if CLOCKS[settings.clock].jumps:
        return _ALLOWANCE_S
    return _ALLOWANCE_S + (_duration(cell.steps) + cell.drain) / settings.scale


def _duration(steps: Iterable[Step]) -> float:
    """Return an upper bound of what steps take, documented seconds."""
    return sum(_step_duration(step) for step in steps)


def _step_duration(step: Step) -> float:
    match step.action:
        case Advance(by=by):
            return by
        case Expect(expectation=expectation):
            return expectation.within or 0.0
        case Parallel(steps=inner):
            return _duration(inner)
        case Repeat(times=times, steps=inner):
            return times * _duration(inner)
        case Send(retry=retry):
            return _SESSION_S if retry is None else _SESSION_S + retry.times * (retry.every + _SESSION_S)
        case Talk(lines=lines):
            return _SESSION_S + sum(line.wait or 0.0 for line in lines)
        case Resend():
            return _SESSION_S
        case _:
            return 0.0


@asynccontextmanager
async def real_deadline(seconds: float) -> AsyncIterator[None]:
    """Cancel the body after so many seconds of real time, whatever the loop's clock, and raise CellTimeout then.

    Where the loop does not turn, since code on it blocks, that code is interrupted: LoopBlocked comes out of the loop.
    That needs the main thread: a loop of another thread is left to itself.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    watch = Watch(seconds, loop, task.cancel)
    cancelled_before = task.cancelling()
    with watch:
        try:
            yield
        except asyncio.CancelledError:
            if watch.rung and task.uncancel() <= cancelled_before:
                raise CellTimeout from None
            raise
    if watch.rung:  # the body ended all the same: the cancellation must not strike what follows
        task.uncancel()
        raise CellTimeout


def awaited(events: Sequence[AnyEvent]) -> str:
    """Return what a cell that was stopped was waiting for, from its history."""
    open_steps: dict[str, StepEvent] = {}
    for event in events:
        match event:
            case StepEvent(phase="began" | "reached"):
                open_steps[event.path] = event
            case StepEvent():
                open_steps.pop(event.path, None)
            case Drained():
                return "the nodes to end"
    if open_steps:
        step = list(open_steps.values())[-1]
        return f"step {step.path}, {step.verb} (line {step.line}), begun at {step.t:.3f} s"
    if any(isinstance(event, StepEvent) for event in events):
        return "the drain after the last step: every accepted message to arrive or to be reported"
    return "the nodes to be ready"
