"""What runs a cell on a clock, and leaves nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, cast

from conformance.clocks import ClockName
from conformance.run.clocks.interface import Clock, keepers
from conformance.run.deadline import LoopBlocked
from conformance.run.virtual.errors import waiting
from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.run.virtual.seams import left_open

T = TypeVar("T")

_KEEPERS = keepers()

_FAREWELL = 10
"""Turns of the loop that sockets being closed, and what serves them, get to notice: asyncio needs two, TLS a few."""

_REAL_FAREWELL, _BEAT = 100, 0.02
"""Looks that they get in real time, and seconds between two: the other end of a socket may be a process that needs a core."""

_INTERRUPTIONS = 20
"""So often code that blocks the loop is interrupted while a cell is cleaned up: each node may do so."""


class Leftovers(RuntimeError):
    """A cell ended and left tasks or connections behind. They have been cancelled and aborted."""


def run_with_clock(main: Callable[[Clock], Awaitable[T]], name: ClockName, scale: float = 1.0) -> T:
    """Run `main(clock)` on a new loop with the clock of that name, and close everything.

    `scale` is for the scaled clock only. An interrupt (Ctrl-C) cancels `main`, lets it clean up, and is raised as
    KeyboardInterrupt. Raises ClockError when virtual time cannot go on, and Leftovers when `main` returned and left
    tasks or connections behind (when it raised, the leftovers are added to its error as a note); ValueError for a
    scale that is none; LoopBlocked as soon as everything was cancelled.
    """
    results: list[T] = []
    mains: list[asyncio.Task[None]] = []

    async def keep() -> None:  # beside the task: asyncio.Runner takes its repr, and that of a history is seconds long
        mains.append(cast("asyncio.Task[None]", asyncio.current_task()))
        results.append(await _run(main, name, scale))

    with asyncio.Runner(loop_factory=_KEEPERS[name].make_loop) as runner:
        try:
            runner.run(keep())
        except LoopBlocked:
            _clean_up_blocked(runner.get_loop(), mains[0])
            raise
    return results[0]


def _clean_up_blocked(loop: asyncio.AbstractEventLoop, main: asyncio.Task[None]) -> None:
    """Cancel `main` and let it clean up, also where code of another task blocks the loop in its turn."""
    main.cancel()
    for _ in range(_INTERRUPTIONS):
        if not main.done():
            with suppress(LoopBlocked, asyncio.CancelledError):
                loop.run_until_complete(main)


async def _run(main: Callable[[Clock], Awaitable[T]], name: ClockName, scale: float) -> T:
    loop = asyncio.get_running_loop()
    clock = _KEEPERS[name](loop, scale)
    try:
        async with clock.guarded():
            result = await main(clock)
    except BaseException as error:
        if left := await _clean_up(loop):
            error.add_note(left)
        raise
    finally:
        clock.stop()
    if left := await _clean_up(loop):
        raise Leftovers(left)
    return result


async def _clean_up(loop: asyncio.AbstractEventLoop) -> str:
    """Cancel the tasks and close the sockets that are left; return what they were, in words."""
    virtual = isinstance(loop, VirtualClockEventLoop)
    if isinstance(loop, VirtualClockEventLoop):
        loop.look_every_turn()
    for _ in range(_FAREWELL if virtual else _REAL_FAREWELL):
        if len(asyncio.all_tasks(loop)) == 1 and not left_open(loop):
            break
        await asyncio.sleep(0 if virtual else _BEAT)
    words = []
    if tasks := asyncio.all_tasks(loop) - {asyncio.current_task(loop)}:
        words.append(f"tasks left behind:\n{waiting(tasks)}")
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        words += [f"  one ended with {outcome!r}" for outcome in outcomes if isinstance(outcome, Exception)]
    if sockets := left_open(loop):
        words.append("sockets left open:")
        for left in sockets:
            words.append(f"  {left.words}")
            left.close()
        await asyncio.sleep(0)
    return "\n".join(words)
