"""Real time: at the documents' own values, or with all of them divided by a scale."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import ClassVar

from conformance.run.clocks.interface import implements_clock, nothing
from conformance.run.shifted.shifted_program import ShiftedProgram

_BEAT = 0.02
"""Real seconds between two looks at how late the harness runs."""

_IN_TIME = 0.005
"""Real seconds by which a beat may be late on a machine that has nothing else to do: these are not counted."""


@implements_clock("scaled")
class ScaledClock:
    """Real time in which every documented duration is divided by `scale`; it measures how late the loop runs."""

    name: str
    make_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]] = asyncio.SelectorEventLoop

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float) -> None:
        """Begin to measure. Raises ValueError unless `scale` is above 0."""
        if not scale > 0:
            raise ValueError(f"a clock cannot be scaled by {scale}")
        self.scale = scale
        self._loop = loop
        self._began = loop.time()
        self._late = 0.0
        self._due = self._began
        self._flush: Callable[[], None] = nothing
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

    def take_lag(self) -> float:
        """See Clock; a beat that is overdue right now counts."""
        overdue = max(self._loop.time() - self._due, 0.0)
        late = self._late + (overdue if overdue > _IN_TIME else 0.0)
        self._late = 0.0
        return late * self.scale

    def take_lag_reason(self) -> str:
        """See Clock; nobody in particular."""
        return ""

    def note_progress(self) -> None:
        """See Clock."""
        self._flush()

    def flush_with(self, flush: Callable[[], None]) -> None:
        """See Clock."""
        self._flush = flush

    def shifted_program(self, directory: Path) -> ShiftedProgram | None:
        """See Clock; a scaled node is told so by its configuration."""
        return None

    def raising_clock_errors(self) -> AbstractAsyncContextManager[None]:
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


@implements_clock("real")
class RealClock(ScaledClock):
    """Real time at the documents' own values."""

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float = 1.0) -> None:
        super().__init__(loop, 1.0)
