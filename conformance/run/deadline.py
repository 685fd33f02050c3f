"""The real time that one cell may take: its bound, and what ends it there. A watch on real time beside the loop rings
on it, and interrupts code that keeps it from turning.
"""

import asyncio
import linecache
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from types import FrameType, TracebackType

from conformance.clocks import CLOCKS
from conformance.history.events import AnyEvent, Drained, StepEvent
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.blocks import Expect, Parallel, Repeat, Step
from conformance.scenarios.steps.sending import Resend, Send
from conformance.scenarios.steps.talking import Talk
from conformance.scenarios.steps.timing import Advance

GRACE_S = 10.0
"""Real seconds that the loop has to turn once more before the code that runs on it is interrupted, again and again."""
_SIGNAL = signal.SIGRTMIN + 5
"""A signal that nothing else uses: it ends a blocking call of the operating system, too (PEP 475)."""


class LoopBlocked(KeyboardInterrupt):
    """Code on the loop did not return; says where it was. A KeyboardInterrupt, which asyncio lets out of its loop."""


class Watch:
    """Calls `ring` on the loop after so many real seconds, once.

    From then on, where the loop does not turn for GRACE_S, LoopBlocked is raised in the code that runs in the main thread;
    `ring` is not called any more. Code in C that neither returns nor looks for signals goes on all the same.
    """

    _current: "Watch | None" = None
    """The one of the main thread."""

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> None:
        self.rung = False
        self._interrupted = False
        self._seconds = seconds
        self._loop = loop
        self._ring = ring
        self._turned = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="cell timeout", daemon=True)
        self._main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> "Watch":
        if self._main:
            Watch._current = self
            signal.signal(_SIGNAL, _interrupt)  # it stays: without a watch it does nothing
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Watch._current = None if self._main else Watch._current
        self._ended.set()
        self._thread.join()

    def _wait(self) -> None:
        if self._ended.wait(self._seconds):
            return
        self._loop.call_soon_threadsafe(self._turn)
        while self._main and not self._ended.wait(GRACE_S):
            if self._turned.is_set():
                self._turned.clear()
                self._loop.call_soon_threadsafe(self._turn)
            else:
                signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)

    def _turn(self) -> None:
        """Note that the loop turns, and ring, unless what blocked it was interrupted, which tells the end already."""
        self._turned.set()
        if not self.rung and not self._interrupted and not self._ended.is_set():
            self.rung = True
            self._ring()

    def interrupt(self, where: str) -> None:
        """Raise LoopBlocked unless the loop has turned by now."""
        if not self._turned.is_set():
            self._interrupted = True
            raise LoopBlocked(where)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise LoopBlocked where the loop is blocked, in the code that blocks it."""
    if Watch._current is None:
        return
    where = "code that cannot be seen"
    if frame is not None:
        code = frame.f_code
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        where = f"{code.co_filename}, line {frame.f_lineno}, in {code.co_name}: {line}"
    Watch._current.interrupt(where)


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
