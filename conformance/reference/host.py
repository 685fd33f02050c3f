"""What every part of a node shares: configuration, clock, storage, seeded randomness, log, and supervised tasks."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any

from conformance.reference.clock import Clock
from conformance.reference.config import NodeConfiguration, Transport
from conformance.reference.storage.database import Database
from conformance.reference.storage.delivered import Delivered
from conformance.reference.storage.discards import Discards
from conformance.reference.storage.identity import Identity
from conformance.reference.storage.messages import Messages
from conformance.reference.storage.shadows import Shadows


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


class Host:
    """One node's shared ground. `config` is replaced as a whole on reload; never keep a part of it."""

    def __init__(
        self,
        config: NodeConfiguration,
        clock: Clock,
        db: Database,
        identity: Identity,
        tasks: Tasks,
        log: logging.Logger,
    ) -> None:
        self.config = config
        self.clock = clock
        self.db = db
        self.identity = identity
        self.tasks = tasks
        self.log = log
        self.random = random.Random(f"{config.seed}:{config.name}")  # noqa: S311  # spreads load, keeps no secret
        self.messages = Messages(db)
        self.shadows = Shadows(db)
        self.discards = Discards(db)
        self.delivered = Delivered(db)

    @property
    def transport(self) -> Transport:
        """The transport parameters in force."""
        return self.config.transport

    def now(self) -> float:
        """Return the wall-clock time, POSIX seconds."""
        return self.clock.now()

    def reached(self, due: float) -> bool:
        """Return whether a due time has come; a timer may ring a rounding error before its time."""
        return due <= self.clock.now() + 0.001


class Alarm:
    """One timer for the earliest of many due times; it holds no timer while nothing is due."""

    def __init__(self, host: Host, ring: Callable[[], None]) -> None:
        self._host = host
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
            delay = max(0.0, due - self._host.now())
            self._handle = asyncio.get_running_loop().call_later(delay, self._rung)

    @property
    def is_set(self) -> bool:
        """Whether it will ring."""
        return self._handle is not None

    def cancel(self) -> None:
        """Do not ring."""
        self._due = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _rung(self) -> None:
        self._due = self._handle = None
        self._ring()
