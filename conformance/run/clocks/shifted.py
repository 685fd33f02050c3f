"""The shifted clock: that of the machine and of its programs, moved on when all is quiet."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from conformance.run.clocks.interface import implements_clock, nothing
from conformance.run.clocks.virtual import VirtualClock
from conformance.run.shifted.loop import ShiftedClockEventLoop
from conformance.run.shifted.shifted_program import ShiftedProgram


@implements_clock("shifted")
class ShiftedClock(VirtualClock):
    """The clock of a ShiftedClockEventLoop: that of the machine, and of its programs, moved on when all is quiet."""

    make_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]] = ShiftedClockEventLoop

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float = 1.0) -> None:
        super().__init__(loop)
        assert isinstance(loop, ShiftedClockEventLoop)
        self._shifted = loop
        self._flush: Callable[[], None] = nothing

    def now(self) -> float:
        """See Clock; the machine's own and the offset, which the nodes see too."""
        return time.time() + self._shifted.offset

    def take_lag(self) -> float:
        """See Clock."""
        return self._shifted.take_lag()

    def take_lag_reason(self) -> str:
        """See Clock."""
        return self._shifted.take_lag_reason()

    def note_progress(self) -> None:
        """See Clock."""
        super().note_progress()
        self._flush()

    def flush_with(self, flush: Callable[[], None]) -> None:
        """See Clock; the machine's time passes all the while."""
        self._flush = flush

    def shifted_program(self, directory: Path) -> ShiftedProgram | None:
        """See Clock."""
        return self._shifted.shifted_program(directory)
