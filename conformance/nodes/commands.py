"""Runs a command of a candidate's description, with limits on the time and the length of its output.

The command `version` is run here too: for the report, before there is a node. A *command of the node contract* is `inspect`,
`redirect-messages` or `resubmit`, which print JSON. `node` and `name` are the node and the command that an error is about.
"""

import asyncio
import os
import re
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from conformance.candidates.description import Candidate
from conformance.candidates.kind import NODE_COMMANDS
from conformance.history.consistency import inspection_problem
from conformance.nodes import private_root
from conformance.nodes.contract import CommandFailed, NodeError, Unsupported
from conformance.nodes.node_directory import NodeDirectory

MAX_OUTPUT = 16 * 2**20
"""Octets that a command may print."""

_MAX_VERSION = 200
"""Characters of a version that are kept."""

NEW_NAMESPACES = ("unshare", "-m", "-p", "-f")
"""The words before a program that makes a private root, where no guard makes the namespaces of mounts and process ids."""

_PYTHON = (sys.executable, "-S", "-E")


def command_template(candidate: Candidate, node: str, name: str) -> tuple[str, ...]:
    """Return the argv template of a command of a candidate's description. Raises Unsupported when it has none."""
    template = candidate.commands.get(name)
    if template is None:
        raise Unsupported(node, name, "the candidate's description has no such command")
    return template


_PIPES_END_WITHIN_S = 1.0
"""Real seconds to wait for the end of a killed command's pipes."""


async def run_command(
    node: str,
    name: str,
    argv: Sequence[str],
    *,
    within: float,
    environment: Mapping[str, str] | None = None,
    while_it_runs: Callable[[int], AbstractContextManager[object]] = nullcontext,
) -> str:
    """Run a command to its end and return its stdout; `node` and `name` (of the command) are for the errors.

    Without `environment` the command has that of the harness. `within` limits, in real seconds, the time until it has ended and its
    stdout and stderr are closed, which processes that it leaves running may keep open. After that, or when the caller is
    cancelled, its process group is killed; processes that it leaves behind when it ends in time go on. The context of
    `while_it_runs` is entered with the command's process id, and lasts until then.

    Raises NodeError when it cannot be started, takes too long or prints more than MAX_OUTPUT, CommandFailed when its
    exit code is not 0.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
        )
    except OSError as error:
        raise NodeError(node, name, f"{argv[0]}: {error.strerror}") from error
    assert process.stdout is not None
    assert process.stderr is not None
    code = None
    try:
        with while_it_runs(process.pid):
            async with _real_timeout(within):
                async with asyncio.TaskGroup() as group:
                    stdout = group.create_task(_read(process.stdout))
                    stderr = group.create_task(_read(process.stderr))
                code = await process.wait()
    except TimeoutError:
        raise NodeError(node, name, f"{argv[0]} had not ended after {within:g} s") from None
    finally:
        if code is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            # Its pipes end with the last process that had them; one that has left the group may have them for longer.
            with suppress(TimeoutError):
                async with asyncio.timeout(_PIPES_END_WITHIN_S):
                    await asyncio.gather(_read(process.stdout), _read(process.stderr))
    return checked_output(node, name, argv, code, stdout.result(), stderr.result())


def checked_output(node: str, name: str, argv: Sequence[str], code: int, stdout: bytes, stderr: bytes) -> str:
    """Return the stdout of a command that has ended with the exit code `code`, as text; stderr is only for the error.

    Raises NodeError when it is longer than MAX_OUTPUT, CommandFailed when the exit code is not 0.
    """
    if len(stdout) > MAX_OUTPUT:
        raise NodeError(node, name, f"{argv[0]} printed more than {MAX_OUTPUT} octets")
    if code:
        raise CommandFailed(node, name, code, stderr.decode(errors="replace").strip()[-300:])
    return stdout.decode(errors="replace")


@asynccontextmanager
async def _real_timeout(seconds: float) -> AsyncIterator[None]:
    """Limit the body as `asyncio.timeout` does, in seconds of the machine's clock: jumps of the loop's time do not count.

    Raises TimeoutError.
    """
    loop = asyncio.get_running_loop()
    deadline = time.monotonic() + seconds
    timer: asyncio.TimerHandle | None = None
    async with asyncio.timeout(None) as limit:

        def end_or_wait() -> None:
            nonlocal timer
            left = deadline - time.monotonic()
            if left > 0:
                timer = loop.call_later(left, end_or_wait)
            else:
                limit.reschedule(loop.time())

        end_or_wait()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end, and return its first MAX_OUTPUT + 1 octets: one more shows that it is too long."""
    kept = bytearray()
    while chunk := await stream.read(65536):
        kept += chunk[: MAX_OUTPUT + 1 - len(kept)]
    return bytes(kept)


def parse_output(node: str, name: str, text: str) -> Any:
    """Return what a command printed: the parsed JSON of a command of the node contract, the text itself of any other.

    A command of the contract that printed nothing gives None. Raises NodeError when it is not JSON, or when that of
    `inspect` does not have the contract's shape.
    """
    if name not in NODE_COMMANDS:
        return text
    try:
        answer = from_json(text, allow_inf_nan=False) if text.strip() else None
    except ValueError as error:
        raise NodeError(node, name, f"its output is not JSON: {text[:200]!r}") from error
    if name == "inspect" and (why := inspection_problem(answer)):
        raise NodeError(node, name, f"what it printed cannot be read: {why}")
    return answer


async def version_by_command(candidate: Candidate) -> str:
    """Return the version that the description's `version` command prints, at most 200 characters.

    The version is the first group of the match of `version-pattern` in the output, or all of the match. Return the `version` of
    the description instead when it has no such command, the server is not installed, or the output does not match. Raises
    NodeError when the command fails.
    """
    template = candidate.commands.get("version")
    availability = candidate.check_availability()
    if template is None or availability.missing:
        return candidate.version
    with tempfile.TemporaryDirectory(prefix="conformance-version-") as directory:
        files = NodeDirectory(candidate.name, candidate, Path(directory), availability)
        files.close()
        argv = files.fill(template)
        if availability.private_root is not None:
            root = str(availability.private_root)
            argv = [*NEW_NAMESPACES, *_PYTHON, private_root.__file__, root, directory, candidate.name, "--", *argv]
        environment = {**os.environ, **candidate.environment}
        output = await run_command(
            candidate.name, "version", argv, within=candidate.command_within, environment=environment
        )
    match = re.search(candidate.version_pattern, output)
    version = next(filter(None, (*match.groups()[:1], match[0])), "") if match else ""
    return version[:_MAX_VERSION] or candidate.version
