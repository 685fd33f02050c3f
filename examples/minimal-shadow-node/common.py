"""What the parts of a node share: its configuration, its database, the time, and what is under way."""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import Coroutine, Iterator
from typing import Any

from client import Client
from config import Config
from store import Store


def header(content: bytes, name: str) -> str | None:
    """Return the value of a header field, unfolded, or None."""
    head = b"\r\n" + content.partition(b"\r\n\r\n")[0] + b"\r\n"
    found = re.search(rb"\r\n" + name.encode() + rb"[ \t]*:([^\r\n]*(?:\r\n[ \t][^\r\n]*)*)", head, re.IGNORECASE)
    return found[1].replace(b"\r\n", b"").decode("latin-1").strip() if found else None


class Node:
    """Every part has it; `delivery`, `primary` and `shadow` are those parts."""

    delivery: Any
    primary: Any
    shadow: Any

    def __init__(self, config: Config) -> None:
        self.config, self.store = config, Store(config.data_dir)
        self.leaving, self._idle, self._changed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._working = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @staticmethod
    def log(text: str) -> None:
        """Write a line to the log."""
        sys.stderr.write(f"{time.time():.3f} {text}\n")

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Hold an orderly stop up while a message is in hand."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            if self.leaving.is_set() and not self._working:
                self._idle.set()

    async def finish(self) -> None:
        """Wait for what is in hand, up to five seconds."""
        if self._working:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), 5)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside everything else; asyncio reports a failure in the log."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def client(self, protocol: str, most: float = float("inf")) -> Client:
        """Return a client that waits as long as is configured, and at most that many seconds."""
        return Client(protocol, self.config.name, min(self.config["SendConnectionInactivityTimeout"], most))

    def configure(self, config: Config) -> None:
        """Take another configuration, and wake who waits for a time of the former one."""
        self.config = config
        self._changed.set()
        self._changed = asyncio.Event()

    async def pause(self, until: float) -> None:
        """Wait until a time by the wall clock, or until the configuration has changed."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), max(0.0, until - time.time()))
