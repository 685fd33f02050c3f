"""The clocks of real time: at the documents' own values, or with all of them divided by a scale.

*Lag* is the time by which the event loop runs late on a busy machine; checks of times are excused by it. *Documented* seconds
are those of the documents: a real second has `scale` of them. A timer measures the lag every _CHECK_PERIOD_S: a *measurement*
(`_check_lag`) that is called late adds its lateness to `_late`, which `take_lag` returns and empties.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import ClassVar

from conformance.run.clocks.interface import flush_nothing, implements_clock
from conformance.run.shifted.shifted_program import ShiftedProgram

_CHECK_PERIOD_S = 0.02
"""Real seconds between two measurements of how late the loop runs."""

_TOLERATED_S = 0.005
"""Real seconds by which a measurement may be late on an idle machine; it does not count as lag."""


@implements_clock("scaled")
class ScaledClock:
    """Real time in which every documented duration is divided by `scale`; it measures how late the loop runs.

    `_late` adds up the lag since it was last taken, `_check_due` is when the next measurement is due, and `_overdue_taken` is how
    much of its lateness was taken already; all in seconds of the loop.
    """

    name: str
    make_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]] = asyncio.SelectorEventLoop

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float) -> None:
        """Begin to measure lag. Raises ValueError unless `scale` is above 0."""
        if not scale > 0:
            raise ValueError(f"a clock cannot be scaled by {scale}")
        self.scale = scale
        self._loop = loop
        self._began = loop.time()
        self._late = 0.0
        self._overdue_taken = 0.0
        self._check_due = self._began
        self._flush: Callable[[], None] = flush_nothing
        self._check_lag()

    def now(self) -> float:
        """Return the machine's time, POSIX seconds, unscaled: foreign nodes stamp with it too."""
        return time.time()

    def elapsed(self) -> float:
        """Return the documented seconds since the cell began."""
        return (self._loop.time() - self._began) * self.scale

    def duration(self, seconds: float) -> float:
        """Return the real seconds that a duration of documented `seconds` takes."""
        return seconds / self.scale

    async def sleep(self, seconds: float) -> None:
        """Sleep for documented seconds."""
        await asyncio.sleep(seconds / self.scale)

    def take_lag(self) -> float:
        """Return the lag since the last call, documented seconds; 0 if the loop was in time.

        If the next measurement is overdue now, its lateness so far counts too; the rest counts when it is made. `_overdue_taken` is
        the part of it that earlier calls have returned.
        """
        overdue = max(self._loop.time() - self._check_due, self._overdue_taken)
        late = self._late + (overdue - self._overdue_taken if overdue > _TOLERATED_S else 0.0)
        self._late = 0.0
        if overdue > _TOLERATED_S:
            self._overdue_taken = overdue
        return late * self.scale

    def take_lag_reason(self) -> str:
        """Return "": the reason is not known."""
        return ""

    def note_progress(self) -> None:
        """Flush the recorded events, since one was added; do nothing before `flush_with`."""
        self._flush()

    def flush_with(self, flush: Callable[[], None]) -> None:
        """Set the function with which `note_progress` flushes recorded events."""
        self._flush = flush

    def shifted_program(self, directory: Path) -> ShiftedProgram | None:
        """Return None: no clock is shifted; a node gets scaled durations in its configuration instead."""
        return None

    def raising_clock_errors(self) -> AbstractAsyncContextManager[None]:
        """Return a context that does nothing: real time always goes on."""
        return nullcontext()

    def stop(self) -> None:
        """Stop measuring lag: cancel the timer of the next measurement."""
        self._timer.cancel()

    def _check_lag(self) -> None:
        """Add to the lag by how much this call is late, if that is more than _TOLERATED_S, and schedule the next call.

        What `take_lag` has counted of this lateness already is left out.
        """
        now = self._loop.time()
        late = now - self._check_due
        self._late += late - self._overdue_taken if late > _TOLERATED_S else 0.0
        self._overdue_taken = 0.0
        self._check_due = now + _CHECK_PERIOD_S
        self._timer = self._loop.call_at(self._check_due, self._check_lag)


@implements_clock("real")
class RealClock(ScaledClock):
    """Real time at the documents' own values."""

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float = 1.0) -> None:
        """Begin to measure lag; `scale` is not used."""
        super().__init__(loop, 1.0)
