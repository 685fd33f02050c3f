"""Cells in flight: up to N at once in one loop, begun in the order of collection, and asked for in it.

The loop runs while a result is waited for, and stands still while pytest reports one: what that costs the other cells
is measured by their clocks as the harness's own lag.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from conformance.run.together import in_family, make_task

T = TypeVar("T")

Job = Callable[[], Awaitable[T]]


class Flight(Generic[T]):
    """Runs jobs, at most `most` of them at a time; `chunks` begins no job before one of its own chunk is asked for."""

    def __init__(self, jobs: Sequence[tuple[str, Job[T]]], most: int, *, chunks: bool) -> None:
        self._jobs = dict(jobs)
        self._most = most
        self._chunks = chunks
        self._tasks: dict[str, asyncio.Task[list[T]]] = {}
        self._begun: set[str] = set()
        self._room: asyncio.Semaphore | None = None
        self._runner = asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)

    def result(self, name: str) -> T:
        """Return a job's result, as soon as it is there. Raises what it raised, and KeyboardInterrupt."""
        self._runner.get_loop().set_task_factory(make_task)  # type: ignore[arg-type]  # typeshed wants less than asyncio gives
        return self._runner.run(self._wait(name)).pop()

    async def _wait(self, name: str) -> list[T]:
        if self._room is None:
            self._room = asyncio.Semaphore(self._most)
        if name not in self._tasks:
            for one in self._due(name):
                self._tasks[one] = in_family(self._run(self._jobs[one], self._room))
        return await self._tasks.pop(name)

    def _due(self, name: str) -> list[str]:
        """Return what may begin when a job is asked for: all, or the rest of its chunk; later, only itself."""
        names, begun = list(self._jobs), self._begun
        start = names.index(name) // self._most * self._most if self._chunks else 0
        due = names[start : start + self._most] if self._chunks else names
        self._begun = begun | set(due)
        return [one for one in due if one not in begun] or [name]

    async def _run(self, job: Job[T], room: asyncio.Semaphore) -> list[T]:
        async with room:
            return [await job()]  # in a list: asyncio takes the repr of a result, and that of a history is seconds long

    def close(self) -> None:
        """Cancel what is still in flight, and wait until it has cleaned up."""
        self._runner.run(self._end())
        self._runner.close()

    async def _end(self) -> None:
        left = list(self._tasks.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
