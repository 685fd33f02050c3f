"""The clocks whose time jumps: virtual time, and the shifted time of the machine and of foreign programs.

A Runaway is a ClockError of the event loop: time jumps, or the loop turns, again and again without a recorded event, or too many
events are recorded without a jump.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

from conformance.run.clocks.interface import flush_nothing, implements_clock
from conformance.run.shifted.loop import ShiftedClockEventLoop
from conformance.run.shifted.shifted_program import ShiftedProgram
from conformance.run.virtual.errors import ClockError
from conformance.run.virtual.loop import VirtualClockEventLoop

EPOCH = 1893456000.0
"""The first moment of virtual time, POSIX seconds: 2030-01-01T00:00:00Z in each run, so that dates are reproducible."""


@implements_clock("virtual")
class VirtualClock:
    """The time of a VirtualClockEventLoop: it jumps to the next timer when nothing else is left to do."""

    name: str
    scale = 1.0
    make_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]] = VirtualClockEventLoop

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float = 1.0) -> None:
        """Begin the cell at the loop's current time; `scale` is not used."""
        assert isinstance(loop, VirtualClockEventLoop)
        self._loop = loop
        self._began = loop.time()

    def now(self) -> float:
        """Return the date and time, POSIX seconds, counted from EPOCH."""
        return EPOCH + self.elapsed()

    def elapsed(self) -> float:
        """Return the documented seconds since the cell began."""
        return self._loop.time() - self._began

    def duration(self, seconds: float) -> float:
        """Return `seconds`: virtual time is documented time."""
        return seconds

    async def sleep(self, seconds: float) -> None:
        """Sleep for documented seconds, which take no real time."""
        await asyncio.sleep(seconds)

    def take_lag(self) -> float:
        """Return 0.0: virtual time is never late."""
        return 0.0

    def take_lag_reason(self) -> str:
        """Return "": virtual time is never late."""
        return ""

    def shifted_program(self, directory: Path) -> ShiftedProgram | None:
        """Return None: virtual time is for nodes in this process."""
        return None

    def note_progress(self) -> None:
        """Restart the loop's counts of turns and jumps, and count this event: too many of either are a Runaway."""
        self._loop.note_progress()

    def flush_with(self, flush: Callable[[], None]) -> None:
        """Set the function that flushes recorded events; the loop calls it before time jumps and before it blocks."""
        self._loop.before_waiting = flush

    @asynccontextmanager
    async def raising_clock_errors(self) -> AsyncIterator[None]:
        """Cancel the body when time cannot go on, as asyncio.timeout does, and raise the ClockError in its place.

        The ClockError is also raised when the body ended before the cancellation reached it. If someone else has cancelled
        the task too, CancelledError is raised.
        """
        task = asyncio.current_task()
        assert task is not None
        errors: list[ClockError] = []

        def cancel_body(error: ClockError) -> None:
            """Note the error and cancel the task of the body."""
            errors.append(error)
            task.cancel()

        cancelled_before = task.cancelling()
        try:
            with self._loop.handling_clock_errors(cancel_body):
                yield
        except asyncio.CancelledError:
            if errors and task.uncancel() <= cancelled_before:  # no one but this clock has cancelled the task
                raise errors[0] from None
            raise
        if errors:  # the body ended all the same: the cancellation must not reach what follows it
            task.uncancel()
            raise errors[0]

    def stop(self) -> None:
        """Do nothing: this clock measures no lag by a timer that would have to be stopped."""


@implements_clock("shifted")
class ShiftedClock(VirtualClock):
    """The time of a ShiftedClockEventLoop: the machine's, which passes by itself, plus an offset that jumps."""

    make_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]] = ShiftedClockEventLoop

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float = 1.0) -> None:
        """Begin the cell at the loop's current time; `scale` is not used."""
        super().__init__(loop)
        assert isinstance(loop, ShiftedClockEventLoop)
        self._shifted_loop = loop
        self._flush: Callable[[], None] = flush_nothing

    def now(self) -> float:
        """Return the machine's time plus the offset, POSIX seconds, as the nodes see it."""
        return time.time() + self._shifted_loop.offset

    def take_lag(self) -> float:
        """Return the largest lateness of a timer since the last call, seconds; 0 if all were in time."""
        return self._shifted_loop.take_lag()

    def take_lag_reason(self) -> str:
        """Return which node woke up so often that timers were late since the last call; "" when none did."""
        return self._shifted_loop.take_lag_reason()

    def note_progress(self) -> None:
        """Restart and count as the virtual clock does, and flush the recorded events if a function is set for that."""
        super().note_progress()
        self._flush()

    def flush_with(self, flush: Callable[[], None]) -> None:
        """Set the function that `note_progress` calls to flush recorded events: the machine's time passes by itself."""
        self._flush = flush

    def shifted_program(self, directory: Path) -> ShiftedProgram | None:
        """Return what shifts the clock of a node's program, with its files in `directory`.

        Raises CannotShift when the shim, the library that shifts it, cannot be compiled on this machine.
        """
        return self._shifted_loop.shifted_program(directory)
