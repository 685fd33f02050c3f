"""The control channel of a node that runs as a program: an administrator's commands, over a socket in its data directory.

One line of JSON in, {"command": name, "arguments": [...]}, and one out, {"answer": ...} or {"error": text}. Only who may
enter the data directory can speak here.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

SOCKET = "control.sock"
_LIMIT = 1 << 30
"""Octets of an answer: `inspect` tells of every message in one line."""

Command = Callable[[str, Sequence[str]], Awaitable[Any]]


class CommandFailed(Exception):
    """The node did not do what was asked, or does not run. The text says why."""


@asynccontextmanager
async def serving(directory: Path, command: Command) -> AsyncIterator[None]:
    """Answer commands as long as the context lasts."""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = json.loads(await reader.readline())
            answer = await _answer(command, str(asked["command"]), [str(word) for word in asked["arguments"]])
        except (ValueError, KeyError, TypeError) as error:
            answer = {"error": f"this is no command: {error}"}
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
        writer.close()

    with _short(directory) as path:
        path.unlink(missing_ok=True)  # of a node that was killed
        server = await asyncio.start_unix_server(session, path)
        try:
            yield
        finally:
            server.close()
            path.unlink(missing_ok=True)


async def _answer(command: Command, name: str, arguments: Sequence[str]) -> dict[str, Any]:
    try:
        return {"answer": await command(name, arguments)}
    except NotImplementedError:
        return {"error": f"there is no command {name!r} with {len(arguments)} arguments"}
    except ValueError as error:
        return {"error": str(error)}


async def ask(directory: Path, name: str, arguments: Sequence[str]) -> Any:
    """Have the node with that data directory do a command; return its answer. Raises CommandFailed."""
    try:
        with _short(directory) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=_LIMIT)
    except OSError as error:
        raise CommandFailed(f"no node runs in {directory}: {error}") from error
    writer.write(json.dumps({"command": name, "arguments": list(arguments)}).encode() + b"\n")
    line = await reader.readline()
    writer.close()
    if not line:
        raise CommandFailed(f"the node ended before it had answered {name}")
    answer = json.loads(line)
    if "error" in answer:
        raise CommandFailed(str(answer["error"]))
    return answer["answer"]


@contextmanager
def _short(directory: Path) -> Iterator[Path]:
    """Give the socket a path that is short enough for its address (108 octets), however deep the directory is."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{number}/{SOCKET}")
    finally:
        os.close(number)
