"""Runs coroutines concurrently while pytest runs its items one after another.

Theory of operation
-------------------

pytest asks for the result of one item at a time, in the order of collection (`JobPool.result`, which blocks). The jobs run
on an event loop in a thread of its own, so they go on while pytest reports a result. At most `limit` run at a time, begun in
their order; a semaphore admits the next when one has ended. Jobs that load the machine more than others have a semaphore of
their own, with a sixth of the slots: few of them run at a time, and the others do not wait behind them.

In a worker of xdist, which learns late which items it gets, jobs are grouped in chunks of `limit` consecutive ones (as
`ChunkScheduling` hands them out): only the chunk of the job that is asked for is begun.

A job whose result `needs_rerun` (its timing suffered from the others) is run a second time with no other job beside it: it
waits until the first run of every job that was begun has ended, also of those that no slot was free for yet, and holds the lock
that other reruns wait for.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from conformance.run.cell_loop import create_cell_task, tracked_task_factory

T = TypeVar("T")

Job = Callable[[], Awaitable[T]]


class JobPool(Generic[T]):
    """Runs named jobs, at most `limit` of them at a time; with `chunks` only those of the chunk that is asked for.

    A sixth of `limit`, at least one, is for the jobs in `heavy`, and the rest for the others. Of a job that is run twice the second
    result counts. `running` are the names of the jobs that have begun and not ended. `_tasks` has the tasks of the jobs that were
    begun and not asked for yet, `_begun` the names of all that were begun; `_slots` and `_heavy_slots` admit `limit` jobs together,
    and `_unfinished` counts the begun jobs whose first run has not ended. A task returns its job's last result, in a list that
    `result` empties: asyncio would format the result of a task that has ended.
    """

    def __init__(
        self,
        jobs: Sequence[tuple[str, Job[T]]],
        limit: int,
        *,
        chunks: bool,
        needs_rerun: Callable[[T], bool] = lambda result: False,
        heavy: Collection[str] = (),
    ) -> None:
        self.running: set[str] = set()
        self._jobs = dict(jobs)
        self._limit = limit
        self._chunks = chunks
        self._needs_rerun = needs_rerun
        self._unfinished = 0
        self._rerun_lock = asyncio.Condition()
        self._tasks: dict[str, asyncio.Task[list[T]]] = {}
        self._begun: set[str] = set()
        self._heavy = frozenset(heavy) if limit > 1 else frozenset()
        for_heavy = max(1, limit // 6) if self._heavy else 0
        self._heavy_slots = asyncio.Semaphore(for_heavy)
        self._slots = asyncio.Semaphore(limit - for_heavy)
        self._loop = asyncio.SelectorEventLoop()
        self._loop.set_task_factory(tracked_task_factory)  # type: ignore[arg-type]  # typeshed wants less than asyncio gives
        self._thread = threading.Thread(target=self._loop.run_forever, name="cells", daemon=True)

    def result(self, name: str) -> T:
        """Begin the jobs that are due, block until the named one has ended, and return its result.

        Raises what the job raised, and KeyboardInterrupt.
        """
        if not self._thread.ident:
            self._thread.start()
        return self._run_in_thread(self._wait_for_result(name)).pop()

    def close(self) -> None:
        """Cancel the jobs that have not ended, and block until they have cleaned up and the thread has ended."""
        if self._thread.ident:
            self._run_in_thread(self._cancel_all())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def _run_in_thread(self, coroutine: Coroutine[Any, Any, list[T]]) -> list[T]:
        """Run a coroutine on the pool's loop, block until it has ended, and return its result.

        Raises what it raises. A KeyboardInterrupt in this thread cancels it.
        """
        future: Future[list[T]] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _wait_for_result(self, name: str) -> list[T]:
        """Begin the jobs that are due now, and return the result of the named one, in a list.

        The task is forgotten then: a job that is asked for again is run again.
        """
        if name not in self._tasks:
            for due in self._take_due(name):
                self._unfinished += 1
                self._tasks[due] = create_cell_task(self._run_job(due))
        try:
            return await self._tasks[name]
        finally:
            del self._tasks[name]

    def _take_due(self, name: str) -> list[str]:
        """Return the jobs to begin when one is asked for, and count them as begun: all, or those of its chunk.

        Jobs that have begun before are left out; if all have, only the one that is asked for is returned, to be run again.
        """
        names, begun = list(self._jobs), self._begun
        start = names.index(name) // self._limit * self._limit if self._chunks else 0
        due = names[start : start + self._limit] if self._chunks else names
        self._begun = begun | set(due)
        return [job for job in due if job not in begun] or [name]

    async def _run_job(self, name: str) -> list[T]:
        """Run a job when a slot is free, and once more, alone, if `needs_rerun` says so; return its last result in a list.

        `_unfinished` counts the begun jobs whose first run has not ended. `result` empties the list: asyncio formats
        the result of a task that has ended, which takes seconds for a history.
        """
        try:
            async with self._heavy_slots if name in self._heavy else self._slots:
                result = await self._run_once(name)
        finally:
            async with self._rerun_lock:
                self._unfinished -= 1
                self._rerun_lock.notify_all()
        if not self._needs_rerun(result):
            return [result]
        async with self._rerun_lock:  # held until this run has ended: another rerun waits
            await self._rerun_lock.wait_for(lambda: not self._unfinished)
            return [await self._run_once(name)]

    async def _run_once(self, name: str) -> T:
        """Run a job and return its result; its name is in `running` for as long."""
        self.running.add(name)
        try:
            return await self._jobs[name]()
        finally:
            self.running.discard(name)

    async def _cancel_all(self) -> list[T]:
        """Cancel all tasks and wait for them; return [], the type that `_run_in_thread` needs."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()
        return []
