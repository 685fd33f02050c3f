"""A shifted clock on a busy machine: guards that wake do not stop time, and a program that never sleeps is named."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from conformance.nodes import guard
from conformance.nodes.processes import descendants
from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.shifted import loop as loop_module
from conformance.run.shifted.shifted_program import ShiftedProgram
from conformance.run.shifted.shim_library import NeverQuiet
from tests.run.shifted.shifted_process import HOUR, MARKS, running_shifted

pytestmark = MARKS


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine so slow to wake threads that one counts as asleep only after a quarter of a second."""
    monkeypatch.setattr(loop_module, "measure_sleep_threshold", lambda samples=40: 0.25)


def test_guards_that_poll_directories_do_not_stop_time(tmp_path: Path, busy: None) -> None:
    """Six nodes whose guards wake at different times are never all asleep for a quarter of a second."""

    async def main(clock: Clock) -> float:
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(_looking(clock, tmp_path / f"n{n}")) for n in range(6)]
            for shifted in nodes:
                shifted.on_ready()
            began = time.monotonic()
            for _ in range(4):
                await clock.sleep(HOUR)
            took = time.monotonic() - began
            await clock.sleep(4 * HOUR)
        return took

    assert run_with_clock(main, "shifted") < 20


def test_a_program_that_never_sleeps_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "STUCK_AFTER_S", 1.0)
    with pytest.raises(NeverQuiet, match=r"n1: process \d+ \(python"):
        run_with_clock(lambda clock: _slept(clock, tmp_path / "n1", "while True: pass"), "shifted")


@pytest.mark.long
def test_a_program_that_wakes_hundreds_of_times_a_second_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "STUCK_AFTER_S", 1.0)
    monkeypatch.setattr(loop_module, "MAX_REAL_WAIT_S", 2.0)
    monkeypatch.setattr(loop_module, "MAX_EXACT_WAIT_S", 2.0)
    said: list[str] = []

    async def main(clock: Clock) -> None:
        program = "import time\nwhile True: time.sleep(0.002)"
        async with _looking(clock, tmp_path / "n0") as quiet:
            quiet.on_ready()
            try:
                await _slept(clock, tmp_path / "n1", program)
            finally:
                said.append(clock.take_lag_reason())

    try:
        run_with_clock(main, "shifted")
    except NeverQuiet as error:
        said.append(str(error))
    assert "n1 wakes up more than 100 times a second" in " ".join(said)
    assert "n0 wakes up" not in " ".join(said), "it sleeps for hours"


@asynccontextmanager
async def _looking(clock: Clock, directory: Path) -> AsyncIterator[ShiftedProgram]:
    """Yield a program that sleeps for an hour, again and again, below the guard of nodes, with a directory to look at."""
    directory.mkdir()  # noqa: ASYNC240
    shifted = clock.shifted_program(directory / "clock")
    assert shifted is not None
    program = "import time\nwhile True: time.sleep(3600)"
    limits = ("--directory", str(directory), "--directory-limit", str(2**30))
    argv = (*shifted.command_prefix(sys.executable, os.environ), sys.executable, "-c", program)
    process = await asyncio.create_subprocess_exec(sys.executable, guard.__file__, *limits, *argv, stdin=PIPE)
    shifted.on_started(process.pid)
    await asyncio.sleep(0.5)
    try:
        yield shifted
    finally:
        assert process.stdin is not None
        process.stdin.write(b"K")
        shifted.on_ending()
        await process.wait()
        shifted.on_ended()


async def _slept(clock: Clock, directory: Path, program: str) -> None:
    directory.mkdir()  # noqa: ASYNC240
    words = (sys.executable, "-c", f"import signal\nsignal.signal(signal.SIGTERM, lambda *a: exit(0))\n{program}")
    async with running_shifted(clock, directory, *words) as (shifted, process):
        shifted.on_ready()
        try:
            await clock.sleep(86400)
        finally:
            for pid in descendants(process.pid):
                os.kill(pid, signal.SIGTERM)
