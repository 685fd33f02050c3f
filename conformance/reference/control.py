"""The control channel of a node that runs as a program: administrators' commands over a Unix socket in its data directory.

A request is one line of JSON, {"command": name, "arguments": [...]}; the response is one line, {"answer": ...} or
{"error": text}. Permission to enter the data directory is the only access control.
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
"""The longest response, octets: `inspect` lists every message in one line."""

Command = Callable[[str, Sequence[str]], Awaitable[Any]]


class CommandFailed(Exception):
    """The node refused a command, failed to run it, or is not running; the text says why."""


@asynccontextmanager
async def serve_commands(directory: Path, command: Command) -> AsyncIterator[None]:
    """Serve the control socket in `directory` while the context is open: await `command(name, arguments)` for each request.

    A socket that a killed node left there is replaced; the socket is removed at the end. Each connection has one request and one
    response. `command` raises NotImplementedError for an unknown command, and ValueError for one that it refuses: the response
    then is an `error`, as it is for a line that is not a request, and for any other exception of `command`, with its type.
    Raises OSError if the socket cannot be opened.
    """

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request, write its response and close the connection; asyncio calls this for each connection."""
        try:
            request = json.loads(await reader.readline())
            answer = await _answer(command, str(request["command"]), [str(word) for word in request["arguments"]])
        except (ValueError, KeyError, TypeError) as error:
            answer = {"error": f"not a valid command: {error}"}
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
        writer.close()

    with _short_socket_path(directory) as path:
        path.unlink(missing_ok=True)  # a node that was killed leaves its socket behind
        server = await asyncio.start_unix_server(handle, path)
        try:
            yield
        finally:
            server.close()
            path.unlink(missing_ok=True)


async def _answer(command: Command, name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a command; return the response: `answer`, or the `error` of one that is unknown (NotImplementedError), is refused or fails."""
    try:
        return {"answer": await command(name, arguments)}
    except NotImplementedError:
        return {"error": f"there is no command {name!r} with {len(arguments)} arguments"}
    except ValueError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001  # the client waits for a response, whatever has failed
        return {"error": f"{type(error).__name__}: {error}"}


async def send_command(directory: Path, name: str, arguments: Sequence[str]) -> Any:
    """Send a command to the running node with this data directory, and return its answer, a JSON value.

    Waits without limit for the answer. Raises CommandFailed if no node runs there, if the node ends before it answers, and if the
    command is unknown, refused or fails.
    """
    try:
        with _short_socket_path(directory) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=_LIMIT)
    except OSError as error:
        raise CommandFailed(f"no node is running in {directory}: {error}") from error
    writer.write(json.dumps({"command": name, "arguments": list(arguments)}).encode() + b"\n")
    try:
        line = await reader.readline()
    except ConnectionError:  # killed before it read the request
        line = b""
    writer.close()
    if not line:
        raise CommandFailed(f"the node ended before it answered {name}")
    answer = json.loads(line)
    if "error" in answer:
        raise CommandFailed(str(answer["error"]))
    return answer["answer"]


@contextmanager
def _short_socket_path(directory: Path) -> Iterator[Path]:
    """Yield a path to the socket that fits into a socket address (108 octets), however deep the directory is.

    The path leads through an open descriptor of the directory and is valid within the context only. Raises OSError if the
    directory cannot be opened.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.close(descriptor)
