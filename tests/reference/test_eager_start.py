"""`run_eagerly` runs a coroutine up to its first wait, and the rest in a task."""

import asyncio

import pytest

from conformance.reference.receive.eager_start import run_eagerly
from conformance.run.virtual.errors import describe_tasks


def test_a_coroutine_that_never_waits_runs_at_once_and_without_a_task() -> None:
    async def main() -> None:
        done = []

        async def work() -> None:
            done.append(asyncio.current_task())

        assert run_eagerly(work()) is None
        assert done == [asyncio.current_task()]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_a_task_runs_the_rest_with_results_and_exceptions_of_what_it_awaits() -> None:
    async def main() -> None:
        first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
        received = []

        async def work() -> None:
            received.append(await first)
            await asyncio.sleep(0)
            with pytest.raises(ValueError, match="second"):
                await second
            received.append(asyncio.current_task())

        task = run_eagerly(work(), name="rest")
        assert task is not None
        assert task.get_name() == "rest"
        assert received == []
        first.set_result("first")
        second.set_exception(ValueError("second"))
        await task
        assert received == ["first", task]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("turns", "yields", "passed"),
    [(0, 3, 0), (1, 3, 0), (2, 3, 1), (3, 3, 2), (6, 3, 3), (0, 0, 0), (1, 0, 0), (3, 0, 0)],
)
def test_a_cancellation_reaches_the_coroutine_wherever_it_waits(turns: int, yields: int, passed: int) -> None:
    """It lets others run `yields` times, and then waits for a future: without `yields` that is its first wait."""

    async def main() -> None:
        ended = []

        async def work() -> None:
            waits = 0
            try:
                while waits < yields:
                    await asyncio.sleep(0)
                    waits += 1
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append(waits)
                raise

        task = run_eagerly(work())
        assert task is not None
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [passed]

    asyncio.run(main())


def test_an_immediate_failure_is_raised_at_once_and_a_later_one_by_the_task() -> None:
    async def main() -> None:
        async def work(turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            raise ValueError(turns)

        with pytest.raises(ValueError, match="0"):
            run_eagerly(work(0))
        task = run_eagerly(work(2))
        assert task is not None
        with pytest.raises(ValueError, match="2"):
            await task

    asyncio.run(main())


def test_a_description_of_the_task_shows_where_the_coroutine_waits() -> None:
    async def main() -> None:
        event = asyncio.Event()

        async def waiter() -> None:
            await event.wait()

        task = run_eagerly(waiter(), name="rest")
        assert task is not None
        assert "rest in" in describe_tasks([task])
        line = waiter.__code__.co_firstlineno + 1
        assert f"waiter (test_eager_start.py:{line})" in describe_tasks([task])
        event.set()
        await task

    asyncio.run(main())
