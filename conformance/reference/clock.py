"""The wall clock of a node. Durations run on the event loop's timers; only stamps are taken from here."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where stamps come from."""

    def now(self) -> float:
        """Return the current time, POSIX seconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return the machine's time, POSIX seconds."""
        return time.time()
