"""Runs a command of a candidate's description: bounded in time and in what it may print, and with no child left."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from conformance.candidates.description import Candidate
from conformance.candidates.kind import NODE_COMMANDS
from conformance.history.inspected import inspection_problem
from conformance.nodes.contract import CommandFailed, NodeError, Unsupported

MOST = 16 * 2**20
"""Octets that a command may print."""


def command_template(candidate: Candidate, node: str, name: str) -> tuple[str, ...]:
    """Return the words of a command of a candidate's description. Raises Unsupported when it has no such command."""
    template = candidate.commands.get(name)
    if template is None:
        raise Unsupported(node, name, "the candidate's description has no such command")
    return template


async def run_command(
    node: str, name: str, argv: Sequence[str], *, within: float, environment: Mapping[str, str] | None = None
) -> str:
    """Run a command and return what it printed; `within` is in real seconds.

    Raises NodeError when it cannot be started, takes too long, prints too much or leaves with another code than 0.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
        )
    except OSError as error:
        raise NodeError(node, name, f"{argv[0]}: {error.strerror}") from error
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(within), asyncio.TaskGroup() as group:
            out = group.create_task(_read(process.stdout))
            err = group.create_task(_read(process.stderr))
        code = await process.wait()
    except TimeoutError:
        raise NodeError(node, name, f"{argv[0]} had not ended after {within:g} s") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if len(out.result()) > MOST:
        raise NodeError(node, name, f"{argv[0]} printed more than {MOST} octets")
    if code:
        words = err.result().decode(errors="replace").strip()[-300:]
        raise CommandFailed(node, name, code, words)
    return out.result().decode(errors="replace")


def parse_output(node: str, name: str, text: str) -> Any:
    """Return what a command printed: of one of the contract's as JSON, None for nothing; of any other as it is.

    Raises NodeError when it is no JSON, or (`inspect`) not of the shape that is read.
    """
    if name not in NODE_COMMANDS:
        return text
    try:
        answer = from_json(text, allow_inf_nan=False) if text.strip() else None
    except ValueError as error:
        raise NodeError(node, name, f"it printed no JSON: {text[:200]!r}") from error
    if name == "inspect" and (why := inspection_problem(answer)):
        raise NodeError(node, name, f"what it printed cannot be read: {why}")
    return answer


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Read to the end; keep one octet more than may be printed."""
    kept = bytearray()
    while chunk := await stream.read(65536):
        kept += chunk[: MOST + 1 - len(kept)]
    return bytes(kept)
