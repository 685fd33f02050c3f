"""Errors of virtual time, and a description of what each task waits for, by which their cause can be found."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

_ASYNCIO = str(Path(asyncio.__file__).parent)

_MAX_TASKS = 12
"""Tasks described in a message; the rest is counted."""

_MAX_COROUTINES = 4
"""Coroutines named of each task, the innermost ones."""


class ClockError(RuntimeError):
    """Virtual or shifted time cannot go on. In this module's subclasses the message lists the tasks that wait, and where."""


class Deadlock(ClockError):
    """Tasks wait, but nothing is ready, in flight or scheduled that could wake them."""


class Runaway(ClockError):
    """The clock jumps, or the loop turns, again and again without progress, or there is progress again and again without a jump.

    The limits are those of `VirtualClockEventLoop`.
    """


class Stall(ClockError):
    """The kernel has not delivered octets, a FIN or a connection within the real time allowed."""


class Exhausted(ClockError):
    """A connection cannot be accepted, mostly since the process may open no more files; time stands still, so none is closed."""


class UnsupportedPython(RuntimeError):
    """The virtual and the shifted clock need private names of asyncio, and this Python's asyncio has others."""

    def __init__(self, unknown: Sequence[str]) -> None:
        """`unknown` has the names that are missing or different."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        super().__init__(f"asyncio of Python {version} has another {', '.join(unknown)}: use --clock scaled")


def describe_tasks(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Return a line for each task that has not ended: its name and the innermost coroutines in which it waits.

    Beyond _MAX_TASKS lines the rest is counted. Without such a task return a line that says so.
    """
    pending = sorted((task for task in tasks if not task.done()), key=lambda t: (len(t.get_name()), t.get_name()))
    lines = [f"  {task.get_name()} in {_waiting_place(task)}" for task in pending[:_MAX_TASKS]]
    if len(pending) > _MAX_TASKS:
        lines.append(f"  and {len(pending) - _MAX_TASKS} more")
    return "\n".join(lines) or "  no task"


def _waiting_place(task: asyncio.Task[Any]) -> str:
    """Return `outer (file:line) > inner (file:line)` for the innermost coroutines of a task; asyncio's without file and line.

    Return "?" when none of them can be seen.
    """
    places = [
        code.co_qualname
        if code.co_filename.startswith(_ASYNCIO)
        else f"{code.co_qualname} ({Path(code.co_filename).name}:{line})"
        for code, line in _frames(task.get_coro())
    ]
    return " > ".join(places[-_MAX_COROUTINES:]) or "?"


def _frames(awaited: Any) -> Iterator[tuple[CodeType, int]]:
    """Yield the code and the line of a coroutine or asynchronous generator, then of the one that it awaits, and so on."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is not None:
            yield frame.f_code, frame.f_lineno
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
