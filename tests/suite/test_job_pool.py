"""The job pool: bounded concurrency, results by name, reruns, cancellation, and the clocks that use it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.clocks import CLOCKS
from conformance.run.cell_loop import Leftovers, run_on_shared_loop
from conformance.run.clocks.interface import Clock
from conformance.run.settings import Settings
from conformance.suite.chunks import ChunkScheduling
from conformance.suite.job_pool import JobPool
from conformance.suite.run import PytestRun
from tests.suite.helpers import ROOT, conformance_command

NAMES = ["a", "b", "c", "d", "e"]


class RecordedJobs:
    """Jobs that wait until `concurrent` of them run at once, and record when each began and beside how many."""

    def __init__(self, concurrent: int) -> None:
        self.concurrent = concurrent
        self.running: set[str] = set()
        self.max_running = 0
        self.begun: list[str] = []
        self.running_at_begin: list[int] = []
        self._all_running = asyncio.Event()

    def named(self) -> list[tuple[str, Callable[[], Awaitable[str]]]]:
        return [(name, lambda name=name: self._run(name)) for name in NAMES]

    async def _run(self, name: str) -> str:
        self.begun.append(name)
        self.running_at_begin.append(len(self.running))
        self.running.add(name)
        self.max_running = max(self.max_running, len(self.running))
        if len(self.running) >= self.concurrent:
            self._all_running.set()
        await self._all_running.wait()
        await asyncio.sleep(0)  # the pool begins the jobs that there is room for
        self.running.discard(name)
        return name.upper()


@pytest.mark.parametrize("limit", [1, 3, 8])
def test_jobs_run_at_once_up_to_the_limit_and_each_name_gets_its_result(limit: int):
    jobs = RecordedJobs(concurrent=min(limit, len(NAMES)))
    pool = JobPool(jobs.named(), limit, chunks=False)
    assert [pool.result(name) for name in NAMES] == ["A", "B", "C", "D", "E"]
    pool.close()
    assert jobs.max_running == min(limit, len(NAMES))
    assert jobs.begun == NAMES


@pytest.mark.parametrize(
    ("limit", "at_once", "begun", "running_at_begin"),
    [
        (1, 1, ["a", "b", "c", "d", "e"], [0, 0, 0, 0, 0]),
        (3, 3, ["a", "d", "e", "b", "c"], [0, 1, 2, 0, 0]),
        (11, 3, ["a", "d", "e", "b", "c"], [0, 1, 2, 0, 0]),
        (12, 3, ["a", "b", "d", "e", "c"], [0, 1, 2, 3, 0]),
    ],
)
def test_heavy_jobs_have_a_sixth_of_several_slots_and_others_pass_them(
    limit: int, at_once: int, begun: list[str], running_at_begin: list[int]
):
    jobs = RecordedJobs(concurrent=at_once)
    pool = JobPool(jobs.named(), limit, chunks=False, heavy=["a", "b", "c"])
    assert [pool.result(name) for name in NAMES] == ["A", "B", "C", "D", "E"]
    pool.close()
    assert jobs.begun == begun
    assert jobs.running_at_begin == running_at_begin


POOLED = {"scaled": True, "real": True, "virtual": False, "shifted": False}


@pytest.mark.parametrize(("clock", "pooled"), POOLED.items())
def test_a_job_pool_is_made_only_for_clocks_that_run_by_themselves(tmp_path: Path, clock: str, pooled: bool):
    assert {name: not kind.jumps for name, kind in CLOCKS.items()} == POOLED
    settings = SimpleNamespace(clock=clock)
    options: Any = SimpleNamespace(cells=8, settings=settings, baselines=(), casts=())
    run = PytestRun(tmp_path, options, SimpleNamespace(), worker=False)  # type: ignore[arg-type]
    run.prepare_pool([])
    assert (run._pool is not None) is pooled
    if run._pool is not None:
        run._pool.close()


def test_documentation_and_help_say_for_which_clocks_cells_has_no_effect():
    idle = [name for name, pooled in POOLED.items() if not pooled]
    page = (ROOT / "docs" / "which-clock.md").read_text("utf-8").replace("\n", " ")
    (section,) = re.findall(r"`--cells N` keeps [^#]*", page)
    assert f"It has no effect with {' and '.join(f'`{name}`' for name in idle)}:" in section
    help_text = " ".join(conformance_command("run", "--help", cwd=ROOT).stdout.split())
    (option,) = re.findall(r" --cells=N (.*?) --run-dir", help_text)
    assert option.endswith(f"no effect with --clock {' and '.join(idle)}")


@pytest.mark.parametrize("requested", ["c", "d"])
def test_a_worker_begins_only_the_jobs_of_the_requested_chunk(requested: str):
    jobs = RecordedJobs(concurrent=2)
    pool = JobPool(jobs.named(), 2, chunks=True)
    assert pool.result(requested) == requested.upper()
    pool.close()
    assert jobs.begun == ["c", "d"]


def test_a_job_whose_result_is_requested_again_is_run_again():
    jobs = RecordedJobs(concurrent=1)
    pool = JobPool(jobs.named(), 2, chunks=False)
    assert (pool.result("a"), pool.result("a")) == ("A", "A")
    pool.close()
    assert jobs.begun.count("a") == 2


def test_reruns_happen_alone_and_after_all_other_jobs():
    jobs = RecordedJobs(concurrent=3)
    pool = JobPool(jobs.named(), 3, chunks=False, needs_rerun=lambda result: result in "BD")
    assert [pool.result(name) for name in NAMES] == ["A", "B", "C", "D", "E"]
    pool.close()
    assert jobs.begun[:5] == NAMES
    assert sorted(jobs.begun[5:]) == ["b", "d"]
    assert jobs.running_at_begin[5:] == [0, 0]


def test_closing_cancels_running_jobs_and_waits_for_their_cleanup():
    cleaned: list[str] = []

    async def first() -> str:
        return "first"

    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20_000):  # a cleanup of many steps, which closing has to wait for
                await asyncio.sleep(0)
            cleaned.append("endless")
        return ""

    pool = JobPool([("first", first), ("endless", endless), ("other", endless)], 3, chunks=False)
    assert pool.result("first") == "first"
    pool.close()
    assert cleaned == ["endless", "endless"]


def test_an_error_of_one_job_does_not_affect_the_others():
    failed = asyncio.Event()

    async def bad() -> str:
        failed.set()
        raise ValueError("mine")

    async def good() -> str:
        await failed.wait()
        for _ in range(20):  # what an error would cancel
            await asyncio.sleep(0)
        return "good"

    jobs = [("beside it", good), ("bad", bad), ("as bad", bad), ("after it", good)]  # as many bad ones as slots
    pool = JobPool(jobs, 2, chunks=False, needs_rerun=lambda result: True)  # a rerun waits for every first run
    for name in ("bad", "as bad"):
        with pytest.raises(ValueError, match="mine"):
            pool.result(name)
    assert [pool.result(name) for name in ("beside it", "after it")] == ["good", "good"]
    pool.close()


def test_a_task_that_a_cell_leaves_behind_is_reported_for_that_cell_only():
    kept: list[asyncio.Task[bool]] = []

    async def careless(clock: Clock) -> str:
        kept.append(asyncio.create_task(asyncio.Event().wait(), name="forgotten"))
        return ""

    async def careful(clock: Clock) -> str:
        task = asyncio.create_task(clock.sleep(0.01))
        await task
        return "well"

    settings = Settings(clock="real")
    pool = JobPool(
        [
            ("careless", lambda: run_on_shared_loop(careless, settings)),
            ("careful", lambda: run_on_shared_loop(careful, settings)),
        ],
        2,
        chunks=False,
    )
    with pytest.raises(Leftovers, match="forgotten"):
        pool.result("careless")
    assert pool.result("careful") == "well"
    pool.close()


def test_cells_of_one_chunk_have_one_scheduling_scope():
    scheduling = ChunkScheduling.__new__(ChunkScheduling)
    scheduling._cells, scheduling._positions = 2, {}
    scheduling.__dict__["collection"] = NAMES
    assert [scheduling._split_scope(name) for name in NAMES] == ["cells 0", "cells 0", "cells 1", "cells 1", "cells 2"]
