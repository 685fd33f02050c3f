"""A watch on real time beside a loop: it rings on the loop, and interrupts code that keeps the loop from turning."""

import asyncio
import linecache
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

GRACE_S = 10.0
"""Real seconds that the loop has to turn once more before the code that runs on it is interrupted, again and again."""
_SIGNAL = signal.SIGRTMIN + 5
"""A signal that nothing else uses: it ends a blocking call of the operating system, too (PEP 475)."""


class LoopBlocked(KeyboardInterrupt):
    """Code on the loop did not return; says where it was. A KeyboardInterrupt, which asyncio lets out of its loop."""


class Watch:
    """Calls `ring` on the loop after so many real seconds, once.

    From then on, where the loop does not turn for GRACE_S, LoopBlocked is raised in the code that runs in the main thread;
    `ring` is not called any more. Code in C that neither returns nor looks for signals goes on all the same.
    """

    _current: "Watch | None" = None
    """The one of the main thread."""

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> None:
        self.rung = False
        self._interrupted = False
        self._seconds = seconds
        self._loop = loop
        self._ring = ring
        self._turned = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="cell timeout", daemon=True)
        self._main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> "Watch":
        if self._main:
            Watch._current = self
            signal.signal(_SIGNAL, _interrupt)  # it stays: without a watch it does nothing
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Watch._current = None if self._main else Watch._current
        self._ended.set()
        self._thread.join()

    def _wait(self) -> None:
        if self._ended.wait(self._seconds):
            return
        self._loop.call_soon_threadsafe(self._turn)
        while self._main and not self._ended.wait(GRACE_S):
            if self._turned.is_set():
                self._turned.clear()
                self._loop.call_soon_threadsafe(self._turn)
            else:
                signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)

    def _turn(self) -> None:
        """Note that the loop turns, and ring, unless what blocked it was interrupted, which tells the end already."""
        self._turned.set()
        if not self.rung and not self._interrupted and not self._ended.is_set():
            self.rung = True
            self._ring()

    def interrupt(self, where: str) -> None:
        """Raise LoopBlocked unless the loop has turned by now."""
        if not self._turned.is_set():
            self._interrupted = True
            raise LoopBlocked(where)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise LoopBlocked where the loop is blocked, in the code that blocks it."""
    if Watch._current is None:
        return
    where = "code that cannot be seen"
    if frame is not None:
        code = frame.f_code
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        where = f"{code.co_filename}, line {frame.f_lineno}, in {code.co_name}: {line}"
    Watch._current.interrupt(where)
