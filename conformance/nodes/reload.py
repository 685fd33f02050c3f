"""How a node answers a reload: by its status file (contract 2), by a line of its log (contract 1), or by the exit code
of a command of its description."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import ValidationError

from conformance.candidates.description import Candidate
from conformance.nodes.contract import REFUSED, CommandFailed, ConfigurationRefused, NodeConfiguration, NodeError
from conformance.nodes.document import Status
from conformance.nodes.node_directory import NodeDirectory
from conformance.nodes.node_log import NodeLog

_PAUSE = 0.01
"""Seconds between two looks at a file that another process writes."""

_MOST_OF_LOG = 2**20
"""Octets of a log in which an answer is looked for."""

MOST = 4096
"""Octets of a status file that are read."""


async def reload(
    shop: NodeDirectory,
    candidate: Candidate,
    configuration: NodeConfiguration,
    run: Callable[[str], Awaitable[object]],
    signal: Callable[[], Awaitable[None]],
    *,
    let_in: bool = False,
) -> None:
    """Write a node's files anew, have it read them, and return when it has answered that it applied them.

    `run` runs a command of the description, `signal` sends SIGHUP. A node of contract 2 that is not given the file
    (no `{config}` in its command) has no way to answer, and is not waited for.

    Raises ConfigurationRefused when it refused them, NodeError when it gave no answer within `ready-within`.
    """
    before = shop.log.size
    shop.write(configuration, let_in=let_in)
    if "reload" in candidate.commands:
        await by_command(shop.name, run)
        return
    await signal()
    try:
        async with asyncio.timeout(candidate.ready_within):
            if candidate.contract == 1:
                await _logged(shop.name, shop.log, before)
            elif candidate.reads_its_document:
                await _applied(shop.name, shop.status, int(configuration["revision"]))
    except TimeoutError:
        where = "its log" if candidate.contract == 1 else "its status file"
        reason = f"no answer in {where} within {candidate.ready_within:g} s"
        raise NodeError(shop.name, "reload", reason, "docs/node-contract.md says how a reload is answered") from None


async def by_command(node: str, run: Callable[[str], Awaitable[object]]) -> None:
    """Run the description's `reload`: exit code 0 is applied, 2 is refused. Raises what the command raises."""
    try:
        await run("reload")
    except CommandFailed as error:
        if error.code == REFUSED:
            raise ConfigurationRefused(node, "reload", error.output) from error
        raise


async def _applied(node: str, path: Path, revision: int) -> None:
    """Return when the status file says that this revision, or a later one, is applied.

    Raises ConfigurationRefused when it says the contrary, NodeError when it is not what the contract asks for.
    """
    while True:
        status = read_status(node, path)
        if status is not None and status.revision >= revision:
            if not status.applied:
                raise ConfigurationRefused(node, "reload", status.error)
            return
        await asyncio.sleep(_PAUSE)


def read_status(node: str, path: Path) -> Status | None:
    """Return what a status file says, or None while there is none. No symbolic link is followed.

    Raises NodeError when it is a link, no regular file, too large, or not the document of the contract.
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
        octets = os.read(file, MOST + 1) if regular else b""
    finally:
        os.close(file)
    if not regular or len(octets) > MOST:
        raise NodeError(node, "reload", f"its status file is not a regular file of at most {MOST} octets")
    try:
        return Status.model_validate_json(octets)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise NodeError(node, "reload", f"its status file: {place}: {problem['msg']}: {octets[:200]!r}") from error


async def _logged(node: str, log: NodeLog, before: int) -> None:
    """Return when a node of contract 1 says in its log, after `before` octets, that it applied its configuration.

    Raises ConfigurationRefused when it says that it refused it.
    """
    while True:
        new = log.read(before, _MOST_OF_LOG)
        if line := next((line for line in new.splitlines() if "configuration" in line.lower()), None):
            if "refused" in line:
                raise ConfigurationRefused(node, "reload", line)
            return
        await asyncio.sleep(_PAUSE)
