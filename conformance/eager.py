"""Work that begins at once, and becomes a task only where it has to wait: most of what a session does never has to, and a
task costs a turn of the loop before it begins."""

import asyncio
import types
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
    return asyncio.get_running_loop().create_task(_rest(work, awaited), name=name)


async def within(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Return what comes of the work. Raises TimeoutError when it has to wait, and is not done within so many seconds."""
    try:
        awaited = work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    async with asyncio.timeout(seconds):
        return await _wait_and_go_on(work, awaited)


async def _rest(work: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _wait_and_go_on(work, awaited)


@types.coroutine
def _wait_and_go_on(work: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    try:
        while True:
            try:
                said = yield awaited
            except BaseException as error:  # noqa: BLE001  # above all that it is cancelled: it has to know
                awaited = work.throw(error)
            else:
                awaited = work.send(said)
    except StopIteration as done:
        value: T = done.value
        return value
