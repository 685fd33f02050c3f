"""A small server with shadow redundancy as Exchange 2013 and later have it: the program."""

import argparse
import asyncio
import json
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from common import Node
from config import Refused, read, revision
from defects import switch_on
from delivery import Delivery
from inspection import inspect
from primary import Primary
from session import Session
from shadow import Shadow


class Server:
    """The node's life: from its file to SIGTERM."""

    def __init__(self, path: Path) -> None:
        self._path, self._node = path, Node(read(path))
        for part in (Delivery, Primary, Shadow):
            setattr(self._node, part.__name__.lower(), part(self._node))
        self._sessions: set[Session] = set()

    async def run(self) -> None:
        """Serve until SIGTERM; then finish what is acknowledged, or is about to be."""
        node, loop = self._node, asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, node.leaving.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        servers = []
        for door, at in node.config.listeners.items():
            serve = partial(self._serve, door)
            servers.append(await asyncio.start_server(serve, at["host"], at["port"], backlog=1024))
        self._answer({"revision": node.config.revision, "applied": True})
        for one in node.store.messages("true"):
            if one.primary_name:
                node.shadow.watch(one.primary_name)
            else:
                node.primary.adopt(one)
        node.start(node.delivery.clean_up())
        await node.leaving.wait()
        for server in servers:
            server.close()
        for session in tuple(self._sessions):
            if not session.busy:
                session.end("421 4.3.2 this server leaves")
        await node.finish()

    async def _serve(self, door: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(self._node, door, reader, writer)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    def _reload(self) -> None:
        """Read the file again; it is applied as a whole, or not at all."""
        try:
            config = read(self._path)
            if config.fixed != self._node.config.fixed:
                raise Refused("name, generation, role, site, dag, data_dir: cannot change while the node runs")
        except Refused as error:
            self._answer({"revision": revision(self._path), "applied": False, "error": str(error)})
            return
        self._node.configure(config)
        for session in self._sessions:
            session.limit()
        self._answer({"revision": config.revision, "applied": True})

    def _answer(self, status: dict[str, Any]) -> None:
        """Replace the status file in one step."""
        path = self._node.config.status_file
        path.with_suffix(".new").write_text(json.dumps(status), "utf-8")
        path.with_suffix(".new").replace(path)


def main() -> int:
    """Run the node, or inspect one; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--defect", default="")
    parser.add_argument("command", nargs="?", choices=["inspect"])
    arguments = parser.parse_args()
    if arguments.defect:
        switch_on(arguments.defect)
    try:
        if arguments.command == "inspect":
            sys.stdout.write(json.dumps(inspect(read(arguments.config))) + "\n")
        else:
            asyncio.run(Server(arguments.config).run())
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
