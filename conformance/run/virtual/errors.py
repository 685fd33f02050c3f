"""Why a virtual clock cannot go on, told so that one can find what is waiting."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

_ASYNCIO = str(Path(asyncio.__file__).parent)

_SHOWN = 12
"""Tasks named in a message; more are counted."""

_DEPTH = 4
"""Coroutines, from the innermost outwards, that are named of each."""


class ClockError(RuntimeError):
    """Time cannot go on. The message tells what is waiting, and where."""


class Deadlock(ClockError):
    """Nothing is ready, under way or scheduled, and somebody still waits: time would never reach it."""


class Runaway(ClockError):
    """Time, or the loop at one moment, goes on and on: nothing comes of it, or no end. See `VirtualClockEventLoop`."""


class Stall(ClockError):
    """The kernel owes octets, a FIN or a connection that did not come within the real time allowed."""


class Exhausted(ClockError):
    """A connection cannot be accepted, since the process may open no more files: nothing frees any while time stands."""


class UnsupportedPython(RuntimeError):
    """This Python's asyncio is not as the virtual and the shifted clock need it, which stand on private names of it."""

    def __init__(self, unknown: Sequence[str]) -> None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        super().__init__(f"asyncio of Python {version} has another {', '.join(unknown)}: use --clock scaled")


def describe_tasks(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Return a line for each task that is not done: its name, and the innermost place where it waits."""
    pending = sorted((task for task in tasks if not task.done()), key=lambda t: (len(t.get_name()), t.get_name()))
    lines = [f"  {task.get_name()} in {_place(task)}" for task in pending[:_SHOWN]]
    if len(pending) > _SHOWN:
        lines.append(f"  and {len(pending) - _SHOWN} more")
    return "\n".join(lines) or "  no task"


def _place(task: asyncio.Task[Any]) -> str:
    """Return `function (file:line)` of the innermost coroutines that a task is in; of asyncio's own only the name."""
    places = [
        code.co_qualname if code.co_filename.startswith(_ASYNCIO) else f"{code.co_qualname} ({_short(code)}:{line})"
        for code, line in _frames(task.get_coro())
    ]
    return " > ".join(places[-_DEPTH:]) or "?"


def _short(code: CodeType) -> str:
    return Path(code.co_filename).name


def _frames(awaited: Any) -> Iterator[tuple[CodeType, int]]:
    """Walk from a coroutine to what it awaits, as far as Python code goes."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is not None:
            yield frame.f_code, frame.f_lineno
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
