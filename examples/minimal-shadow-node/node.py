"""The program: a small server with the shadow redundancy of Exchange 2013 and later."""

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import sys
import time
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from config import Config, Refused, load
from defects import switch_on
from delivery import Delivery
from inspection import inspect
from primary import Primary
from session import Session
from shadow import Shadow
from store import Store

FIXED = ("name", "generation", "role", "site", "dag", "data_dir")


class Node:
    """The running node, from its file to SIGTERM, and the objects that all its parts share."""

    def __init__(self, path: Path) -> None:
        given = load(path)
        self._path, self.config = path, Config(given)
        self.store = Store(Path(self.config.data_dir))
        self.store.keep_file(given)
        self.delivery, self.primary, self.shadow = Delivery(self), Primary(self), Shadow(self)
        self.sessions: set[Session] = set()
        self.leaving, self._changed = asyncio.Event(), asyncio.Event()
        self._beside, self._in_hand = set[asyncio.Task[Any]](), set[asyncio.Task[Any]]()

    async def run(self) -> None:
        """Serve until SIGTERM; then finish the messages that are acknowledged, or whose final dot was received."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.leaving.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        servers = []
        for listener, at in self.config.listeners.items():
            serve = partial(self._serve, listener)
            servers.append(await asyncio.start_server(serve, at["host"], at["port"], limit=2**20, backlog=1024))
        self._answer({"revision": self.config.revision, "applied": True})
        for one in self.store.messages("true"):
            if one.primary_name:
                self.shadow.watch(one.primary_name)
            else:
                self.primary.adopt(one)
        self.start(self.delivery.clean_up())
        await self.leaving.wait()
        for server in servers:
            server.close()
        for session in self.sessions:
            if not session.busy:
                session.end("421 4.3.2 this server leaves")
        if self._in_hand:
            await asyncio.wait(self._in_hand, timeout=5)

    async def _serve(self, listener: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Session(self, listener, reader, writer).run()

    def start(self, work: Coroutine[Any, Any, Any], in_hand: bool = False) -> asyncio.Task[Any]:
        """Start a task; an orderly stop waits for its end if `in_hand` is true."""
        task, tasks = asyncio.create_task(work), self._in_hand if in_hand else self._beside
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    async def pause(self, until: float) -> None:
        """Wait until a time by the wall clock, or until the configuration has changed."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), max(0.0, until - time.time()))

    def _reload(self) -> None:
        """Read the file again; it is applied as a whole, or not at all."""
        status: dict[str, Any] = {"revision": 0, "applied": True}
        try:
            given = load(self._path)
            status["revision"] = given["revision"]
            config = Config(given)
            if any(getattr(config, key) != getattr(self.config, key) for key in FIXED):
                raise Refused(f"{', '.join(FIXED)}: cannot change while the node runs")
            self.config = config
            self.store.keep_file(given)
            self._changed.set()  # wakes who waits for a time of the former one
            self._changed = asyncio.Event()
        except (Refused, KeyError, TypeError) as error:
            status |= {"applied": False, "error": str(error)}
        self._answer(status)

    def _answer(self, status: dict[str, Any]) -> None:
        """Replace the status file in one step."""
        path = Path(self.config.status_file)
        path.with_suffix(".new").write_text(json.dumps(status), "utf-8")
        path.with_suffix(".new").replace(path)


def main() -> int:
    """Run the node, or the command `inspect`; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--defect", type=switch_on)
    parser.add_argument("command", nargs="?", choices=["inspect"])
    arguments = parser.parse_args()
    logging.basicConfig(format="%(created).3f %(message)s", level=logging.INFO)
    try:
        if arguments.command:
            sys.stdout.write(json.dumps(inspect(load(arguments.config)["data_dir"])) + "\n")
        else:
            asyncio.run(Node(arguments.config).run())
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
