"""A relay that misbehaves: a node of the `python` kind whose defect names its misdeed.

It has no queue: it relays each message before it replies. `python -m tests.nodes.hostile CONFIG MISDEED` runs it as a
program, which has more misdeeds.
"""

import asyncio
import itertools
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from conformance.nodes.python_node import WallClock

PHASES = ("greeting", "EHLO", "MAIL", "RCPT", "DATA", "dot", "QUIT")
"""Phases of a session at which it can hang: `hangs-at-PHASE`."""

FLOOD = 512 * 1024
"""Octets of a flood: more than any buffer on the way to the client holds."""

Misdeed = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def endless_line(writer: asyncio.StreamWriter) -> None:
    """Send a reply whose line never ends."""
    writer.write(b"250 ")
    for _ in range(FLOOD // 4096):
        writer.write(b"x" * 4096)
        await writer.drain()
    await asyncio.Event().wait()


async def endless_reply(writer: asyncio.StreamWriter) -> None:
    """Send a reply that always has another line."""
    for _ in range(FLOOD // 64):
        writer.write(b"250-" + b"y" * 58 + b"\r\n")
        await writer.drain()
    await asyncio.Event().wait()


async def unasked_replies(writer: asyncio.StreamWriter) -> None:
    """Send replies to no command."""
    for _ in range(FLOOD // 64):
        writer.write(b"250 " + b"z" * 58 + b"\r\n")
        await writer.drain()


async def garbage(writer: asyncio.StreamWriter) -> None:
    """Send octets that are no reply, with line ends among them."""
    writer.write(bytes(range(256)) * 16 + b"\r\n\0\r\r\n\n")


async def half_a_reply(writer: asyncio.StreamWriter) -> None:
    """Send half a reply and close the connection."""
    writer.write(b"25")
    writer.close()


async def resets(writer: asyncio.StreamWriter) -> None:
    """Reset the connection instead of replying."""
    writer.transport.abort()


FLOODS: dict[str, Misdeed] = {
    "endless-line": endless_line,
    "endless-reply": endless_reply,
    "unasked-replies": unasked_replies,
    "garbage": garbage,
    "half-a-reply": half_a_reply,
    "resets": resets,
}
"""What it can send in place of a reply to MAIL."""


def forks_and_dies() -> None:
    """Fork a child that starts its own session, and exit with 7."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)
    os._exit(7)


def fills_its_disk() -> None:
    """Write files until it is killed."""
    for number in itertools.count():
        Path(sys.argv[1]).with_name("data").joinpath(str(number)).write_bytes(b"x" * 65536)


def prints_megabytes() -> None:
    """Print megabytes with terminal control sequences and HTML."""
    for _ in range(4096):
        sys.stdout.write("\x1b[2J<script>alert(1)</script>" + "x" * 1024 + "\n")
    sys.stdout.flush()


DEEDS: dict[str, Callable[[], None]] = {
    "forks-and-dies": forks_and_dies,
    "fills-its-disk": fills_its_disk,
    "prints-megabytes": prints_megabytes,
}
"""What a program can do after it relayed a message and before it replies."""


class Hostile:
    """A hostile node."""

    failure: str | None = None

    def __init__(self, configuration: dict[str, Any], misdeed: str) -> None:
        self._listener = configuration["listeners"]["frontend"]
        self._hop = next(r["next_hops"][0]["dial"] for r in configuration["routes"] if r["domain"] == "*")
        self._misdeed = misdeed
        self._server: asyncio.Server | None = None
        self._silent_socket: socket.socket | None = None
        self._sessions: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        if self._misdeed == "hangs-at-connect":
            self._silent_socket = socket.create_server((self._listener["host"], self._listener["port"]))
            return
        self._server = await asyncio.start_server(self._accept, self._listener["host"], self._listener["port"])

    async def stop(self) -> None:
        await self.kill()

    async def kill(self) -> None:
        if self._silent_socket is not None:
            self._silent_socket.close()
        if self._server is not None:
            self._server.close()
        for task in self._sessions:
            task.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)

    async def reload(self) -> None:
        raise NotImplementedError

    async def command(self, name: str, arguments: Sequence[str]) -> Any:
        raise NotImplementedError

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._session(reader, writer))
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        except ConnectionError:
            return
        finally:
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._say(writer, "greeting", b"220 here")
        envelope: list[bytes] = []
        while line := (await reader.readline()).strip():
            verb = line.split(b" ")[0].split(b":")[0].upper().decode("latin-1")
            if verb == "DATA":
                await self._say(writer, verb, b"354 go on")
                content = await reader.readuntil(b"\r\n.\r\n")
                await self._relay(envelope, content)
                if (deed := DEEDS.get(self._misdeed)) is not None:
                    deed()
                await self._say(writer, "dot", b"250 relayed")
            elif verb == "QUIT":
                await self._say(writer, verb, b"221 bye")
                if self._misdeed == "never-closes":
                    await asyncio.Event().wait()
                return
            else:
                envelope = [line] if verb == "MAIL" else [*envelope, line] if verb == "RCPT" else envelope
                await self._say(writer, verb, b"250 yes")

    async def _say(self, writer: asyncio.StreamWriter, phase: str, reply: bytes) -> None:
        if self._misdeed == f"hangs-at-{phase}":
            await asyncio.Event().wait()
        if phase == "MAIL" and (flood := FLOODS.get(self._misdeed)) is not None:
            await flood(writer)
            return
        writer.write(reply + b"\r\n")
        await writer.drain()

    async def _relay(self, envelope: Sequence[bytes], content: bytes) -> None:
        reader, writer = await asyncio.open_connection(*self._hop)
        await reader.readline()
        for line in (b"EHLO mta1.test", *envelope, b"DATA", content.removesuffix(b"\r\n"), b"QUIT"):
            writer.write(line + b"\r\n")
            while (await reader.readline())[3:4] == b"-":
                continue
        writer.close()
        await writer.wait_closed()


def create(path: Path, clock: WallClock, defect: str | None) -> Hostile:
    """Make a node (the factory of a description)."""
    return Hostile(json.loads(path.read_text("utf-8")), defect or "")


async def serve(config: dict[str, Any], misdeed: str) -> None:
    """Run a node until SIGTERM; the misdeed `ignores-sigterm` ignores it."""
    leave = asyncio.Event()
    ignored = misdeed == "ignores-sigterm"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, (lambda: None) if ignored else leave.set)
    node = Hostile(config, misdeed)
    await node.start()
    await leave.wait()
    await node.stop()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text("utf-8")), sys.argv[2]))
