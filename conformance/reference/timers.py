"""The wall clock of a node. Durations run on the event loop's timers; only stamps are taken from here."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol


class Clock(Protocol):
    """Where stamps come from."""

    def now(self) -> float:
        """Return the current time, POSIX seconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return the machine's time, POSIX seconds."""
        return time.time()


class Tasks:
    """The tasks of a node: each is owned, and an exception that nobody expected makes the node fail loudly."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run work as a task of the node."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def cancel(self) -> None:
        """Cancel all tasks and return when they have ended."""
        while running := [task for task in self._running if task is not asyncio.current_task()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)


class Alarms:
    """All alarms of a node."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._set: set[Alarm] = set()

    def new(self, ring: Callable[[], None]) -> "Alarm":
        """Return an alarm that is not set."""
        return Alarm(self, ring)

    def cancel(self) -> None:
        """Have none of them ring."""
        for alarm in tuple(self._set):
            alarm.cancel()

    def track(self, alarm: "Alarm", *, is_set: bool) -> None:
        """Know which alarms are set."""
        if is_set:
            self._set.add(alarm)
        else:
            self._set.discard(alarm)


class Alarm:
    """One timer for the earliest of many due times; it holds no timer while nothing is due."""

    def __init__(self, alarms: Alarms, ring: Callable[[], None]) -> None:
        self._alarms = alarms
        self._ring = ring
        self._due: float | None = None
        self._handle: asyncio.TimerHandle | None = None

    def set(self, due: float | None) -> None:
        """Ring at `due` (POSIX seconds; at once when past) and not when set before; None: not at all."""
        if due == self._due and self._handle is not None:
            return
        self.cancel()
        if due is not None:
            self._due = due
            delay = max(0.0, due - self._alarms.clock.now())
            self._handle = asyncio.get_running_loop().call_later(delay, self._on_timer)
            self._alarms.track(self, is_set=True)

    @property
    def is_set(self) -> bool:
        """Whether it will ring."""
        return self._handle is not None

    @property
    def due(self) -> float | None:
        """When it will ring, POSIX seconds."""
        return self._due

    def cancel(self) -> None:
        """Do not ring."""
        self._due = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._alarms.track(self, is_set=False)

    def _on_timer(self) -> None:
        self._due = self._handle = None
        self._alarms.track(self, is_set=False)
        self._ring()
