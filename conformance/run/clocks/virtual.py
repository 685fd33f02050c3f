"""The virtual clock: time jumps to the next moment for which anything in this process waits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

from conformance.run.clocks.interface import implements_clock
from conformance.run.shifted.shifted_program import ShiftedProgram
from conformance.run.virtual.errors import ClockError
from conformance.run.virtual.loop import VirtualClockEventLoop

EPOCH = 1893456000.0
"""The virtual clock's first moment, POSIX seconds: 2030-01-01T00:00:00Z, so that stamps repeat too."""


@implements_clock("virtual")
class VirtualClock:
    """The clock of a VirtualClockEventLoop: as exact as its floats, and never late."""

    name: str
    scale = 1.0
    make_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]] = VirtualClockEventLoop

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float = 1.0) -> None:
        assert isinstance(loop, VirtualClockEventLoop)
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

    def take_lag(self) -> float:
        """See Clock."""
        return 0.0

    def take_lag_reason(self) -> str:
        """See Clock."""
        return ""

    def shifted_program(self, directory: Path) -> ShiftedProgram | None:
        """See Clock."""
        return None

    def note_progress(self) -> None:
        """See Clock."""
        self._loop.note_progress()

    def flush_with(self, flush: Callable[[], None]) -> None:
        """See Clock."""
        self._loop.before_waiting = flush

    @asynccontextmanager
    async def raising_clock_errors(self) -> AsyncIterator[None]:
        """See Clock; works as asyncio.timeout does."""
        task = asyncio.current_task()
        assert task is not None
        told: list[ClockError] = []

        def tell(error: ClockError) -> None:
            told.append(error)
            task.cancel()

        cancelled_before = task.cancelling()
        try:
            with self._loop.handling_clock_errors(tell):
                yield
        except asyncio.CancelledError:
            if told and task.uncancel() <= cancelled_before:
                raise told[0] from None
            raise
        if told:  # told, and all the same the body came to its end: the cancellation must not strike what follows
            task.uncancel()
            raise told[0]

    def stop(self) -> None:
        """See Clock; the loop goes with it."""
