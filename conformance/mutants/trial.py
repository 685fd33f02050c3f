"""Runs a mutant of the reference in cells until one of them fails, in a process of its own.

The process is forked before the reference is imported. It replaces the loader's compiled code of one file, so nothing is written
to disk. A mutant may hang: its process is killed after `WALL_LIMIT_S`.
"""

import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import CodeType
from typing import Literal

from conformance.defects.plan import PlannedTrial
from conformance.defects.trial import FinishedTrial, judge_finished, run_planned
from conformance.history.events import NodeEvent
from conformance.mutants.operators import Site, mutate
from conformance.scenarios.document import Cell
from conformance.verdicts import Outcome

REFERENCE = "conformance.reference"

WALL_LIMIT_S = 180.0
"""Real seconds after which a mutant that has not ended is broken."""

CPU_BUDGET_S = 20.0
"""Processor time for the cells of one mutant: no cell is begun after it."""

MAX_ERRORS = 4
"""A mutant is broken when this many cells, the first ones, have ended with an error of the harness."""

TrialOutcome = Literal["killed", "survived", "broken"]


@dataclass(frozen=True, slots=True)
class MutantTrial:
    """A mutant, and the cells (numbers in the list of all cells) to run it in, the most promising first."""

    site: Site
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MutantResult:
    """What came of a mutant: `check` and `requirement` are those of the first violation, `cell` the id of its cell.

    `ran` is the number of cells that were run. `broken` is a mutant that hangs, or that only errors of the harness show.
    """

    id: str
    file: str
    line: int
    outcome: TrialOutcome
    check: str = ""
    requirement: str = ""
    cell: str = ""
    ran: int = 0


def run_mutants(
    trials: Sequence[MutantTrial], cells: Sequence[Cell], root: Path, seed: int, jobs: int
) -> Iterator[MutantResult]:
    """Run all trials, `jobs` at a time, and yield each result as it comes. `root` is the directory of the reference.

    Raises RuntimeError when this process has imported the reference: its mutants could not be loaded.
    """
    if REFERENCE in sys.modules:
        raise RuntimeError(f"{REFERENCE} is imported already")
    context = multiprocessing.get_context("fork")
    waiting = list(reversed(trials))
    running: dict[Connection, tuple[MutantTrial, ForkProcess, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                trial = waiting.pop()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_run_in_child, args=(sender, trial, cells, root, seed), daemon=True)
                process.start()
                sender.close()
                running[receiver] = (trial, process, time.monotonic() + WALL_LIMIT_S)
            deadline = min(limit for _, _, limit in running.values())
            for ready in wait(list(running), timeout=max(0.0, deadline - time.monotonic())):
                assert isinstance(ready, Connection)
                trial, process, _ = running.pop(ready)
                yield _received(ready, trial)
                process.join()
            for receiver, (trial, process, limit) in list(running.items()):
                if time.monotonic() >= limit:
                    del running[receiver]
                    process.kill()
                    process.join()
                    yield _broken(trial)
    finally:
        for _, process, _ in running.values():
            process.kill()
            process.join()


def _received(receiver: Connection, trial: MutantTrial) -> MutantResult:
    """Return the result that a child has sent; broken when it ended without one."""
    with receiver:
        try:
            result = receiver.recv()
        except EOFError:
            return _broken(trial)
    assert isinstance(result, MutantResult)
    return result


def _broken(trial: MutantTrial) -> MutantResult:
    return MutantResult(trial.site.id, trial.site.file, trial.site.line, "broken")


def _run_in_child(sender: Connection, trial: MutantTrial, cells: Sequence[Cell], root: Path, seed: int) -> None:
    """Load the mutant, run its cells until one fails, and send the result. The process ends afterwards."""
    load_mutant(trial.site, root)
    sender.send(run_mutant(trial, cells, seed))
    sender.close()


def run_mutant(trial: MutantTrial, cells: Sequence[Cell], seed: int) -> MutantResult:
    """Run the mutant that is loaded in this process in its cells, until one of them fails or the budget is used up.

    A node that does not start, or ends by itself, kills the mutant too, without a requirement. Cells that only the harness
    could not run say nothing: after `MAX_ERRORS` of them in the beginning the mutant is broken.
    """
    site, began = trial.site, time.process_time()
    ran = errors = 0
    for number in trial.cells:
        if errors == ran == MAX_ERRORS or (ran and time.process_time() - began > CPU_BUDGET_S):
            break
        finished = run_planned(PlannedTrial(None, cells[number]), seed)
        result = judge_finished(finished) if isinstance(finished, FinishedTrial) else finished
        ran += 1
        errors += result.outcome is Outcome.ERROR
        if result.blames or (isinstance(finished, FinishedTrial) and _has_failed_node(finished)):
            check, row = (result.blames[0].check, result.blames[0].requirement) if result.blames else ("node", "")
            return MutantResult(site.id, site.file, site.line, "killed", check, row, result.cell, ran)
    return MutantResult(site.id, site.file, site.line, "survived" if errors < ran else "broken", ran=ran)


def _has_failed_node(finished: FinishedTrial) -> bool:
    """Return whether a node could not be started, or ended by itself, in a cell that the sound reference passes."""
    return any(isinstance(event, NodeEvent) and event.action in ("failed", "exited") for event in finished.ran.events)


def load_mutant(site: Site, root: Path) -> None:
    """Make this process import the mutant in place of its file; the reference must not be imported yet."""
    path = root / site.file
    code = compile(mutate(path.read_text("utf-8"), site), str(path), "exec", dont_inherit=True)
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        return code if loader.path == str(path) else original(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
