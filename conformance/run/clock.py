"""Three clocks behind one interface: virtual, scaled, real; and the loop that a cell runs on."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from conformance.run.settings import ClockName
from conformance.run.virtual.loop import VirtualClockEventLoop

T = TypeVar("T")

EPOCH = 1_893_456_000.0
"""When virtual time begins: 2030-01-01T00:00:00Z, POSIX seconds."""

_WATCH = 0.05
"""Real seconds between two looks at how late the loop is."""


class Clock(Protocol):
    """A cell's time. *Documented* seconds are those of scenarios and parameters; the loop's are what really passes."""

    name: ClockName
    scale: float

    def now(self) -> float:
        """Return the present moment for stamps, POSIX seconds."""
        ...

    def elapsed(self) -> float:
        """Return the documented seconds since the cell began."""
        ...

    def duration(self, seconds: float) -> float:
        """Return what to wait on the loop, or hand to a node, for so many documented seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let so many documented seconds pass."""
        ...

    def lag(self) -> float:
        """Return how late the harness itself was at worst, documented seconds."""
        ...

    def progress(self) -> None:
        """Hear that something happened: time does not go on for nothing."""
        ...


class VirtualClock:
    """Time jumps; nothing is ever late."""

    name: ClockName = "virtual"
    scale = 1.0

    def __init__(self, loop: VirtualClockEventLoop) -> None:
        self._loop = loop
        self._began = loop.time()

    def now(self) -> float:
        """Return virtual POSIX seconds."""
        return EPOCH + self._loop.time()

    def elapsed(self) -> float:
        """Return virtual seconds since the cell began."""
        return self._loop.time() - self._began

    def duration(self, seconds: float) -> float:
        """Return the same number."""
        return seconds

    async def sleep(self, seconds: float) -> None:
        """Jump, as soon as nothing else is left to do before."""
        await asyncio.sleep(seconds)

    def lag(self) -> float:
        """Return 0."""
        return 0.0

    def progress(self) -> None:
        """Begin anew to count the jumps in which nothing happens."""
        self._loop.progress()


class ScaledClock:
    """Documented times are divided by `scale`; with 1 this is the real clock."""

    def __init__(self, scale: float = 1.0) -> None:
        self.name: ClockName = "scaled" if scale != 1.0 else "real"
        self.scale = scale
        self._began = time.monotonic()
        self._worst = 0.0

    def now(self) -> float:
        """Return the machine's POSIX seconds."""
        return time.time()

    def elapsed(self) -> float:
        """Return the seconds since the cell began, times the scale."""
        return (time.monotonic() - self._began) * self.scale

    def duration(self, seconds: float) -> float:
        """Return the seconds divided by the scale."""
        return seconds / self.scale

    async def sleep(self, seconds: float) -> None:
        """Wait for the seconds divided by the scale."""
        await asyncio.sleep(self.duration(seconds))

    def lag(self) -> float:
        """Return the worst lateness of the loop that was seen, times the scale."""
        return self._worst * self.scale

    def progress(self) -> None:
        """Do nothing: real time needs no such count."""

    async def watch(self) -> None:
        """See, for as long as the task lives, how late a periodic timer fires."""
        while True:
            due = time.monotonic() + _WATCH
            await asyncio.sleep(_WATCH)
            self._worst = max(self._worst, time.monotonic() - due)


def run_with_clock(main: Callable[[Clock], Awaitable[T]], name: ClockName, scale: float) -> T:
    """Run a cell on a loop of its own with the clock of that name, and leave nothing of it behind.

    Raises what `main` raises; ClockError when virtual time cannot go on.
    """
    if name == "virtual":
        with asyncio.Runner(loop_factory=VirtualClockEventLoop) as runner:
            return runner.run(_virtually(main))
    with asyncio.Runner() as runner:
        return runner.run(_really(main, scale))


async def _virtually(main: Callable[[Clock], Awaitable[T]]) -> T:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockEventLoop)
    return await main(VirtualClock(loop))


async def _really(main: Callable[[Clock], Awaitable[T]], scale: float) -> T:
    clock = ScaledClock(scale)
    watch = asyncio.get_running_loop().create_task(clock.watch(), name="watch the harness's lag")
    try:
        return await main(clock)
    finally:
        watch.cancel()
