"""The wall clock of a node, its supervised tasks, and its alarms: timers for points in wall-clock time.

Durations run on the event loop's timers; only time stamps come from the wall clock. The clock goes on while a node is down, so
time stamps on disk can be compared with it after a restart. An exception that ends a task or an alarm's callback goes to
`on_failure`, by which the node (node.py) learns that it has failed.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol
from weakref import WeakSet


class Clock(Protocol):
    """A source of time stamps."""

    def now(self) -> float:
        """Return the current time, POSIX seconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return the machine's time, POSIX seconds."""
        return time.time()


class Tasks:
    """The tasks of a node; `on_failure` is called with each exception that a task does not handle."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a coroutine as a task of the node, and return the task; `name` appears in asyncio's messages about it.

        It first runs in a later turn of the event loop.
        """
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    async def cancel(self) -> None:
        """Cancel all tasks but the current one, and wait, without limit, until they have ended; also tasks that start meanwhile."""
        while running := [task for task in self._running if task is not asyncio.current_task()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        """Forget a task that has ended, and pass the exception that ended it, if any, to `on_failure`; asyncio calls this."""
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)


class Alarms:
    """All alarms of a node, so that they can be cancelled together; `on_failure` is called with each exception of a callback.

    An alarm that nothing else refers to any more, and that is not set, is forgotten.
    """

    def __init__(self, clock: Clock, on_failure: Callable[[BaseException], None]) -> None:
        self.clock = clock
        self.on_failure = on_failure
        self._alarms: WeakSet[Alarm] = WeakSet()

    def new(self, callback: Callable[[], None]) -> "Alarm":
        """Return an alarm, not set, that calls `callback` when it is due; `cancel` will unset it with the others."""
        alarm = Alarm(self, callback)
        self._alarms.add(alarm)
        return alarm

    def cancel(self) -> None:
        """Cancel every alarm, as the node ends."""
        for alarm in tuple(self._alarms):
            alarm.cancel()


class Alarm:
    """A timer for a point in wall-clock time, which calls `callback`; while it is not set no timer is in the loop."""

    def __init__(self, alarms: Alarms, callback: Callable[[], None]) -> None:
        self._alarms = alarms
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self.due: float | None = None
        """When the alarm is due, POSIX seconds, or None when it is not set."""

    def set(self, due: float | None) -> None:
        """Set the alarm to `due` (POSIX seconds; if past, it calls back in the next turn of the loop), or unset it for None.

        An earlier setting is replaced.
        """
        self.cancel()
        if due is not None:
            self.due = due
            delay = max(0.0, due - self._alarms.clock.now())
            self._handle = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def cancel(self) -> None:
        """Unset the alarm: it does not call back until it is set again. Does nothing if it is not set."""
        self.due = None
        if self._handle is not None:
            self._handle.cancel()

    def _on_timer(self) -> None:
        """Unset the alarm, and call `callback`, which may set it again; the event loop calls this when the alarm is due.

        An exception of `callback` goes to `Alarms.on_failure`.
        """
        self.due = None
        try:
            self._callback()
        except Exception as error:  # noqa: BLE001  # whatever it is, the node must not go on without this timer
            self._alarms.on_failure(error)
