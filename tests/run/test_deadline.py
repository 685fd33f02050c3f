"""The limit of real time for a cell: its default, and that a cell ends at it, is inconclusive, and names what it waited for."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from conformance import paths
from conformance.clocks import ClockName
from conformance.history.events import AnyEvent, Drained, StepEvent
from conformance.nodes.contract import NodeError
from conformance.results.reader import read_run
from conformance.run import deadline
from conformance.run.cell_loop import Clock, run_with_clock
from conformance.run.deadline import CellTimeout, LoopBlocked, cell_timeout, describe_wait, real_deadline
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import SUFFIX, read_scenarios
from conformance.verdicts import Outcome
from tests.suite.helpers import ROOT, conformance_command, environment

SLOW = """
id: waits-for-longer-than-it-may
title: A cell that waits for longer than it may, in real time
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
drain: 2h
steps:
  - advance: 1h
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {delivered: {of: m, at: outside, within: 30m}}
"""


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    (tmp_path / f"slow{SUFFIX}").write_text(SLOW, "utf-8")
    return read_scenarios(tmp_path / f"slow{SUFFIX}", paths.fixtures())[0].cells()[0]


def test_the_default_timeout_is_ten_minutes_more_than_steps_and_drain(cell: Cell) -> None:
    documented = 3600 + 600 + 1800 + 2 * 3600
    assert [cell_timeout(cell, Settings(jumping)) for jumping in ("virtual", "shifted")] == [600, 600], (
        "they take no time"
    )
    assert cell_timeout(cell, Settings("real")) == 600 + documented
    assert cell_timeout(cell, Settings("scaled", scale=60)) == 600 + documented / 60
    assert cell_timeout(cell, Settings("scaled", scale=60, cell_timeout=5)) == 5


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ("  - parallel: [{advance: 1m}, {advance: 2m}]\n", 180),
        ("  - repeat: {times: 3, steps: [{advance: 10m}, {parallel: [{advance: 1m}]}]}\n", 3 * 660),
        (
            "  - parallel:\n"
            "      - send: {as: n, to: v@outside.test, via: mta1}\n"
            "      - expect: {delivered: {of: m, at: outside, within: 20m}}\n",
            600 + 1200,
        ),
        ("  - resend: {of: m}\n", 600),
        ("  - submit: {as: n, to: v@outside.test, via: mta1}\n", 600),
        ("  - send: {as: n, to: v@outside.test, via: mta1, retry: {every: 5m, times: 2}}\n", 600 + 2 * (300 + 600)),
        ("  - talk: {as: t, to: mta1, lines: [{say: NOOP, wait: 30s}, {say: QUIT, wait: 1m}]}\n", 600 + 90),
        ("  - kill: mta1\n  - start: mta1\n", 0),
    ],
)
def test_steps_inside_blocks_and_every_session_count_for_the_default_timeout(
    cell: Cell, tmp_path: Path, steps: str, seconds: float
) -> None:
    (tmp_path / f"longer{SUFFIX}").write_text(SLOW + steps, "utf-8")
    (longer,) = read_scenarios(tmp_path / f"longer{SUFFIX}", paths.fixtures())[0].cells()
    assert cell_timeout(longer, Settings("real")) - cell_timeout(cell, Settings("real")) == seconds


@pytest.mark.parametrize("name", ["virtual", "real"])
def test_a_cell_that_never_ends_is_cancelled_and_cleans_up(name: ClockName) -> None:
    cleaned: list[str] = []

    async def main(clock: Clock) -> None:
        async with real_deadline(0.2):
            try:
                while True:
                    await asyncio.sleep(0.01)
                    clock.note_progress()
            except asyncio.CancelledError:
                cleaned.append("cancelled")
                raise
            finally:
                await asyncio.sleep(0)
                cleaned.append(name)

    with pytest.raises(CellTimeout):
        run_with_clock(main, name)
    assert cleaned == ["cancelled", name]


def test_a_cell_that_ends_in_spite_of_its_cancellation_has_timed_out_and_what_follows_is_not_cancelled() -> None:
    async def goes_on() -> None:
        async with real_deadline(0.05):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    async def main(clock: Clock) -> int:
        with pytest.raises(CellTimeout):
            await goes_on()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert run_with_clock(main, "real") == 0


def test_a_cell_whose_clean_up_fails_has_timed_out_and_what_follows_is_not_cancelled() -> None:
    failure = NodeError("mbx1", "kill", "it was down")

    async def fails() -> None:
        async with real_deadline(0.05):
            try:
                await asyncio.sleep(3600)
            finally:
                raise failure

    async def main(clock: Clock) -> int:
        with pytest.raises(CellTimeout) as raised:
            await fails()
        assert raised.value.__cause__ is failure
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert run_with_clock(main, "real") == 0


def test_a_failure_before_the_limit_is_no_timeout() -> None:
    async def main(clock: Clock) -> None:
        async with real_deadline(60):
            raise NodeError("mbx1", "start", "it would not start")

    with pytest.raises(NodeError, match="it would not start"):
        run_with_clock(main, "real")


def test_a_cell_that_another_party_cancels_too_is_cancelled_and_has_not_timed_out() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def cancelled_twice() -> None:
        async with real_deadline(0.05):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                tasks[0].cancel()
                raise

    async def main(clock: Clock) -> bool:
        tasks.append(asyncio.create_task(cancelled_twice()))
        await asyncio.wait(tasks)
        return tasks[0].cancelled()

    assert run_with_clock(main, "real")


@pytest.mark.parametrize("name", ["virtual", "real"])
@pytest.mark.parametrize("blockers", [1, 2])
def test_code_that_blocks_the_loop_is_interrupted_and_the_cell_cleans_up(
    name: ClockName, blockers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "GRACE_S", 0.2)
    cleaned: list[str] = []

    async def main(clock: Clock) -> None:
        for _ in range(blockers):
            asyncio.get_running_loop().call_soon(time.sleep, 3600)
        async with real_deadline(0.2):
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.01)
                cleaned.append(name)

    with pytest.raises(LoopBlocked):
        run_with_clock(main, name)
    assert cleaned == [name]


def test_a_cell_that_ends_in_time_returns_and_ends_its_watchdog() -> None:
    async def main(clock: Clock) -> str:
        async with real_deadline(60):
            await asyncio.sleep(0)
            assert "cell timeout" in {thread.name for thread in threading.enumerate()}
        assert "cell timeout" not in {thread.name for thread in threading.enumerate()}
        await asyncio.sleep(0)
        return "done"

    assert run_with_clock(main, "virtual") == "done"


def step(path: str, phase: Literal["began", "ended", "reached", "failed"], t: float) -> StepEvent:
    return StepEvent(n=0, t=t, phase=phase, path=path, verb="advance", line=9)


@pytest.mark.parametrize(
    ("events", "waits_for"),
    [
        ((), "the nodes to be ready"),
        (
            (step("1", "began", 0), step("1", "ended", 1), step("2", "began", 1)),
            "step 2, advance (line 9), begun at 1.000 s",
        ),
        ((step("2", "began", 1), step("2.1", "reached", 4)), "step 2.1, advance (line 9), begun at 4.000 s"),
        (
            (step("2", "began", 1), step("2.1", "began", 4), step("2.1", "failed", 5)),
            "step 2, advance (line 9), begun at 1.000 s",
        ),
        (
            (step("2", "began", 0), step("2.2", "began", 1), step("2.1", "began", 2)),
            "step 2.1, advance (line 9), begun at 2.000 s",
        ),
        (
            (step("1", "began", 0), step("1", "ended", 1)),
            "the drain after the last step: every accepted message to arrive or to be reported",
        ),
        ((step("1", "began", 0), step("1", "ended", 1), Drained(n=2, t=2, quiet=True, waited=1)), "the nodes to end"),
    ],
)
def test_a_cell_waits_for_the_open_step_that_began_last_or_for_what_comes_before_and_after_the_steps(
    events: tuple[AnyEvent, ...], waits_for: str
) -> None:
    assert describe_wait(events) == waits_for


BLOCKS = """
import asyncio, time
from conformance.reference.node import create as make

def create(path, clock, defect):
    node = make(path, clock, defect)
    start = node.start

    async def begin():
        await start()
        asyncio.get_running_loop().call_soon(stuck)

    node.start = begin
    return node

def stuck():
    time.sleep(3600)
"""
DESCRIBED = "{name: blocks, kind: python, factory: 'blocks:create', generations: [ex2016], claims: [relay]}"
WITH_SHORT_GRACE = """
import sys
import conformance.run.deadline
from conformance.cli import main
conformance.run.deadline.GRACE_S = 0.5
main(sys.argv[1:])
"""


@pytest.mark.long
@pytest.mark.integration
def test_a_cell_whose_node_blocks_the_loop_ends_and_the_next_one_runs(cell: Cell, tmp_path: Path) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS, "utf-8")
    (tmp_path / "blocks.yaml").write_text(DESCRIBED, "utf-8")
    words = ("--candidate", "blocks.yaml", "--candidate", "reference", "--cell-timeout", "2", "--run-dir", "run")
    ran = subprocess.run(
        [sys.executable, "-c", WITH_SHORT_GRACE, "run", f"slow{SUFFIX}", *words],
        cwd=tmp_path, env={**environment(), "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}, text=True, timeout=240,
        capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 3, ran.stdout + ran.stderr
    blocked, passed = sorted(read_run(tmp_path / "run").cells(), key=lambda one: one.header.candidate)
    assert (blocked.footer is not None, passed.footer and passed.footer.outcome) == (True, Outcome.PASS)
    assert blocked.header.started < passed.header.started
    (verdict,) = [one for one in blocked.verdicts if one.check == "harness.cell-timeout"]
    assert "this code did not return: " in verdict.sentence
    assert verdict.sentence.endswith("in stuck: time.sleep(3600)")


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("cells", ["1", "2"])
def test_a_cell_that_times_out_is_inconclusive_and_names_the_step_it_waited_for(
    cell: Cell, tmp_path: Path, cells: str
) -> None:
    first = "  - answer: {sink: outside, at: connect, reply: accept}\n"  # it has ended when the cell times out
    (tmp_path / f"slow{SUFFIX}").write_text(SLOW.replace("steps:\n", f"steps:\n{first}"), "utf-8")
    words = ("--clock", "real", "--cell-timeout", "12", "--cells", cells, "--run-dir", "run")
    ran = conformance_command("run", f"slow{SUFFIX}", "--candidate", "exec:reference", *words, cwd=tmp_path)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    (stored,) = read_run(tmp_path / "run").cells()
    (verdict,) = [one for one in stored.verdicts if one.check == "harness.cell-timeout"]
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "stopped after 12 s of real time (--cell-timeout): waiting for step 2, advance (line 10)" in verdict.sentence
    assert stored.footer is not None
    assert stored.footer.outcome is Outcome.INCONCLUSIVE
    again = conformance_command("judge", "run", "--scenarios", f"slow{SUFFIX}", cwd=tmp_path)
    assert (again.returncode, "; 0 differ" in again.stdout) == (3, True), again.stdout
