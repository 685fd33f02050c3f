"""The one bridge between callers without an event loop, such as pytest, and cells, which are coroutines.

A cell is run and judged by the same coroutines wherever it has its place. ALONE gives it a loop and a clock of its own;
then nothing waits for the caller's loop, so `at_once` gets its result without one. BESIDE gives it a clock of its own
on the loop that it is awaited in, where other cells run at the same time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from conformance.run.clock import run_with_clock
from conformance.run.clocks.interface import Clock
from conformance.run.settings import Settings
from conformance.run.together import with_own_clock

T = TypeVar("T")


class Place(Protocol):
    """Where a cell is run."""

    async def run(self, main: Callable[[Clock], Coroutine[Any, Any, T]], settings: Settings) -> T:
        """Return what `main(clock)` returns on a clock of its own. Raises Leftovers, and what the clock raises."""
        ...

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function returns that takes long, without holding up other cells."""
        ...


class _Alone:
    async def run(self, main: Callable[[Clock], Coroutine[Any, Any, T]], settings: Settings) -> T:
        return run_with_clock(main, settings.clock, settings.scale)

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        return function(*arguments)


class _Beside:
    async def run(self, main: Callable[[Clock], Coroutine[Any, Any, T]], settings: Settings) -> T:
        return await with_own_clock(main, settings)

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.to_thread(function, *arguments)


ALONE: Place = _Alone()
"""On a loop of its own, which runs until the cell has ended."""

BESIDE: Place = _Beside()
"""On the loop of the caller; within `conformance.run.together.in_family`, and not with a clock that jumps."""


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that waits for nothing, as everything with a place ALONE.

    Raises RuntimeError where it has to wait.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a coroutine with the place ALONE waited for the caller's loop")
