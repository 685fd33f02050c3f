"""The interface of all clocks, and the registry of the classes that implement those declared in `conformance.clocks`.

*Documented* seconds are those of the documents: a 2-minute heartbeat takes 120 of them, whatever the clock. Each cell has a
clock object of its own, which the world of the cell, its steps and its nodes ask for the time. The harness's *lag* is how
late it acted on a busy machine. A clock *jumps* if its time is set forward while nothing is left to do (virtual, shifted).
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
        """Return how many seconds of the event loop's time a duration of documented `seconds` takes.

        The durations in a node's configuration are made with it too.
        """

    async def sleep(self, seconds: float) -> None:
        """Sleep for documented seconds."""

    def take_lag(self) -> float:
        """Return by how many documented seconds the harness ran late since the last call, and start again at 0.

        That is the sum of its delays, on a shifted clock the largest of them; 0 on a virtual clock.
        """

    def take_lag_reason(self) -> str:
        """Return in words what made the harness run late since the last call; "" when that is not known. Start again with ""."""

    def note_progress(self) -> None:
        """Note that an event was recorded.

        Where time jumps, the event loop counts turns (in virtual time also jumps) since the last such note, and such notes
        since the last jump; it ends the cell by a Runaway (a ClockError) when there are too many. A clock on which time
        passes by itself (all but the virtual one) flushes the recorded events.
        """

    def flush_with(self, flush: Callable[[], None]) -> None:
        """Set the function that flushes recorded events; it replaces the one that was set before.

        Where time passes by itself it is called at each `note_progress`; on the virtual clock before time jumps and before the loop
        blocks.
        """

    def shifted_program(self, directory: Path) -> ShiftedProgram | None:
        """Return what shifts the clock of a node's program, with its files in `directory`; None unless clocks are shifted.

        Raises CannotShift when this machine cannot do it.
        """

    def stop(self) -> None:
        """Stop measuring lag, as the cell has ended; a clock without a timer for that does nothing."""

    def raising_clock_errors(self) -> AbstractAsyncContextManager[None]:
        """Return a context that cancels its body and raises ClockError when time cannot go on.

        Of nested contexts the innermost one does so, and the one around it at the next such error. On the scaled and the real
        clock the context does nothing.
        """


class ClockClass(Clock, Protocol):
    """A class that implements a clock: with the loop that it needs, and the arguments with which it is made."""

    make_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]]

    def __init__(self, loop: asyncio.AbstractEventLoop, scale: float) -> None:
        """`loop` was made by `make_loop`; or it is one that several cells share, if the clock does not jump."""


def flush_nothing() -> None:
    """Do nothing: the function that flushes until `flush_with` sets another."""


_Class = TypeVar("_Class", bound=ClockClass)

_CLOCK_CLASSES: registry.Registry[type[ClockClass]] = registry.Registry("class for the clock")


def implements_clock(name: ClockName) -> Callable[[type[_Class]], type[_Class]]:
    """Return a decorator that registers a class as the implementation of a clock, sets its `name`, and returns the class.

    The decorator raises RegistryError when the clock has a class already.
    """

    def register(clock_class: type[_Class]) -> type[_Class]:
        """Set the class's `name`, register it, and return it."""
        setattr(clock_class, "name", name)  # noqa: B010  # Clock declares it as read-only
        _CLOCK_CLASSES.add(name, clock_class)
        return clock_class

    return register


@cache
def clock_classes() -> Mapping[ClockName, type[ClockClass]]:
    """Return the class of each clock by its name; the first call imports the modules of `conformance.run.clocks`.

    Raises RegistryError when a clock has no class, or a class no clock.
    """
    registry.import_submodules(clocks)
    registry.check_counterparts("clock", CLOCKS, "conformance/clocks.py", _CLOCK_CLASSES, "conformance/run/clocks/")
    return _CLOCK_CLASSES
