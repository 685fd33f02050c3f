"""What is to be done soon, at a time, or when a socket is readable: handles, in asyncio's word, that cost less to make."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any


class Reader:
    """What is done when a transport's socket is readable: a handle (asyncio's word) of the loop's own, which needs none of
    the contexts that asyncio's copies and enters."""

    __slots__ = ("_cancelled", "_run")

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._cancelled = False

    def cancel(self) -> None:
        """Do nothing any more, also if it is ready."""
        self._cancelled = True


def _begin(self: asyncio.Handle, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Any) -> None:
    """Make a handle in one step, and without what is for debugging: there are dozens to a session."""
    self._context = copy_context() if context is None else context
    self._loop = loop
    self._callback = callback
    self._args = args
    self._cancelled = False
    self._repr = self._source_traceback = None


class Soon(asyncio.Handle):
    """asyncio's, made at less cost."""

    __slots__ = ()
    __init__ = _begin


class Timer(asyncio.TimerHandle):
    """Likewise, and cancelled at less."""

    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Any) -> None:
        _begin(self, callback, args, loop, context)
        self._when = when
        self._scheduled = False

    def cancel(self) -> None:
        """See asyncio.TimerHandle; without what is for debugging."""
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            self._loop._timer_handle_cancelled(self)
