"""Running a cell on a loop of its own, for callers without one, and on a shared loop."""

import asyncio
import threading

import pytest

from conformance.run.cell_loop import OWN_LOOP, SHARED_LOOP, create_cell_task, run_without_loop, tracked_task_factory
from conformance.run.clocks.interface import Clock
from conformance.run.settings import Settings


async def main(clock: Clock) -> float:
    await asyncio.sleep(0)
    return clock.elapsed()


def test_an_own_loop_gives_a_result_without_a_loop_and_in_the_callers_thread() -> None:
    assert run_without_loop(OWN_LOOP.run(main, Settings())) == 0.0
    assert run_without_loop(OWN_LOOP.call(threading.current_thread)) is threading.current_thread()


def test_what_waits_for_the_callers_loop_is_refused_and_closed() -> None:
    closed = []

    async def waits() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    with pytest.raises(RuntimeError, match="waited for the caller's loop"):
        run_without_loop(waits())
    assert closed == [True]


def test_a_shared_loop_is_the_callers_and_calls_run_in_another_thread() -> None:
    async def both() -> tuple[float, bool]:
        asyncio.get_running_loop().set_task_factory(tracked_task_factory)
        elapsed = await create_cell_task(SHARED_LOOP.run(main, Settings(clock="real")))
        return elapsed, await SHARED_LOOP.call(threading.current_thread) is not threading.current_thread()

    elapsed, elsewhere = asyncio.run(both())
    assert elapsed >= 0.0
    assert elsewhere
