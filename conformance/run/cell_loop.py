"""Runs a cell on an event loop with a clock of its own, and leaves no task or connection behind.

A cell is a coroutine function `main(clock)`. There are two `CellLoop`s to run it on:

- `OWN_LOOP` makes a new loop for each cell and blocks until the cell has ended. Nothing waits for the caller's loop, so
  a caller without one, such as pytest, gets the result with `run_without_loop`.
- `SHARED_LOOP` runs the cell on the caller's loop, beside other cells. It suits candidates that mostly wait. It cannot
  be used with a clock that jumps, since all cells of a loop share its time. The tasks of a cell are distinguished from those of
  others by the context in which they were created (`create_cell_task`, `tracked_task_factory`).

When a cell has ended, its tasks (on a loop of its own also its sockets) get a short time to end by themselves. What is left
then is cancelled, closed and reported as `Leftovers`: a node that was not stopped properly would disturb the next cell.
"""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, TypeVar, cast

from conformance.clocks import ClockName
from conformance.run.clocks.interface import Clock, clock_classes
from conformance.run.deadline import LoopBlocked
from conformance.run.settings import DEFAULT_SEED, Settings
from conformance.run.virtual.asyncio_compat import open_sockets
from conformance.run.virtual.errors import describe_tasks
from conformance.run.virtual.loop import VirtualClockEventLoop

T = TypeVar("T")

_CLOCK_CLASSES = clock_classes()

_CLOSING_TURNS = 10
"""Turns of a virtual loop in which closing sockets and their tasks may end: asyncio needs two, TLS a few."""

_CLOSING_POLLS, _CLOSING_POLL_S = 100, 0.02
"""The same in real time: how often it is checked, and the real seconds between two checks. The other end of a socket may
be a process that has to be scheduled first."""

_CLOSING_S = 2.0
"""Real seconds in which the tasks of a cell on a shared loop may end by themselves."""

_MAX_INTERRUPTIONS = 20
"""How often blocking code is interrupted while a cell is cleaned up: the code of each node may block."""


class Leftovers(RuntimeError):
    """A cell ended and left tasks or connections behind. They have been cancelled and aborted."""


# a loop for each cell


def run_with_clock(
    main: Callable[[Clock], Awaitable[T]], name: ClockName, scale: float = 1.0, *, ties: int | None = None
) -> T:
    """Run `main(clock)` on a new loop with the clock of that name, block until it ends, and return its result.

    `scale` is for the scaled clock only. `ties` is the seed of the order of what happens at the same virtual time (None: the
    order in which it was begun); where time passes by itself it does nothing. An interrupt (Ctrl-C) cancels `main`, lets it
    clean up, and is raised as KeyboardInterrupt. Raises what `main` raises, ClockError when virtual time cannot go on,
    LoopBlocked when code on the loop did not return in time (after cancelling `main`), ValueError for a scale that is not
    above 0, and Leftovers when `main` returned and left tasks or connections behind (when it raised, they are added to its
    error as a note).
    """
    results: list[T] = []
    mains: list[asyncio.Task[None]] = []

    async def store_result() -> None:  # asyncio.Runner formats the result of its task, and a history takes seconds
        """Run `main` on the new loop and put its result into `results`, and the current task into `mains`."""
        mains.append(cast("asyncio.Task[None]", asyncio.current_task()))
        results.append(await _run_and_clean_up(main, name, scale, _clean_up_loop))

    def make_loop() -> asyncio.AbstractEventLoop:
        """Return a new loop of the clock's class, which draws the order of ties if a seed was given and its time jumps."""
        loop = _CLOCK_CLASSES[name].make_loop()
        if ties is not None and isinstance(loop, VirtualClockEventLoop) and not loop.time_passes:
            loop.shuffle_ties(ties)
        return loop

    with asyncio.Runner(loop_factory=make_loop) as runner:
        try:
            runner.run(store_result())
        except LoopBlocked:
            _cancel_blocked(runner.get_loop(), mains[0])
            raise
    return results[0]


def _cancel_blocked(loop: asyncio.AbstractEventLoop, main: asyncio.Task[None]) -> None:
    """Cancel `main` and run the loop until it has cleaned up.

    Code that blocks the loop meanwhile is interrupted again, _MAX_INTERRUPTIONS times at most; then return although `main` has
    not ended. Raises what `main` raises in the end, but neither CancelledError nor LoopBlocked.
    """
    main.cancel()
    for _ in range(_MAX_INTERRUPTIONS):
        if not main.done():
            with suppress(LoopBlocked, asyncio.CancelledError):
                loop.run_until_complete(main)


async def _run_and_clean_up(
    main: Callable[[Clock], Awaitable[T]], name: ClockName, scale: float, clean_up: Callable[[], Awaitable[str]]
) -> T:
    """Run `main(clock)` on the running loop and return its result; raise Leftovers if `clean_up` then describes something.

    The clock is a new one of this name. `clean_up` returns a description of what it had to cancel and close, "" for nothing. An
    exception of `main` gets the description as a note, and is raised.
    """
    clock = _CLOCK_CLASSES[name](asyncio.get_running_loop(), scale)
    try:
        async with clock.raising_clock_errors():
            result = await main(clock)
    except BaseException as error:
        if leftovers := await clean_up():
            error.add_note(leftovers)
        raise
    finally:
        clock.stop()
    if leftovers := await clean_up():
        raise Leftovers(leftovers)
    return result


async def _clean_up_loop() -> str:
    """Cancel all other tasks and close all sockets of the running loop, after a time in which they may end by themselves.

    That time is _CLOSING_TURNS turns of a loop whose time jumps, else up to _CLOSING_POLLS * _CLOSING_POLL_S real seconds. Wait
    for the end of cancelled tasks. Return a description of what had to be cancelled and closed; "" when nothing was left.
    """
    loop = asyncio.get_running_loop()
    virtual = isinstance(loop, VirtualClockEventLoop)
    if isinstance(loop, VirtualClockEventLoop):
        loop.polls_every_turn = True  # else it polls only when there is nothing else to do
    for _ in range(_CLOSING_TURNS if virtual else _CLOSING_POLLS):
        if len(asyncio.all_tasks(loop)) == 1 and not open_sockets(loop):  # the current task is left
            break
        await asyncio.sleep(0 if virtual else _CLOSING_POLL_S)
    lines = []
    if tasks := asyncio.all_tasks(loop) - {asyncio.current_task(loop)}:
        lines.append(f"tasks left behind:\n{describe_tasks(tasks)}")
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        lines += [f"  one ended with {result!r}" for result in results if isinstance(result, Exception)]
    if sockets := open_sockets(loop):
        lines.append("sockets left open:")
        for sock in sockets:
            lines.append(f"  {sock.description}")
            sock.close()
        await asyncio.sleep(0)
    return "\n".join(lines)


# many cells on one loop


class CellTasks:
    """The tasks of one cell, as weak references: a task that has ended is not kept in memory."""

    def __init__(self) -> None:
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()

    def add(self, task: asyncio.Task[Any]) -> None:
        """Count a task as one of the cell's, without keeping it in memory."""
        self._tasks.add(task)

    @property
    def others(self) -> set[asyncio.Task[Any]]:
        """The tasks of the cell that have not ended, except the current one."""
        return {task for task in self._tasks if not task.done()} - {asyncio.current_task()}


_CELL_TASKS: ContextVar[CellTasks | None] = ContextVar("cell_tasks", default=None)


def tracked_task_factory(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T], **named: Any
) -> asyncio.Task[T]:
    """Create a task, add it to the tasks of the cell whose code creates it (if it is a cell's), and return it.

    A loop that many cells share must have this as its task factory (asyncio.loop.set_task_factory).
    """
    task = asyncio.Task(coro, loop=loop, **named)
    if (cell_tasks := _CELL_TASKS.get()) is not None:
        cell_tasks.add(task)
    return task


def create_cell_task(coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Create and return the first task of a cell on the running loop; tasks that it creates, in turn too, are the cell's."""
    context = copy_context()
    context.run(_CELL_TASKS.set, CellTasks())
    return asyncio.get_running_loop().create_task(coro, context=context)


async def run_on_shared_loop(main: Callable[[Clock], Awaitable[T]], settings: Settings) -> T:
    """Run `main(clock)` on the running loop and return its result; to be awaited in a task of `create_cell_task`.

    Raises what `main` raises, and Leftovers when it returned and left tasks behind, which have been cancelled then. Sockets that
    it left open are neither closed nor reported.
    """
    return await _run_and_clean_up(main, settings.clock, settings.scale, _clean_up_cell)


async def _clean_up_cell() -> str:
    """Wait up to _CLOSING_S for the other tasks of the current cell, then cancel those that are left and wait for their end.

    Return a description of the cancelled tasks; "" when there were none.
    """
    cell_tasks = _CELL_TASKS.get()
    assert cell_tasks is not None
    if cell_tasks.others:
        await asyncio.wait(cell_tasks.others, timeout=_CLOSING_S)
    tasks = cell_tasks.others
    description = f"tasks left behind:\n{describe_tasks(tasks)}" if tasks else ""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return description


# the choice between the two


class CellLoop(Protocol):
    """The loop on which a cell is run: its own, or one shared with other cells."""

    async def run(self, main: Callable[[Clock], Coroutine[Any, Any, T]], settings: Settings) -> T:
        """Run `main(clock)` with a new clock and return its result. Raises Leftovers, and what `main` and the clock raise."""

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function that takes long, without blocking other cells, and return its result. Raises what it raises."""


class _OwnLoop:
    """Runs each cell on a new loop; `run` and `call` block the caller's loop until they are done.

    The seed of a run draws the order of what happens at the same virtual time (`ties`), unless it is the default one.
    """

    async def run(self, main: Callable[[Clock], Coroutine[Any, Any, T]], settings: Settings) -> T:
        """Run `main(clock)` on a new loop, block until it has ended, and return its result.

        A seed of the run other than the default draws the order of what happens at the same virtual time (`ties`). Raises what
        `run_with_clock` raises.
        """
        ties = settings.seed if settings.seed != DEFAULT_SEED else None
        return run_with_clock(main, settings.clock, settings.scale, ties=ties)

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function, block the caller's loop until it returns, and return its result."""
        return function(*arguments)


class _SharedLoop:
    """Runs a cell on the caller's loop, beside other cells; `call` uses a thread, so that it does not block them."""

    async def run(self, main: Callable[[Clock], Coroutine[Any, Any, T]], settings: Settings) -> T:
        """Run `main(clock)` on the caller's loop and return its result; to be awaited in a task of `create_cell_task`.

        Raises what `run_on_shared_loop` raises.
        """
        return await run_on_shared_loop(main, settings)

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in a thread and return its result."""
        return await asyncio.to_thread(function, *arguments)


OWN_LOOP: CellLoop = _OwnLoop()
"""A new loop, which blocks the caller until the cell has ended."""

SHARED_LOOP: CellLoop = _SharedLoop()
"""The running loop of the caller, in a task of `create_cell_task`; not for a clock that jumps."""


def run_without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends, such as one that runs a cell on OWN_LOOP.

    Raises RuntimeError when it suspends.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine that was to run on OWN_LOOP waited for the caller's loop")
