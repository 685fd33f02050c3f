"""Cells in flight: no more at once than may be, results in the order they are asked for, and nothing left behind."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.run.cell_loop import Leftovers, run_on_shared_loop
from conformance.run.clocks.interface import Clock
from conformance.run.settings import Settings
from conformance.suite.chunks import ChunkScheduling
from conformance.suite.job_pool import JobPool
from conformance.suite.run import PytestRun
from tests.suite.helpers import ROOT, conformance_command

NAMES = ["a", "b", "c", "d", "e"]


class Tower:
    """Jobs that all wait for each other's company, and note who flew when."""

    def __init__(self, company: int) -> None:
        self.company = company
        self.running_cells: set[str] = set()
        self.most = 0
        self.begun: list[str] = []
        self.beside: list[int] = []
        self._met = asyncio.Event()

    def jobs(self) -> list[tuple[str, Callable[[], Awaitable[str]]]]:
        return [(name, lambda name=name: self._fly(name)) for name in NAMES]

    async def _fly(self, name: str) -> str:
        self.begun.append(name)
        self.beside.append(len(self.running_cells))
        self.running_cells.add(name)
        self.most = max(self.most, len(self.running_cells))
        if len(self.running_cells) >= self.company:
            self._met.set()
        await self._met.wait()
        await asyncio.sleep(0)  # whoever may fly beside this one begins
        self.running_cells.discard(name)
        return name.upper()


@pytest.mark.parametrize("most", [1, 3, 8])
def test_as_many_fly_at_once_as_may_and_results_come_as_asked(most: int):
    tower = Tower(company=min(most, len(NAMES)))
    flight = JobPool(tower.jobs(), most, chunks=False)
    assert [flight.result(name) for name in NAMES] == ["A", "B", "C", "D", "E"]
    flight.close()
    assert tower.most == min(most, len(NAMES))
    assert tower.begun == NAMES


@pytest.mark.parametrize(
    ("clock", "together"), [("scaled", True), ("real", True), ("virtual", False), ("shifted", False)]
)
def test_cells_are_in_flight_together_only_by_clocks_that_nobody_moves(tmp_path: Path, clock: str, together: bool):
    settings = SimpleNamespace(clock=clock)
    options: Any = SimpleNamespace(cells=8, settings=settings, baselines=(), casts=())
    run = PytestRun(tmp_path, options, SimpleNamespace(), worker=False)  # type: ignore[arg-type]
    run.prepare_pool([])
    assert (run._pool is not None) is together
    if run._pool is not None:
        run._pool.close()


def test_users_are_told_where_cells_has_no_effect():
    page = (ROOT / "docs" / "which-clock.md").read_text("utf-8").replace("\n", " ")
    assert "It has no effect with `virtual` and `shifted`" in page
    said = " ".join(conformance_command("run", "--help", cwd=ROOT).stdout.split())
    assert "no effect with --clock virtual and shifted" in said


def test_a_worker_begins_only_the_chunk_of_what_it_was_given():
    tower = Tower(company=2)
    flight = JobPool(tower.jobs(), 2, chunks=True)
    assert flight.result("c") == "C"
    flight.close()
    assert tower.begun == ["c", "d"]


def test_a_job_that_is_asked_for_again_is_done_again():
    tower = Tower(company=1)
    flight = JobPool(tower.jobs(), 2, chunks=False)
    assert (flight.result("a"), flight.result("a")) == ("A", "A")
    flight.close()
    assert tower.begun.count("a") == 2


def test_what_has_to_be_done_once_more_is_done_alone_and_last():
    tower = Tower(company=3)
    flight = JobPool(tower.jobs(), 3, chunks=False, needs_rerun=lambda result: result in "BD")
    assert [flight.result(name) for name in NAMES] == ["A", "B", "C", "D", "E"]
    flight.close()
    assert tower.begun[:5] == NAMES
    assert sorted(tower.begun[5:]) == ["b", "d"]
    assert tower.beside[5:] == [0, 0]


def test_closing_cancels_what_is_in_flight_and_lets_it_clean_up():
    cleaned: list[str] = []

    async def first() -> str:
        return "first"

    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("endless")
        return ""

    flight = JobPool([("first", first), ("endless", endless)], 2, chunks=False)
    assert flight.result("first") == "first"
    flight.close()
    assert cleaned == ["endless"]


def test_an_error_of_one_job_is_that_job_s_alone():
    async def bad() -> str:
        raise ValueError("mine")

    async def good() -> str:
        return "good"

    flight = JobPool([("bad", bad), ("good", good)], 2, chunks=False)
    with pytest.raises(ValueError, match="mine"):
        flight.result("bad")
    assert flight.result("good") == "good"
    flight.close()


def test_what_a_cell_leaves_behind_is_told_of_that_cell_and_spares_the_others():
    kept: list[asyncio.Task[bool]] = []

    async def careless(clock: Clock) -> str:
        kept.append(asyncio.create_task(asyncio.Event().wait(), name="forgotten"))
        return ""

    async def careful(clock: Clock) -> str:
        task = asyncio.create_task(clock.sleep(0.01))
        await task
        return "well"

    settings = Settings(clock="real")
    flight = JobPool(
        [
            ("careless", lambda: run_on_shared_loop(careless, settings)),
            ("careful", lambda: run_on_shared_loop(careful, settings)),
        ],
        2,
        chunks=False,
    )
    with pytest.raises(Leftovers, match="forgotten"):
        flight.result("careless")
    assert flight.result("careful") == "well"
    flight.close()


def test_xdist_is_told_to_keep_a_chunk_together():
    scheduling = ChunkScheduling.__new__(ChunkScheduling)
    scheduling._cells, scheduling._positions = 2, {}
    scheduling.__dict__["collection"] = NAMES
    assert [scheduling._split_scope(name) for name in NAMES] == ["cells 0", "cells 0", "cells 1", "cells 1", "cells 2"]
