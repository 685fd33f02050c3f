"""`OWN_LOOP` runs a cell on a new loop, for callers without one; `SHARED_LOOP` on the loop of the caller."""

import asyncio
import inspect
import threading

import pytest

from conformance.run.cell_loop import OWN_LOOP, SHARED_LOOP, create_cell_task, run_without_loop, tracked_task_factory
from conformance.run.clocks.interface import Clock
from conformance.run.settings import Settings


async def main(clock: Clock) -> tuple[asyncio.AbstractEventLoop, float]:
    """Be a cell that returns its loop and its elapsed time."""
    await asyncio.sleep(0)
    return asyncio.get_running_loop(), clock.elapsed()


async def thread_of(clock: Clock) -> threading.Thread:
    """Be a cell that returns its thread."""
    await asyncio.sleep(0)
    return threading.current_thread()


def test_own_loop_runs_in_the_callers_thread_without_a_running_loop() -> None:
    loop, elapsed = run_without_loop(OWN_LOOP.run(main, Settings()))
    assert loop.is_closed()
    assert elapsed == 0.0
    assert run_without_loop(OWN_LOOP.run(thread_of, Settings())) is threading.current_thread()
    assert run_without_loop(OWN_LOOP.call(threading.current_thread)) is threading.current_thread()


def test_a_coroutine_that_waits_for_the_callers_loop_is_refused_and_closed() -> None:
    async def waits() -> None:
        await asyncio.sleep(0)

    coroutine = waits()
    with pytest.raises(RuntimeError, match="waited for the caller's loop"):
        run_without_loop(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def test_shared_loop_runs_on_the_callers_loop_and_calls_in_another_thread() -> None:
    async def both() -> tuple[bool, bool]:
        own = asyncio.get_running_loop()
        own.set_task_factory(tracked_task_factory)
        loop, _ = await create_cell_task(SHARED_LOOP.run(main, Settings(clock="real")))
        return loop is own, await SHARED_LOOP.call(threading.current_thread) is not threading.current_thread()

    assert asyncio.run(both()) == (True, True)
