"""A command of a node that waits, such as for its queues to drain, lets time jump; its limit is in real seconds."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conformance.nodes.commands import run_command
from conformance.nodes.contract import NodeError
from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.shifted.process_tree import ProcessTree
from conformance.run.shifted.shared_page import NEVER, SharedPage
from conformance.run.shifted.shim_library import build_shim
from tests.run.shifted.shifted_process import HOUR, MARKS, running_shifted

pytestmark = MARKS

NODE = "import time; time.sleep(2 * 3600)"
"""Waits for longer than the command."""


def test_time_jumps_while_a_command_waits_as_the_node_does(tmp_path: Path) -> None:
    timed = "import time; began = time.time(); time.sleep(3600); print(time.time() - began)"

    async def main(clock: Clock) -> tuple[str, float]:
        async with running_shifted(clock, tmp_path, sys.executable, "-c", NODE) as (shifted, process):
            shifted.on_ready()
            argv = [*shifted.command_prefix(sys.executable, os.environ), sys.executable, "-c", timed]
            said = await run_command("mbx1", "drain", argv, within=60, while_it_runs=shifted.follow_command)
            elapsed = clock.elapsed()
            await process.wait()
        return said, elapsed

    said, elapsed = run_with_clock(main, "shifted")
    assert float(said) == pytest.approx(HOUR, abs=30)
    assert elapsed == pytest.approx(HOUR, abs=60), "the harness's clock has jumped with it"


def test_the_limit_of_a_command_is_in_real_seconds(tmp_path: Path) -> None:
    async def main(clock: Clock) -> tuple[float, float]:
        async with running_shifted(clock, tmp_path, sys.executable, "-c", NODE) as (shifted, process):
            shifted.on_ready()
            argv = [*shifted.command_prefix("sleep", os.environ), "sleep", "infinity"]
            began, before = time.monotonic(), clock.elapsed()
            with pytest.raises(NodeError, match=r"had not ended after 1\.5 s"):
                await run_command("mbx1", "drain", argv, within=1.5, while_it_runs=shifted.follow_command)
            spent, elapsed = time.monotonic() - began, clock.elapsed() - before
            await process.wait()
        return spent, elapsed

    spent, elapsed = run_with_clock(main, "shifted")
    assert spent >= 1.5
    assert elapsed > 60, "time has jumped, but the jumps do not count"


def test_a_command_that_has_ended_counts_as_busy_until_the_harness_has_noticed(tmp_path: Path) -> None:
    shim = build_shim()
    tree = ProcessTree(SharedPage(tmp_path / "page"), shim, sleep_threshold=0.0)
    node = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    command = subprocess.Popen(["true"])
    os.waitid(os.P_PID, command.pid, os.WEXITED | os.WNOWAIT)
    tree.follow(node.pid)
    try:
        assert any(tree.quiet_until() == NEVER for _ in range(100_000))
        with tree.following_command(command.pid):
            assert [tree.quiet_until() for _ in range(3)] == [None] * 3
            command.wait()
            assert tree.quiet_until() is None
        assert any(tree.quiet_until() == NEVER for _ in range(100_000))
    finally:
        node.communicate(b"\n")
        tree.page.close()
