"""The interface of all clocks, and the registry of the classes that implement those declared in `conformance.clocks`.

*Documented* seconds are those of the documents: a 2-minute heartbeat takes 120 of them, whatever the clock.
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
    """The time of one cell."""

    @property
    def name(self) -> str:
        """The name of the clock, as `--clock` takes it."""

    @property
    def scale(self) -> float:
        """What documented durations are divided by; 1 except on a scaled clock."""

    def now(self) -> float:
        """Return the date and time of the clock, POSIX seconds."""

    def elapsed(self) -> float:
        """Return the documented seconds since the cell began."""

    def duration(self, seconds: float) -> float:
        """Return how many seconds of the event loop, and of a node's configuration, a documented duration is."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for documented seconds."""

    def take_lag(self) -> float:
        """Return by how many documented seconds the harness ran late since the last call, and start again at 0."""

    def take_lag_reason(self) -> str:
        """Return what made the harness run late since the last call; "" when that is not known. Start again with ""."""

    def note_progress(self) -> None:
        """Note that an event was recorded: where time jumps on and on without any, that is a Runaway (ClockError)."""

    def flush_with(self, flush: Callable[[], None]) -> None:
        """Set the function that flushes recorded events.

        Where time passes by itself it is called at each `note_progress`; else before time jumps and before the loop blocks.
        """

    def shifted_program(self, directory: Path) -> ShiftedProgram | None:
        """Return what shifts the clock of a node's program, with its files in `directory`; None unless clocks are shifted.

        Raises CannotShift.
        """

    def stop(self) -> None:
        """Stop measuring lag."""

    def raising_clock_errors(self) -> AbstractAsyncContextManager[None]:
        """Return a context that cancels its body and raises ClockError when time cannot go on.

        Of nested contexts only the innermost one does so.
        """


class ClockClass(Clock, Protocol):
    """A class that implements a clock: with the loop that it needs, and the arguments with which it is made."""

    make_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]]

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float) -> None:
        """`loop` was made by `make_loop`; or it is one that several cells share, if the clock does not jump."""


def flush_nothing() -> None:
    """Do nothing: what `flush_with` replaces."""


_Class = TypeVar("_Class", bound=ClockClass)

_CLOCK_CLASSES: registry.Registry[type[ClockClass]] = registry.Registry("class for the clock")


def implements_clock(name: ClockName) -> Callable[[type[_Class]], type[_Class]]:
    """Return a decorator that registers a class as the implementation of a clock and sets its `name`."""

    def register(clock_class: type[_Class]) -> type[_Class]:
        setattr(clock_class, "name", name)  # noqa: B010  # Clock declares it as read-only
        _CLOCK_CLASSES.add(name, clock_class)
        return clock_class

    return register


@cache
def clock_classes() -> Mapping[ClockName, type[ClockClass]]:
    """Return the class of each clock. Raises RegistryError when a clock has no class, or a class no clock."""
    registry.import_submodules(clocks)
    registry.check_counterparts("clock", CLOCKS, "conformance/clocks.py", _CLOCK_CLASSES, "conformance/run/clocks/")
    return _CLOCK_CLASSES
