"""What a stopped server leaves running, such as a process amid a delivery: it may finish, and is killed when it goes on."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.nodes import guard, private_root, processes

pytestmark = pytest.mark.integration

LEAVES_A_CHILD = """
(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; sleep {seconds}; echo finished) &
trap 'exit 0' TERM
echo ready
while :; do sleep 0.01; done
"""
"""A child that works for some seconds after the end of its parent; the parent ends at SIGTERM."""


def wrapped(where: str, directory: Path) -> Sequence[str]:
    """Return the guard's options for a command in a private root, or for one without."""
    if where == "no root":
        return []
    (directory / "layer").mkdir()
    (directory / "node").mkdir()
    return [
        "--namespaces", sys.executable, private_root.__file__, str(directory / "layer"), str(directory / "node"), "mta1", "--",
    ]  # fmt: skip


def ended_by(octet: bytes, *, seconds: float, where: str, directory: Path) -> tuple[bytes, list[int]]:
    """End a program below a guard whose child has so much to do; return what is printed after that, and which processes are left."""

    async def steps() -> tuple[bytes, list[int]]:
        program = LEAVES_A_CHILD.format(seconds=seconds)
        words = [sys.executable, guard.__file__, *wrapped(where, directory), "sh", "-c", program]
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        below = list(processes.descendants(process.pid))
        process.stdin.write(octet)
        said, _ = await process.communicate()
        return said, below

    said, below = asyncio.run(asyncio.wait_for(steps(), 30))
    assert len(below) >= 2, "the program and its child"
    return said, [pid for pid in below if Path(f"/proc/{pid}").exists()]


rooted = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces of its own need root")
in_both = pytest.mark.parametrize("where", ["no root", pytest.param("private root", marks=rooted)])


@in_both
def test_a_process_that_a_stopped_command_left_may_finish(tmp_path: Path, where: str) -> None:
    assert ended_by(b"T", seconds=0.2, where=where, directory=tmp_path) == (b"finished\n", [])


@in_both
def test_a_process_that_a_stopped_command_left_is_killed_when_it_goes_on(tmp_path: Path, where: str) -> None:
    assert ended_by(b"T", seconds=3600, where=where, directory=tmp_path) == (b"", [])


@in_both
def test_a_kill_lets_no_process_finish(tmp_path: Path, where: str) -> None:
    assert ended_by(b"K", seconds=0.2, where=where, directory=tmp_path) == (b"", [])
