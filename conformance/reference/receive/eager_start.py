"""Starting a coroutine at once, without a task for the part before it first waits (as Python 3.12's eager tasks do)."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def run_eagerly(coroutine: Coroutine[Any, Any, None], *, name: str | None = None) -> asyncio.Task[None] | None:
    """Run a coroutine until it first waits; return the task that runs the rest, or None if it has ended.

    The first part runs in no task of its own, so it must not use the current task (as `asyncio.timeout` does). An exception in it
    is raised here. fast_smtp.py runs each command of a session so.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    rest: Any = _StartedCoroutine(coroutine, awaited)
    return asyncio.get_running_loop().create_task(rest, name=name)


class _StartedCoroutine(Generator[Any, Any, None]):
    """The rest of a coroutine that has been run until it awaited `awaited`, as a coroutine for a task."""

    cr_frame = None

    def __init__(self, coroutine: Coroutine[Any, Any, None], awaited: Any) -> None:
        self.cr_await = coroutine  # descriptions of a waiting task follow this attribute
        self._awaited = [awaited]

    def __await__(self) -> "_StartedCoroutine":
        """Return the object itself, which is its own iterator."""
        return self

    def send(self, value: Any) -> Any:
        """Return, at the first call, the future that the coroutine already awaits, so that the task waits for it.

        Later calls resume the coroutine with `value`, and return what it awaits next. Raises StopIteration when the coroutine
        ends.
        """
        return self._awaited.pop() if self._awaited else self.cr_await.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the coroutine, also if the task is cancelled before its first step; return what the coroutine awaits next."""
        self._awaited.clear()
        return self.cr_await.throw(*error)
