"""Work that begins at once, and becomes a task only where it has to wait: most of what a session does never has to, and a
task costs a turn of the loop before it begins."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


def begin(work: Coroutine[Any, Any, None], *, name: str | None = None) -> asyncio.Task[None] | None:
    """Do what can be done now; return the task that does the rest, None when all is done.

    What is done now is in no task: it must not ask for the one that it is in, as `asyncio.timeout` does, before it has
    waited. Raises what the work raises before it waits.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    rest: Any = _Rest(work, awaited)
    return asyncio.get_running_loop().create_task(rest, name=name)


async def within(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Return what comes of the work. Raises TimeoutError when it has to wait, and is not done within so many seconds."""
    try:
        awaited = work.send(None)
    except StopIteration as done:
        value: T = done.value
    else:
        async with asyncio.timeout(seconds):
            value = await _Rest(work, awaited)
    return value


class _Rest(Generator[Any, Any, T]):
    """The rest of a coroutine that waits for `awaited`, as a coroutine."""

    cr_frame = None

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any) -> None:
        self.cr_await = work  # where one looks for the place at which a task waits
        self._awaited = [awaited]

    def __await__(self) -> "_Rest[T]":
        return self

    def send(self, value: Any) -> Any:
        """See Coroutine: what is awaited already comes first."""
        return self._awaited.pop() if self._awaited else self.cr_await.send(value)

    def throw(self, *error: Any) -> Any:
        """See Coroutine. A task that is cancelled before it runs has its work cancelled all the same."""
        self._awaited.clear()
        return self.cr_await.throw(*error)
