"""Runs a mutant of the reference in cells until one of them fails, in a process of its own.

The process is forked before the reference is imported, and nothing is written to disk (`loading`). A mutant may hang: the kernel
ends a process that computes for ever in one cell, and one that waits there for ever is killed after `WALL_LIMIT_S`. Both limits
begin anew with each cell: else a mutant that survives hundreds of cells on a slow machine would count as one that hangs. A mutant is
*killed* if a cell fails with it, *survived* if none does, and *broken* if it hangs, its process ends without a result, or its cells
end in errors of the harness only.
"""

import gc
import logging
import math
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Literal

from conformance.defects.plan import PlannedTrial
from conformance.defects.trial import Blame, FinishedTrial, judge_finished, run_planned
from conformance.forked_process import prepare_process
from conformance.history.events import NodeEvent
from conformance.mutants.loading import load_mutant
from conformance.mutants.operators import Site
from conformance.scenarios.document import Cell
from conformance.verdicts import Outcome

REFERENCE = "conformance.reference"

WALL_LIMIT_S = 300.0
"""Real seconds after which a mutant is broken whose cell has not ended."""

MAX_CELLS = 250
"""Cells in which a mutant is run at most: a number, so that a slow machine finds what a fast one finds."""

CPU_LIMIT_S = 30
"""Seconds of processor time after which a cell is broken off as an error: it does not end by itself."""

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

    `ran` is the number of cells that were run, of the `differs` in which the mutant makes a difference, and `cpu_s` the
    processor time that they took. `broken` is a mutant that hangs, or that only errors of the harness show.
    """

    id: str
    file: str
    line: int
    outcome: TrialOutcome
    check: str = ""
    requirement: str = ""
    cell: str = ""
    ran: int = 0
    differs: int = 0
    cpu_s: float = 0.0


def run_mutants(
    trials: Sequence[MutantTrial], cells: Sequence[Cell], root: Path, seed: int, jobs: int
) -> Iterator[MutantResult]:
    """Run all trials, each in a forked process, `jobs` at a time; yield each result as it comes, in no fixed order.

    Blocks until the next result. `root` is the directory of the reference's package. A child is killed when a cell lasts
    `WALL_LIMIT_S`; its mutant is broken. Children still running are killed when the caller stops early. Raises RuntimeError when
    this process has imported the reference: its mutants could not be loaded.
    """
    if REFERENCE in sys.modules:
        raise RuntimeError(f"{REFERENCE} is imported already")
    context = multiprocessing.get_context("fork")
    waiting = list(reversed(trials))
    gc.freeze()  # children do not write to the pages of what is there already
    running: dict[Connection, tuple[MutantTrial, ForkProcess, float]] = {}
    temporary = tempfile.TemporaryDirectory(prefix="conformance-mutants-")
    shared = (cells, root, seed, os.getpid(), temporary.name)
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                trial = waiting.pop()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_run_in_child, args=(sender, trial, *shared), daemon=True)
                process.start()
                sender.close()
                running[receiver] = (trial, process, time.monotonic() + WALL_LIMIT_S)
            deadline = min(limit for _, _, limit in running.values())
            for ready in wait(list(running), timeout=max(0.0, deadline - time.monotonic())):
                assert isinstance(ready, Connection)
                trial, process, _ = running.pop(ready)
                if (result := _receive_result(ready, trial)) is None:
                    running[ready] = (trial, process, time.monotonic() + WALL_LIMIT_S)
                    continue
                ready.close()
                yield result
                process.join()
            for receiver, (trial, process, limit) in list(running.items()):
                if time.monotonic() >= limit:
                    del running[receiver]
                    process.kill()
                    process.join()
                    yield _broken_result(trial)
    finally:
        for _, process, _ in running.values():
            process.kill()
            process.join()
        temporary.cleanup()  # a killed process leaves files


def _receive_result(receiver: Connection, trial: MutantTrial) -> MutantResult | None:
    """Wait until a child has sent something, and return that: its result, or None if it is about to begin a cell.

    Return the result of a broken mutant if the child ended without one.
    """
    try:
        received = receiver.recv()
    except EOFError:
        return _broken_result(trial)
    assert received is None or isinstance(received, MutantResult)
    return received


def _broken_result(trial: MutantTrial) -> MutantResult:
    """Return the result of a mutant that hung, or whose process ended without a result."""
    return MutantResult(id=trial.site.id, file=trial.site.file, line=trial.site.line, outcome="broken")


def _run_in_child(
    sender: Connection, trial: MutantTrial, cells: Sequence[Cell], root: Path, seed: int, parent: int, temporary: str
) -> None:
    """Load the mutant, run its cells until one fails, and send the result. The process ends afterwards, or with its parent.

    Before each cell it sends None. `parent` is the parent's process id; temporary files are put below `temporary`.
    """
    prepare_process(parent, temporary)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a mutant's callbacks may fail by the thousand

    def begin_cell() -> None:
        """Set the kernel's limit of processor time anew, and notify the parent, which begins its own limit anew (`None`)."""
        # the kernel's limit, twice the other: it ends a process that cannot break its cell off
        limit_s = math.ceil(time.process_time()) + 2 * CPU_LIMIT_S
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, resource.RLIM_INFINITY))
        sender.send(None)

    load_mutant(trial.site, root)
    sender.send(run_mutant(trial, cells, seed, begin_cell))
    sender.close()


def run_mutant(
    trial: MutantTrial, cells: Sequence[Cell], seed: int, begin_cell: Callable[[], None] = lambda: None
) -> MutantResult:
    """Run the mutant that is loaded in this process in its cells until one of them fails, and return the result. Blocks.

    The mutant is killed by a failed verdict or, then without a requirement, by a node that fails (`_has_failed_node`). A cell whose
    outcome is an error says nothing of it: if the first `MAX_ERRORS` cells end so, or all cells, the mutant is broken. Otherwise it
    has survived, also after MAX_CELLS cells or without any cell. Calls `begin_cell` before each cell.
    """
    began = time.process_time()
    ran = errors = 0
    blame, cell = None, ""
    for number in trial.cells:
        if errors == ran == MAX_ERRORS or ran == MAX_CELLS:
            break
        begin_cell()
        finished = run_planned(PlannedTrial(defect=None, cell=cells[number]), seed, CPU_LIMIT_S)
        result = judge_finished(finished) if isinstance(finished, FinishedTrial) else finished
        ran += 1
        errors += result.outcome is Outcome.ERROR
        if result.blames or (isinstance(finished, FinishedTrial) and _has_failed_node(finished)):
            blame, cell = (result.blames[0] if result.blames else Blame("node", "")), result.cell
            break
    outcome: TrialOutcome = "killed" if blame else "broken" if ran and errors == ran else "survived"
    check, requirement = (blame.check, blame.requirement) if blame else ("", "")
    cpu_s = round(time.process_time() - began, 2)
    site, differs = trial.site, len(trial.cells)
    return MutantResult(
        id=site.id,
        file=site.file,
        line=site.line,
        outcome=outcome,
        check=check,
        requirement=requirement,
        cell=cell,
        ran=ran,
        differs=differs,
        cpu_s=cpu_s,
    )


def _has_failed_node(finished: FinishedTrial) -> bool:
    """Return whether a node has failed in a run of the mutant; the sound reference passes the cell, so the mutant is the cause.

    A node has failed that could not be started, waited for ever as it started (the cell then has a `problem`, and the last event
    of the node is `started`), ended by itself, or failed at a command.
    """
    last = {event.node: event.action for event in finished.ran.events if isinstance(event, NodeEvent)}
    failed = any(isinstance(event, NodeEvent) and event.action in ("failed", "exited") for event in finished.ran.events)
    return failed or finished.ran.node_failed or (bool(finished.ran.problem) and "started" in last.values())
