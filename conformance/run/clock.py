"""One interface to time, four clocks behind it, and what runs a cell on one of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Literal, Protocol, TypeVar, cast

from conformance.run.settings import ClockName
from conformance.run.shifted.loop import ShiftedClockEventLoop
from conformance.run.shifted.program import ShiftedProgram
from conformance.run.virtual.errors import ClockError, waiting
from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.run.virtual.seams import left_open
from conformance.run.watch import LoopBlocked

T = TypeVar("T")

EPOCH = 1893456000.0
"""The virtual clock's first moment, POSIX seconds: 2030-01-01T00:00:00Z, so that stamps repeat too."""

_BEAT = 0.02
"""Real seconds between two looks at how late the harness runs."""

_IN_TIME = 0.005
"""Real seconds by which a beat may be late on a machine that has nothing else to do: these are not counted."""

_FAREWELL = 10
"""Turns of the loop that sockets being closed, and what serves them, get to notice: asyncio needs two, TLS a few."""

_REAL_FAREWELL = 100
"""Beats that they get in real time, where the other end of a socket may be a process that has to be given a core."""

_INTERRUPTIONS = 20
"""So often code that blocks the loop is interrupted while a cell is cleaned up: each node may do so."""


def _nothing() -> None:
    """Keep nothing."""


class Leftovers(RuntimeError):
    """A cell ended and left tasks or connections behind. They have been cancelled and aborted."""


class Clock(Protocol):
    """Time in a cell. *Documented* seconds are those of the documents: a 2-minute heartbeat is 120 of them."""

    @property
    def name(self) -> ClockName:
        """Which clock."""
        ...

    @property
    def scale(self) -> float:
        """What documented durations are divided by; 1 on the virtual and the real clock."""
        ...

    def now(self) -> float:
        """Return the moment for stamps, POSIX seconds."""
        ...

    def elapsed(self) -> float:
        """Return the documented seconds since the cell began."""
        ...

    def duration(self, seconds: float) -> float:
        """Return what a documented duration is for a node's configuration and for the loop, seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let documented seconds pass."""
        ...

    def lag(self) -> float:
        """Return by how much the harness itself ran late since this was last asked, in all, documented seconds."""
        ...

    def why_late(self) -> str:
        """Return who kept the harness from being in time since this was last asked, where that is known; '' else."""
        ...

    def progress(self) -> None:
        """Say that something happened: a virtual clock that runs on without any says Runaway."""
        ...

    def keep(self, flush: Callable[[], None]) -> None:
        """Have `flush` called after each `progress`: at once, or before virtual time jumps and the loop really waits."""
        ...

    def program(self, directory: Path) -> ShiftedProgram | None:
        """Return what moves the clock of a node that is a program, None where nothing has to. Raises CannotShift."""
        ...

    def guarded(self) -> AbstractAsyncContextManager[None]:
        """Cancel the body and raise ClockError from the context when time cannot go on; the innermost first."""
        ...


class VirtualClock:
    """The clock of a VirtualClockEventLoop: as exact as its floats, and never late."""

    name: Literal["virtual", "shifted"] = "virtual"
    scale = 1.0

    def __init__(self, loop: VirtualClockEventLoop) -> None:
        self._loop = loop
        self._began = loop.time()

    def now(self) -> float:
        """See Clock."""
        return EPOCH + self.elapsed()

    def elapsed(self) -> float:
        """See Clock."""
        return self._loop.time() - self._began

    def duration(self, seconds: float) -> float:
        """See Clock."""
        return seconds

    async def sleep(self, seconds: float) -> None:
        """See Clock."""
        await asyncio.sleep(seconds)

    def lag(self) -> float:
        """See Clock."""
        return 0.0

    def why_late(self) -> str:
        """See Clock."""
        return ""

    def program(self, directory: Path) -> ShiftedProgram | None:
        """See Clock."""
        return None

    def progress(self) -> None:
        """See Clock."""
        self._loop.progress()

    def keep(self, flush: Callable[[], None]) -> None:
        """See Clock."""
        self._loop.before_waiting = flush

    @asynccontextmanager
    async def guarded(self) -> AsyncIterator[None]:
        """See Clock; works as asyncio.timeout does."""
        task = asyncio.current_task()
        assert task is not None
        told: list[ClockError] = []

        def tell(error: ClockError) -> None:
            told.append(error)
            task.cancel()

        cancelled_before = task.cancelling()
        try:
            with self._loop.guard(tell):
                yield
        except asyncio.CancelledError:
            if told and task.uncancel() <= cancelled_before:
                raise told[0] from None
            raise
        if told:  # told, and all the same the body came to its end: the cancellation must not strike what follows
            task.uncancel()
            raise told[0]


class ShiftedClock(VirtualClock):
    """The clock of a ShiftedClockEventLoop: that of the machine, and of its programs, moved on when all is quiet."""

    name = "shifted"

    def __init__(self, loop: ShiftedClockEventLoop) -> None:
        super().__init__(loop)
        self._shifted = loop
        self._flush: Callable[[], None] = _nothing

    def now(self) -> float:
        """See Clock; the machine's own and the offset, which the nodes see too."""
        return time.time() + self._shifted.offset

    def lag(self) -> float:
        """See Clock."""
        return self._shifted.lateness()

    def why_late(self) -> str:
        """See Clock."""
        return self._shifted.why_late()

    def progress(self) -> None:
        """See Clock."""
        super().progress()
        self._flush()

    def keep(self, flush: Callable[[], None]) -> None:
        """See Clock; the machine's time passes all the while."""
        self._flush = flush

    def program(self, directory: Path) -> ShiftedProgram | None:
        """See Clock."""
        return self._shifted.program(directory)


class ScaledClock:
    """Real time in which every documented duration is divided by `scale`; it measures how late the loop runs."""

    name: Literal["scaled", "real"] = "scaled"

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float) -> None:
        """Begin to measure. Raises ValueError unless `scale` is above 0."""
        if not scale > 0:
            raise ValueError(f"a clock cannot be scaled by {scale}")
        self.scale = scale
        self._loop = loop
        self._began = loop.time()
        self._late = 0.0
        self._due = self._began
        self._flush: Callable[[], None] = _nothing
        self._beat()

    def now(self) -> float:
        """See Clock; the machine's own, since foreign nodes stamp with it too."""
        return time.time()

    def elapsed(self) -> float:
        """See Clock."""
        return (self._loop.time() - self._began) * self.scale

    def duration(self, seconds: float) -> float:
        """See Clock."""
        return seconds / self.scale

    async def sleep(self, seconds: float) -> None:
        """See Clock."""
        await asyncio.sleep(seconds / self.scale)

    def lag(self) -> float:
        """See Clock; a beat that is overdue right now counts."""
        overdue = max(self._loop.time() - self._due, 0.0)
        late = self._late + (overdue if overdue > _IN_TIME else 0.0)
        self._late = 0.0
        return late * self.scale

    def why_late(self) -> str:
        """See Clock; nobody in particular."""
        return ""

    def progress(self) -> None:
        """See Clock."""
        self._flush()

    def keep(self, flush: Callable[[], None]) -> None:
        """See Clock."""
        self._flush = flush

    def program(self, directory: Path) -> ShiftedProgram | None:
        """See Clock; a scaled node is told so by its configuration."""
        return None

    def guarded(self) -> AbstractAsyncContextManager[None]:
        """See Clock; real time always goes on."""
        return nullcontext()

    def stop(self) -> None:
        """Measure no more."""
        self._timer.cancel()

    def _beat(self) -> None:
        now = self._loop.time()
        late = now - self._due
        self._late += late if late > _IN_TIME else 0.0
        self._due = now + _BEAT
        self._timer = self._loop.call_at(self._due, self._beat)


class RealClock(ScaledClock):
    """Real time at the documents' own values."""

    name = "real"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, 1.0)


def run_with_clock(main: Callable[[Clock], Awaitable[T]], name: ClockName, scale: float = 1.0) -> T:
    """Run `main(clock)` on a new loop with the clock of that name, and close everything.

    `scale` is for the scaled clock only. An interrupt (Ctrl-C) cancels `main`, lets it clean up, and is raised as
    KeyboardInterrupt. Raises ClockError when virtual time cannot go on, and Leftovers when `main` returned and left
    tasks or connections behind (when it raised, the leftovers are added to its error as a note); ValueError for a
    scale that is none; LoopBlocked as soon as everything was cancelled.
    """
    results: list[T] = []
    mains: list[asyncio.Task[None]] = []

    async def keep() -> None:  # beside the task: asyncio.Runner takes its repr, and that of a history is seconds long
        mains.append(cast("asyncio.Task[None]", asyncio.current_task()))
        results.append(await _run(main, name, scale))

    with asyncio.Runner(loop_factory=_LOOPS[name]) as runner:
        try:
            runner.run(keep())
        except LoopBlocked:
            _clean_up_blocked(runner.get_loop(), mains[0])
            raise
    return results[0]


def _clean_up_blocked(loop: asyncio.AbstractEventLoop, main: asyncio.Task[None]) -> None:
    """Cancel `main` and let it clean up, also where code of another task blocks the loop in its turn."""
    main.cancel()
    for _ in range(_INTERRUPTIONS):
        if not main.done():
            with suppress(LoopBlocked, asyncio.CancelledError):
                loop.run_until_complete(main)


_LOOPS: dict[ClockName, Callable[[], asyncio.AbstractEventLoop]] = {
    "virtual": VirtualClockEventLoop,
    "shifted": ShiftedClockEventLoop,
    "scaled": asyncio.SelectorEventLoop,
    "real": asyncio.SelectorEventLoop,
}


async def _run(main: Callable[[Clock], Awaitable[T]], name: ClockName, scale: float) -> T:
    loop = asyncio.get_running_loop()
    clock: VirtualClock | ScaledClock
    if isinstance(loop, ShiftedClockEventLoop):
        clock = ShiftedClock(loop)
    elif isinstance(loop, VirtualClockEventLoop):
        clock = VirtualClock(loop)
    else:
        clock = RealClock(loop) if name == "real" else ScaledClock(loop, scale)
    try:
        async with clock.guarded():
            result = await main(clock)
    except BaseException as error:
        if left := await _clean_up(loop):
            error.add_note(left)
        raise
    finally:
        if isinstance(clock, ScaledClock):
            clock.stop()
    if left := await _clean_up(loop):
        raise Leftovers(left)
    return result


async def _clean_up(loop: asyncio.AbstractEventLoop) -> str:
    """Cancel the tasks and close the sockets that are left; return what they were, in words."""
    virtual = isinstance(loop, VirtualClockEventLoop)
    if isinstance(loop, VirtualClockEventLoop):
        loop.look_every_turn()
    for _ in range(_FAREWELL if virtual else _REAL_FAREWELL):
        if len(asyncio.all_tasks(loop)) == 1 and not left_open(loop):
            break
        await asyncio.sleep(0 if virtual else _BEAT)
    words = []
    if tasks := asyncio.all_tasks(loop) - {asyncio.current_task(loop)}:
        words.append(f"tasks left behind:\n{waiting(tasks)}")
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        words += [f"  one ended with {outcome!r}" for outcome in outcomes if isinstance(outcome, Exception)]
    if sockets := left_open(loop):
        words.append("sockets left open:")
        for left in sockets:
            words.append(f"  {left.words}")
            left.close()
        await asyncio.sleep(0)
    return "\n".join(words)
