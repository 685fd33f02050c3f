"""How the harness learns that a node is ready, and that it has applied a reload (docs/node-contract.md).

A node is ready when every listener of its configuration greets with 220. It answers a reload by its status file
(contract 2), by a line of its log (contract 1), or by the exit code of the `reload` command of its description. Neither
greetings nor these files make an event that another process could wait for, so they are polled until a deadline.
"""

import asyncio
import contextlib
import os
import stat
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from pydantic import ValidationError

from conformance.candidates.description import Candidate
from conformance.nodes.contract import REFUSED, CommandFailed, ConfigurationRefused, NodeConfiguration, NodeError
from conformance.nodes.document import Status
from conformance.nodes.node_directory import NodeDirectory
from conformance.nodes.node_log import NodeLog

_CONNECT_INTERVAL = 0.02
"""Seconds between two attempts to connect to a listener."""

_ANSWER_INTERVAL = 0.01
"""Seconds between two looks for the answer to a reload."""

_MAX_LOG_OCTETS = 2**20
"""Octets of a log, from the reload on, in which an answer is looked for."""

MAX_STATUS_OCTETS = 4096
"""Octets of the largest status file that is accepted."""


async def read_greeting(host: str, port: int) -> str | None:
    """Connect to a listener, read its greeting, say QUIT, and return the greeting.

    None when the connection is refused, breaks, or ends without a line: the listener may not be ready yet. It waits without a
    deadline for the connection, the line, and the answer to QUIT or the end. Raises ValueError when the first line is not an
    SMTP greeting with code 220.
    """
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return None
    try:
        line = (await reader.readline()).decode("latin-1").strip()
        writer.write(b"QUIT\r\n")
        await writer.drain()
        await reader.read(512)
    except OSError:
        return None
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if not line:
        return None
    if not line.startswith("220"):
        raise ValueError(f"said {line[:80]!r} in place of a 220 greeting")
    return line


async def wait_ready(node: str, listeners: Iterable[tuple[str, str, int]], within: float, ended: asyncio.Event) -> None:
    """Wait until each of `listeners` (name, host, port) has greeted; `ended` is set when the node's process has ended.

    Raises NodeError when not all have greeted within `within` seconds, one says something else, or the process ends
    before.
    """
    waiting_for = ""
    try:
        async with asyncio.timeout(within):
            for listener, host, port in listeners:
                waiting_for = f"{listener} on {host}:{port}"
                while (await read_greeting(host, port)) is None:
                    if ended.is_set():
                        raise NodeError(node, "start", "the process ended before it was ready", "see its log")
                    await asyncio.sleep(_CONNECT_INTERVAL)
    except TimeoutError:
        hint = "it must open every listener of its configuration, and greet with 220"
        raise NodeError(node, "start", f"{waiting_for} gave no greeting within {within:g} s", hint) from None
    except ValueError as error:
        raise NodeError(node, "start", f"{waiting_for} {error}") from error


async def reload(
    files: NodeDirectory,
    candidate: Candidate,
    configuration: NodeConfiguration,
    run: Callable[[str], Awaitable[object]],
    send_sighup: Callable[[], Awaitable[None]],
    *,
    for_any_user: bool = False,
) -> None:
    """Write a node's files, have the node read them, and return when it has answered that it applied them.

    `run` runs a command of the description by its name; `send_sighup` is used where there is no command `reload`. With
    `for_any_user` every user of this machine gets access to the files. A node of contract 2 whose command has no
    `{config}` does not read the file and cannot answer: it is not waited for.

    Raises ConfigurationRefused when the node refuses the configuration, NodeError when it does not answer within
    `ready-within`.
    """
    log_size = files.log.size  # an answer to an earlier reload lies before it
    files.write(configuration, for_any_user=for_any_user)
    if "reload" in candidate.commands:
        await reload_by_command(files.name, run)
        return
    await send_sighup()
    try:
        async with asyncio.timeout(candidate.ready_within):
            if candidate.contract == 1:
                await _wait_for_log_line(files.name, files.log, log_size)
            elif candidate.reads_json_document:
                await _wait_for_status(files.name, files.status, int(configuration["revision"]))
    except TimeoutError:
        where = "its log" if candidate.contract == 1 else "its status file"
        reason = f"no answer in {where} within {candidate.ready_within:g} s"
        raise NodeError(files.name, "reload", reason, "docs/node-contract.md says how a reload is answered") from None


async def reload_by_command(node: str, run: Callable[[str], Awaitable[object]]) -> None:
    """Run the description's `reload` command with `run`.

    Raises ConfigurationRefused when its exit code is 2, and whatever else `run` raises.
    """
    try:
        await run("reload")
    except CommandFailed as error:
        if error.code == REFUSED:
            raise ConfigurationRefused(node, "reload", error.output) from error
        raise


async def _wait_for_status(node: str, path: Path, revision: int) -> None:
    """Wait, without a deadline, until the status file says that this revision or a later one was applied.

    Raises ConfigurationRefused when it says that it was not applied, NodeError when the file is invalid.
    """
    while True:
        status = read_status(node, path)
        if status is not None and status.revision >= revision:
            if not status.applied:
                raise ConfigurationRefused(node, "reload", status.error)
            return
        await asyncio.sleep(_ANSWER_INTERVAL)


def read_status(node: str, path: Path) -> Status | None:
    """Parse a node's status file; None when it does not exist. Symbolic links are not followed.

    Raises NodeError when it is a link, not a regular file, too large, or not the JSON document of the contract.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NodeError(node, "reload", f"its status file cannot be read: {error.strerror}") from error
    try:
        regular = stat.S_ISREG(os.fstat(file).st_mode)
        octets = os.read(file, MAX_STATUS_OCTETS + 1) if regular else b""
    finally:
        os.close(file)
    if not regular or len(octets) > MAX_STATUS_OCTETS:
        reason = f"its status file is not a regular file of at most {MAX_STATUS_OCTETS} octets"
        raise NodeError(node, "reload", reason)
    try:
        return Status.model_validate_json(octets)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"]))
        raise NodeError(node, "reload", f"its status file: {field}: {problem['msg']}: {octets[:200]!r}") from error


async def _wait_for_log_line(node: str, log: NodeLog, offset: int) -> None:
    """Wait, without a deadline, for a whole line that contains "configuration", within 1 MiB after `offset` octets of the log.

    The case of "configuration" does not matter. Raises ConfigurationRefused when the first such line contains "refused", in
    lower case.
    """
    while True:
        lines = log.read(offset, _MAX_LOG_OCTETS).splitlines(keepends=True)
        ended = (
            line.rstrip("\r\n") for line in lines if line.endswith("\n")
        )  # the rest of another may still be written
        if line := next((line for line in ended if "configuration" in line.lower()), None):
            if "refused" in line:
                raise ConfigurationRefused(node, "reload", line)
            return
        await asyncio.sleep(_ANSWER_INTERVAL)
