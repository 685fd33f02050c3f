"""The one bridge between callers without an event loop, such as pytest, and cells, which are coroutines.

A cell is run and judged by the same coroutines wherever it has its place. ALONE gives it a loop and a clock of its own;
then nothing waits for the caller's loop, so `at_once` gets its result without one. BESIDE gives it a clock of its own
on the loop that it is awaited in, where other cells run at the same time: for candidates that mostly wait, and never where
time jumps. What a cell leaves behind is told alike: every task is of the cell in whose context it was made.
"""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, TypeVar

from conformance.run.clock import Leftovers, run_with_clock
from conformance.run.clocks.interface import Clock, keepers
from conformance.run.settings import Settings
from conformance.run.virtual.errors import waiting

T = TypeVar("T")

_FAREWELL = 2.0
"""Real seconds that the tasks of a cell get to notice that it is over."""


class Family:
    """The tasks of one cell."""

    def __init__(self) -> None:
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()

    def add(self, task: asyncio.Task[Any]) -> None:
        """Count a task in."""
        self._tasks.add(task)

    @property
    def others(self) -> set[asyncio.Task[Any]]:
        """Every task that is not done, but for the one that asks."""
        return {task for task in self._tasks if not task.done()} - {asyncio.current_task()}


_FAMILY: ContextVar[Family | None] = ContextVar("family", default=None)


def make_task(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T], **rest: Any) -> asyncio.Task[T]:
    """Make a task and count it in: the task factory of a loop that many cells share."""
    task = asyncio.Task(coro, loop=loop, **rest)
    if (family := _FAMILY.get()) is not None:
        family.add(task)
    return task


def in_family(coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin a cell: a task whose descendants are all counted as its own."""
    context = copy_context()
    context.run(_FAMILY.set, Family())
    return asyncio.get_running_loop().create_task(coro, context=context)


async def with_own_clock(main: Callable[[Clock], Awaitable[T]], settings: Settings) -> T:
    """Run `main(clock)` on this loop, within `in_family`.

    Raises Leftovers when it returned and left tasks behind; they have been cancelled.
    """
    loop = asyncio.get_running_loop()
    clock = keepers()[settings.clock](loop, settings.scale)
    try:
        result = await main(clock)
    except BaseException as error:
        if left := await _clean_up():
            error.add_note(left)
        raise
    finally:
        clock.stop()
    if left := await _clean_up():
        raise Leftovers(left)
    return result


async def _clean_up() -> str:
    family = _FAMILY.get()
    assert family is not None
    if family.others:
        await asyncio.wait(family.others, timeout=_FAREWELL)
    left = family.others
    words = f"tasks left behind:\n{waiting(left)}" if left else ""
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return words


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
"""On the loop of the caller; within `conformance.run.bridge.in_family`, and not with a clock that jumps."""


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
