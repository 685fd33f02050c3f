"""Compiles programs of `programs/`, and runs programs with a shifted clock below a guard for the time of a test."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from conformance.nodes.processes import descendants
from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.shifted.shifted_program import ShiftedProgram
from conformance.run.shifted.shim_library import build_shim, why_not_shifted

MARKS = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the shifted clock needs a C compiler"),
]
"""The marks of every test module of the shifted clock."""

PROGRAMS = Path(__file__).parent / "programs"
HOUR = 3600.0


def compile_program(directory: Path, name: str, *flags: str) -> Path:
    """Compile a program of `programs/` into a directory."""
    program = directory / name
    subprocess.run(["cc", "-O1", "-o", program, PROGRAMS / f"{name}.c", *flags], check=True)
    return program


@asynccontextmanager
async def running_shifted(
    clock: Clock, directory: Path, *argv: object, stdout: int | None = None
) -> AsyncIterator[tuple[ShiftedProgram, Process]]:
    """Start a program with a shifted clock, and yield it; the test calls `on_ready`.

    At the end wait for the program, which must exit with 0; kill it if the test fails. It also fails when time has
    passed by itself instead of being jumped over.
    """
    began = time.monotonic()
    shifted = clock.shifted_program(directory / "clock")
    assert shifted is not None
    process = await _guarded(shifted, *argv, stdout=stdout)
    try:
        yield shifted, process
        shifted.on_ending()
        assert await process.wait() == 0
        assert time.monotonic() - began < HOUR / 2, "time was not jumped over: it passed by itself"
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    shifted.on_ended()


def run_shifted(
    directory: Path, *argv: object, before: Callable[[Clock], None] = lambda clock: None
) -> tuple[str, float]:
    """Run a program with its clock shifted; return what it printed, and the seconds that passed in the harness."""

    async def main(clock: Clock) -> tuple[str, float]:
        async with running_shifted(clock, directory, *argv, stdout=PIPE) as (shifted, process):
            shifted.on_ready()
            before(clock)
            said, _ = await process.communicate()
            assert process.returncode == 0, said
        return said.decode(), clock.elapsed()

    return run_with_clock(main, "shifted")


async def _guarded(shifted: ShiftedProgram, *argv: object, stdout: int | None) -> Process:
    """Start a program with a shifted clock below a guard with the real clock, in a new process group.

    Return once the program runs with the shim, or has ended.
    """
    words = [str(word) for word in argv]
    guard = ["/bin/sh", "-c", '"$@"; exit $?', "guard", *shifted.command_prefix(words[0], os.environ), *words]
    process = await asyncio.create_subprocess_exec(*guard, stdout=stdout, start_new_session=True)
    shifted.on_started(process.pid)
    while process.returncode is None:
        below = [*descendants(process.pid)]
        if below and not any(why_not_shifted(pid, Path(build_shim().name), shifted.page.path) for pid in below):
            break
        await asyncio.sleep(0.01)
    return process
