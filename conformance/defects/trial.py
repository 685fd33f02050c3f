"""One trial: a cell in virtual time with the reference made wrong, and which checks said so. Trials that are kept
make a run directory like any other, with the reference and each of its defects as candidates.
"""

import ctypes
import multiprocessing
import os
import shlex
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE, Candidate
from conformance.defects.plan import PlannedTrial
from conformance.execute import execute, judge, utc_timestamp, worst_sentence
from conformance.judge.incremental import IncrementalJudge
from conformance.records import candidate_record, cell_header, item_name
from conformance.results.fingerprints import environment_sha256, suite_sha256
from conformance.results.schema import CellHeader, RunHeader
from conformance.results.writer import begin_run
from conformance.run.applicability import inapplicable_reason
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.verdicts import Outcome, Verdict, worst_in_cell


def broken_reference(defect: str | None) -> Candidate:
    """Return the reference with a defect; None: without one."""
    return REFERENCE.model_copy(update={"defect": defect})


@dataclass(frozen=True, slots=True)
class TrialRunDirectory:
    """The run directory in which trials are kept, and what the headers of its cells have in common."""

    directory: Path
    environment_sha256: str

    @classmethod
    def begin(
        cls, directory: Path, trials: Iterable[PlannedTrial], seed: int, command: tuple[str, ...]
    ) -> "TrialRunDirectory":
        """Write the header of a run of these trials. Raises RunDirectoryError when the directory holds another run."""
        planned = tuple(trials)
        defects = dict.fromkeys(one.defect for one in planned)
        environment = environment_sha256()
        header = RunHeader(
            run=directory.name,
            started=utc_timestamp(),
            seed=seed,
            clock="virtual",
            candidates=tuple(candidate_record(Assignment(broken_reference(defect))) for defect in defects),
            suite_sha256=suite_sha256(one.cell.sha256 for one in planned),
            environment_sha256=environment,
            command=command,
            filtered=True,
            cells_planned=len(planned),
        )
        begin_run(directory, header)
        return cls(directory, environment)

    def header(self, cell: Cell, assignment: Assignment, settings: Settings) -> CellHeader:
        """Return the header of one trial: the cell as `conformance run` would run it with that candidate."""
        place = os.path.relpath(paths.corpus() / cell.path)
        nodeid = f"{place}::{cell.scenario}::{item_name(cell, assignment)}"
        words = ["conformance", "run", nodeid, "--candidate", assignment.identity, "--clock", settings.clock]
        return cell_header(
            cell,
            assignment,
            settings,
            run=self.directory.name,
            nodeid=nodeid,
            environment_sha256=self.environment_sha256,
            repeat=shlex.join([*words, "--seed", str(settings.seed)]),
        )


CPU_LIMIT_S = 120
"""Seconds of the processor that a trial may take: a defect can make a node do nothing else for ever."""


class CpuLimitExceeded(KeyboardInterrupt):
    """A trial took too long; of this kind, for no other exception gets through an event loop at any moment."""


@dataclass(frozen=True, slots=True)
class Blame:
    """A violation that was found: by which check, and which requirement it names first."""

    check: str
    requirement: str


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one cell with one defect."""

    defect: str | None
    scenario: str
    cell: str
    outcome: Outcome
    blames: tuple[Blame, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A cell that was run with a defect, and is to be judged."""

    planned: PlannedTrial
    assignment: Assignment
    settings: Settings
    ran: RecordedRun


def run_trial(planned: PlannedTrial, seed: int, kept: TrialRunDirectory | None = None) -> Trial:
    """Run and judge one cell. Only its verdicts are kept, unless `kept` says in which run directory it is written."""
    if kept is not None:
        return _attempt_and_keep(planned, seed, kept)
    done = run_planned(planned, seed)
    return judge_finished(done) if isinstance(done, FinishedTrial) else done


def _attempt_and_keep(planned: PlannedTrial, seed: int, kept: TrialRunDirectory) -> Trial:
    assignment, settings = _conditions(planned, seed)
    header = kept.header(planned.cell, assignment, settings)
    try:
        with _bounded():
            result = run_without_loop(execute(planned.cell, assignment, settings, header, kept.directory))
    except CpuLimitExceeded:
        return _exhausted(planned)
    return _trial(planned, result.outcome, result.verdicts, worst_sentence(result.verdicts))


def run_planned(planned: PlannedTrial, seed: int) -> FinishedTrial | Trial:
    """Run one cell. What came to nothing is a trial already."""
    cell = planned.cell
    assignment, settings = _conditions(planned, seed)
    if reason := inapplicable_reason(cell, assignment, settings):
        return Trial(planned.defect, cell.scenario, cell.id, Outcome.NOT_APPLICABLE, (), reason)
    with tempfile.TemporaryDirectory(prefix="conformance-trial-") as folder:
        try:
            with _bounded():
                ran = run_without_loop(
                    CellRunner(cell, assignment, settings, Path(folder), IncrementalJudge()).run(OWN_LOOP)
                )
        except CpuLimitExceeded:
            return _exhausted(planned)
    if ran.inapplicable:
        return Trial(planned.defect, cell.scenario, cell.id, Outcome.NOT_APPLICABLE, (), ran.inapplicable)
    return FinishedTrial(planned, assignment, settings, ran)


def judge_finished(done: FinishedTrial) -> Trial:
    """Judge what was run, by the checks that there are."""
    planned, ran = done.planned, done.ran
    cell = planned.cell
    verdicts = judge(cell, done.assignment, done.settings, ran.events, complete=ran.complete)
    outcome = Outcome.ERROR if ran.problem else worst_in_cell(verdict.outcome for verdict in verdicts)
    if ran.wrong_state and outcome is Outcome.PASS:
        outcome = Outcome.INCONCLUSIVE
    sentence = ran.problem or ran.wrong_state or next((v.sentence for v in verdicts if v.outcome is outcome), "")
    return _trial(planned, outcome, verdicts, sentence)


def _conditions(planned: PlannedTrial, seed: int) -> tuple[Assignment, Settings]:
    return Assignment(broken_reference(planned.defect)), Settings(clock="virtual", seed=seed, should="fail")


def _exhausted(planned: PlannedTrial) -> Trial:
    sentence = f"broken off after {CPU_LIMIT_S} s of the processor's time"
    return Trial(planned.defect, planned.cell.scenario, planned.cell.id, Outcome.ERROR, (), sentence)


def _trial(planned: PlannedTrial, outcome: Outcome, verdicts: Iterable[Verdict], sentence: str) -> Trial:
    failed = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL]
    blames = tuple(Blame(verdict.check, verdict.requirements[0]) for verdict in failed if verdict.requirements)
    return Trial(planned.defect, planned.cell.scenario, planned.cell.id, outcome, blames, sentence)


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise CpuLimitExceeded where the main thread of this process takes too much of the processor's time.

    Whatever else comes out of it then: a loop that is torn from its work in the middle may fail at cleaning up.
    """
    struck = False

    def exhausted(number: int, frame: FrameType | None) -> NoReturn:
        nonlocal struck
        struck = True
        raise CpuLimitExceeded

    before = signal.signal(signal.SIGPROF, exhausted)
    signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
    try:
        yield
    except BaseException as error:
        if struck:
            raise CpuLimitExceeded from error
        raise
    else:
        if struck:
            raise CpuLimitExceeded
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run_trials(
    trials: Sequence[PlannedTrial], seed: int, jobs: int, kept: TrialRunDirectory | None = None
) -> Iterator[Trial]:
    """Run all trials on `jobs` cores and yield what came of each, in their order; `kept` is where they are written."""
    context = multiprocessing.get_context("fork")  # the corpus is read: a fork has it without reading it again
    _SHARED[:] = trials
    with (
        tempfile.TemporaryDirectory(prefix="conformance-defects-") as place,
        ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(os.getpid(), place)) as pool,
    ):
        try:
            yield from pool.map(_attempt, range(len(trials)), [seed] * len(trials), [kept] * len(trials), chunksize=4)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


_PR_SET_PDEATHSIG = 1

_SHARED: list[PlannedTrial] = []
"""What the forked processes find their work in."""


def _begin(parent: int, place: str) -> None:
    """Keep all files where the parent removes them; have the kernel end this process when that one ends, however."""
    tempfile.tempdir = place
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _attempt(number: int, seed: int, kept: TrialRunDirectory | None) -> Trial:
    return run_trial(_SHARED[number], seed, kept)
