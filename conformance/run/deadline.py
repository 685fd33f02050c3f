"""The limit of real time for one cell: how long it is, and how a cell that exceeds it is ended.

Theory of operation. A thread (`Watchdog`) waits beside the event loop, in real time, whatever the loop's clock. At the limit
it has the loop cancel the cell's task (`on_timeout`), which then cleans up. Code that blocks the loop, during the cell or its
clean-up, cannot be cancelled: when the loop has not turned for GRACE_S, the thread sends a signal to the main thread, whose
handler raises LoopBlocked in the code that blocks. The thread repeats this for as long as the loop does not turn. A loop *turns*
when it makes a pass over its callbacks: then it calls `_on_turn`, which the thread has put there.
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
from conformance.scenarios.steps.action import Expect, Parallel, Repeat, Step
from conformance.scenarios.steps.sending import Resend, Send
from conformance.scenarios.steps.talking import Talk
from conformance.scenarios.steps.timing import Advance

GRACE_S = 10.0
"""Real seconds in which the loop must turn after the limit, before the code that runs on it is interrupted."""

_ALLOWANCE_S = 600.0
"""Real seconds that a cell may take beyond its steps and its drain: to start nodes, on a busy machine."""

_SESSION_S = 600.0
"""Documented seconds for one session: the timeout after the final dot, the longest of RFC 5321 4.5.3.2."""

_SIGNAL = signal.SIGRTMIN + 5
"""A signal without another use; it also ends a blocking system call (PEP 475)."""


class LoopBlocked(KeyboardInterrupt):
    """Code on the loop did not return; the text says where it was. asyncio lets a KeyboardInterrupt out of its loop."""


class Watchdog:
    """Calls `on_timeout` on the loop after `seconds` of real time, once, unless the context has been left.

    From then on, when the loop does not turn for GRACE_S, LoopBlocked is raised in the main thread; if that happens before
    `on_timeout` was called, it is not called. C code that neither returns nor handles signals goes on. A loop in
    another thread than the main one is not interrupted.

    `_turned`: the loop has turned since the thread last asked it to. `_ended`: the context was left. `_interrupted`:
    LoopBlocked was raised.
    """

    _current: "Watchdog | None" = None
    """The one of the main thread, to which the signal handler belongs."""

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop, on_timeout: Callable[[], object]) -> None:
        """Make the thread, which begins to wait for `seconds` (real time) when the context is entered."""
        self.has_timed_out = False
        """Whether `on_timeout` was called."""
        self._interrupted = False
        self._seconds = seconds
        self._loop = loop
        self._on_timeout = on_timeout
        self._turned = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cell timeout", daemon=True)
        self._in_main_thread = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> "Watchdog":
        """Begin to wait for the limit; in the main thread also install the handler of the signal."""
        if self._in_main_thread:
            Watchdog._current = self
            signal.signal(_SIGNAL, _handle_signal)  # not reset later: without a watchdog it does nothing
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread, which takes no time, and block until it has ended; an exception of the body is not suppressed."""
        if self._in_main_thread:
            Watchdog._current = None
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        """Wait for the limit; then have the loop call `_on_turn`, and every GRACE_S signal the main thread if it has not.

        Runs in the thread, until the context is left (`_ended`). Without the signals where the loop is not that of the main
        thread: then return after the limit.
        """
        if self._ended.wait(self._seconds):
            return
        self._loop.call_soon_threadsafe(self._on_turn)
        while self._in_main_thread and not self._ended.wait(GRACE_S):
            if self._turned.is_set():
                self._turned.clear()
                self._loop.call_soon_threadsafe(self._on_turn)
            else:
                signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)

    def _on_turn(self) -> None:
        """Note that the loop turns; the first time also call `on_timeout`.

        `on_timeout` is not called after blocking code was interrupted, or the context was left.
        """
        self._turned.set()
        if not self.has_timed_out and not self._interrupted and not self._ended.is_set():
            self.has_timed_out = True
            self._on_timeout()

    def interrupt(self, place: str) -> None:
        """Raise LoopBlocked, with the place in the code as its text, unless the loop has turned by now."""
        if not self._turned.is_set():
            self._interrupted = True
            raise LoopBlocked(place)


def _handle_signal(number: int, frame: FrameType | None) -> None:
    """Raise LoopBlocked in the code that the signal has interrupted, if that still blocks the loop.

    Do nothing without a current watchdog. The text of the error is the place in the code.
    """
    if Watchdog._current is None:
        return
    place = "code that cannot be seen"
    if frame is not None:
        code = frame.f_code
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        place = f"{code.co_filename}, line {frame.f_lineno}, in {code.co_name}: {line}"
    Watchdog._current.interrupt(place)


class CellTimeout(Exception):
    """A cell has exceeded its limit of real time."""


def cell_timeout(cell: Cell, settings: Settings) -> float:
    """Return how many real seconds a cell may take: `settings.cell_timeout` if it is set, else a limit computed from its steps.

    That is _ALLOWANCE_S more than the steps (`_duration`) and the drain may take on the clock; where time jumps, these take no
    time.
    """
    if settings.cell_timeout is not None:
        return settings.cell_timeout
    if CLOCKS[settings.clock].jumps:
        return _ALLOWANCE_S
    return _ALLOWANCE_S + (_duration(cell.steps) + cell.drain) / settings.scale


def _duration(steps: Iterable[Step]) -> float:
    """Return how long steps may take one after another, documented seconds; an estimate, as that of one step is."""
    return sum(_step_duration(step) for step in steps)


def _step_duration(step: Step) -> float:
    """Return how long one step may take, documented seconds; 0 for steps that need no documented time.

    That is a generous estimate and no upper bound: a `send` counts as one session for each try, however many messages it has.
    """
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
    """Cancel the body after real seconds, whatever the loop's clock, and raise CellTimeout from the context then.

    CellTimeout is also raised when the body ended before the cancellation reached it, and from an exception that its clean-up
    raises, since the body was cut short all the same. If another party has cancelled the task too, what the body raises is raised,
    which is mostly CancelledError. Code that blocks the loop of the main thread is interrupted GRACE_S later: LoopBlocked comes
    out of the loop.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    watchdog = Watchdog(seconds, loop, task.cancel)
    cancelled_before = task.cancelling()
    with watchdog:
        try:
            yield
        except (asyncio.CancelledError, Exception) as error:
            if (
                watchdog.has_timed_out and task.uncancel() <= cancelled_before
            ):  # no one but the watchdog has cancelled the task
                raise CellTimeout from error
            raise
    if watchdog.has_timed_out:  # the body ended all the same: the cancellation must not reach what follows it
        task.uncancel()
        raise CellTimeout


def describe_wait(events: Sequence[AnyEvent]) -> str:
    """Return what a cell with this history is waiting for, such as `step 3, advance (line 12), begun at 4.000 s`.

    Of several steps that have not ended, the one that began last is named. Before the first step the cell waits for the
    nodes to be ready, after the last for the drain, then for the nodes to end.
    """
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
