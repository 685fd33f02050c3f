"""One interface to time, whichever clock is behind it. Which class keeps the time of which clock, they say
themselves.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from conformance import registry
from conformance.clocks import CLOCKS, ClockName
from conformance.run import clocks
from conformance.run.shifted.shifted_program import ShiftedProgram


class Clock(Protocol):
    """Time in a cell. *Documented* seconds are those of the documents: a 2-minute heartbeat is 120 of them."""

    @property
    def name(self) -> str:
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

    def take_lag(self) -> float:
        """Return by how much the harness itself ran late since this was last asked, in all, documented seconds."""
        ...

    def take_lag_reason(self) -> str:
        """Return who kept the harness from being in time since this was last asked, where that is known; '' else."""
        ...

    def note_progress(self) -> None:
        """Say that something happened: a virtual clock that runs on without any says Runaway."""
        ...

    def flush_with(self, flush: Callable[[], None]) -> None:
        """Have `flush` called after each `progress`: at once, or before virtual time jumps and the loop really waits."""
        ...

    def shifted_program(self, directory: Path) -> ShiftedProgram | None:
        """Return what moves the clock of a node that is a program, None where nothing has to. Raises CannotShift."""
        ...

    def stop(self) -> None:
        """Measure no more."""
        ...

    def raising_clock_errors(self) -> AbstractAsyncContextManager[None]:
        """Cancel the body and raise ClockError from the context when time cannot go on; the innermost first."""
        ...


class ClockClass(Clock, Protocol):
    """A clock as it is opened, on the loop that is made for it, or on one of several cells where time does not jump."""

    make_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]]

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float) -> None: ...


def nothing() -> None:
    """Keep nothing."""


_Class = TypeVar("_Class", bound=ClockClass)

_CLOCK_CLASSES: registry.Registry[type[ClockClass]] = registry.Registry("class for the clock")


def implements_clock(name: ClockName) -> Callable[[type[_Class]], type[_Class]]:
    """Say that a class keeps the time of a clock."""

    def register(clock_class: type[_Class]) -> type[_Class]:
        setattr(clock_class, "name", name)  # noqa: B010  # to read only, for everybody else
        _CLOCK_CLASSES.add(name, clock_class)
        return clock_class

    return register


@cache
def clock_classes() -> Mapping[ClockName, type[ClockClass]]:
    """Return the class of each clock. Raises Unmatched where a clock has none, or a class no clock."""
    registry.import_submodules(clocks)
    registry.check_counterparts("clock", CLOCKS, "conformance/clocks.py", _CLOCK_CLASSES, "conformance/run/clocks/")
    return _CLOCK_CLASSES
