"""Cells in flight: up to N at once in one loop, begun in the order of collection, and asked for in it.

The loop has a thread of its own, so that it goes on while pytest reports a result.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from conformance.run.cell_loop import create_cell_task, tracked_task_factory

T = TypeVar("T")

Job = Callable[[], Awaitable[T]]


def _never(result: object) -> bool:
    return False


class JobPool(Generic[T]):
    """Runs jobs, at most `most` of them at a time; `chunks` begins no job before one of its own chunk is asked for.

    A job of whose result `needs_rerun` says so is done once more, alone, after all others that have begun; what comes of it
    then is its result. `running` has the names of those that have begun and not ended.
    """

    def __init__(
        self, jobs: Sequence[tuple[str, Job[T]]], most: int, *, chunks: bool, needs_rerun: Callable[[T], bool] = _never
    ) -> None:
        self.running: set[str] = set()
        self._jobs = dict(jobs)
        self._most = most
        self._chunks = chunks
        self._needs_rerun = needs_rerun
        self._beside = 0
        self._alone = asyncio.Condition()
        self._tasks: dict[str, asyncio.Task[list[T]]] = {}
        self._begun: set[str] = set()
        self._room = asyncio.Semaphore(most)
        self._loop = asyncio.SelectorEventLoop()
        self._loop.set_task_factory(tracked_task_factory)  # type: ignore[arg-type]  # typeshed wants less than asyncio gives
        self._thread = threading.Thread(target=self._loop.run_forever, name="cells", daemon=True)

    def result(self, name: str) -> T:
        """Return a job's result, as soon as it is there. Raises what it raised, and KeyboardInterrupt."""
        if not self._thread.ident:
            self._thread.start()
        return self._call(self._wait(name)).pop()

    def close(self) -> None:
        """Cancel what is still in flight, and wait until it has cleaned up."""
        if self._thread.ident:
            self._call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def _call(self, coro: Coroutine[Any, Any, list[T]]) -> list[T]:
        future: Future[list[T]] = asyncio.run_coroutine_threadsafe(coro, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _wait(self, name: str) -> list[T]:
        if name not in self._tasks:
            for one in self._due(name):
                self._beside += 1
                self._tasks[one] = create_cell_task(self._run(one))
        try:
            return await self._tasks[name]
        finally:
            del self._tasks[name]

    def _due(self, name: str) -> list[str]:
        """Return what may begin when a job is asked for: all, or the rest of its chunk; later, only itself."""
        names, begun = list(self._jobs), self._begun
        start = names.index(name) // self._most * self._most if self._chunks else 0
        due = names[start : start + self._most] if self._chunks else names
        self._begun = begun | set(due)
        return [one for one in due if one not in begun] or [name]

    async def _run(self, name: str) -> list[T]:
        """Return a job's result, in a list: asyncio takes the repr of a result, and that of a history is seconds long."""
        try:
            async with self._room:
                result = await self._fly(name)
        finally:
            async with self._alone:
                self._beside -= 1
                self._alone.notify_all()
        if not self._needs_rerun(result):
            return [result]
        async with self._alone:  # held until it has ended: the next one waits
            await self._alone.wait_for(lambda: not self._beside)
            return [await self._fly(name)]

    async def _fly(self, name: str) -> T:
        self.running.add(name)
        try:
            return await self._jobs[name]()
        finally:
            self.running.discard(name)

    async def _end(self) -> list[T]:
        left = list(self._tasks.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._loop.shutdown_default_executor()
        return []
