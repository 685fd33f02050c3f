"""Runs trials: a cell in virtual time on the reference with a defect, and which checks then fail.

A trial may be kept in a run directory, which is like any other, with the reference and each of its defects as candidates. A trial
may use a limited time of the processor: a defect can put a node into an endless loop. `run_trials` runs many of them in forked
processes.
"""

import os
import shlex
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE, Candidate
from conformance.defects.plan import PlannedTrial
from conformance.execute import execute, judge, utc_timestamp, worst_sentence
from conformance.forked_process import forked_pool, run_in_order
from conformance.judge.incremental import IncrementalJudge
from conformance.records import candidate_record, cell_header, item_name
from conformance.results.fingerprints import environment_sha256, suite_sha256
from conformance.results.layout import RunDirectoryError
from conformance.results.schema import CellHeader, RunHeader
from conformance.results.writer import begin_run
from conformance.run.applicability import inapplicable_reason
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.verdicts import Outcome, Verdict, worst_in_cell


def broken_reference(defect: str | None) -> Candidate:
    """Return the candidate `reference` with the defect of this name; None: the sound reference, without a defect."""
    return REFERENCE.model_copy(update={"defect": defect})


@dataclass(frozen=True, slots=True)
class TrialRunDirectory:
    """The run directory in which trials are kept, and the fingerprint of the environment in the headers of its cells."""

    directory: Path
    environment_sha256: str

    @classmethod
    def create(
        cls, directory: Path, trials: Iterable[PlannedTrial], seed: int, command: tuple[str, ...]
    ) -> "TrialRunDirectory":
        """Write the header of a run of these trials, and return the object for its directory.

        Raises RunDirectoryError if the directory holds a run already. Each defect is a candidate of its own there. `command` are
        the words that started the run.
        """
        planned = tuple(trials)
        defects = dict.fromkeys(trial.defect for trial in planned)
        environment = environment_sha256()
        header = RunHeader(
            run=directory.name,
            started=utc_timestamp(),
            seed=seed,
            clock="virtual",
            candidates=tuple(candidate_record(Assignment(broken_reference(defect))) for defect in defects),
            suite_sha256=suite_sha256(trial.cell.sha256 for trial in planned),
            environment_sha256=environment,
            command=command,
            filtered=True,
            cells_planned=len(planned),
        )
        if begin_run(directory, header) is not header:
            raise RunDirectoryError(
                f"{directory} holds an interrupted run of these trials; use another directory, or --fresh"
            )
        return cls(directory, environment)

    def header(self, cell: Cell, assignment: Assignment, settings: Settings) -> CellHeader:
        """Return the header of the file of one trial, in which `repeat` is the command of `conformance run` that repeats it."""
        file = os.path.relpath(paths.corpus() / cell.path)
        nodeid = f"{file}::{cell.scenario}::{item_name(cell, assignment)}"
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
"""Seconds of processor time that a trial may take."""


class CpuLimitExceeded(KeyboardInterrupt):
    """A trial took too long. Only a KeyboardInterrupt passes through an event loop at any moment."""


@dataclass(frozen=True, slots=True)
class Blame:
    """A failed verdict: its check, and the requirement that it names first."""

    check: str
    requirement: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one cell with one defect (None: without).

    `defect` and `scenario` are names, `cell` is the cell's id. `blames` are in the order of the verdicts.
    """

    defect: str | None
    scenario: str
    cell: str
    outcome: Outcome
    blames: tuple[Blame, ...]
    sentence: str
    """The worst verdict's, or why there is none."""


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A cell that was run with a defect and is not judged yet."""

    planned: PlannedTrial
    assignment: Assignment
    settings: Settings
    ran: RecordedRun


def run_trial(planned: PlannedTrial, seed: int, run_directory: TrialRunDirectory | None = None) -> Trial:
    """Run and judge one cell, and return the result; with `run_directory` keep its history and verdicts there. Blocks.

    A trial that uses more than CPU_LIMIT_S of processor time has the outcome ERROR.
    """
    if run_directory is not None:
        return _run_and_keep(planned, seed, run_directory)
    finished = run_planned(planned, seed)
    return judge_finished(finished) if isinstance(finished, FinishedTrial) else finished


def _run_and_keep(planned: PlannedTrial, seed: int, run_directory: TrialRunDirectory) -> Trial:
    """Run and judge one cell, and write its file to the run directory; return the result. Blocks.

    A trial that uses more than CPU_LIMIT_S of processor time has the outcome ERROR.
    """
    assignment, settings = _candidate_and_settings(planned, seed)
    header = run_directory.header(planned.cell, assignment, settings)
    try:
        with limited_cpu_time(CPU_LIMIT_S):
            result = run_without_loop(execute(planned.cell, assignment, settings, header, run_directory.directory))
    except CpuLimitExceeded:
        return _trial_over_cpu_limit(planned, CPU_LIMIT_S)
    return _judged_trial(planned, result.outcome, result.verdicts, worst_sentence(result.verdicts))


def run_planned(planned: PlannedTrial, seed: int, cpu_limit_s: float | None = None) -> FinishedTrial | Trial:
    """Run one cell in virtual time without judging it, in a temporary directory. Blocks.

    Returns the finished run; a `Trial`, its result, at once when the cell is not applicable or took more than `cpu_limit_s` seconds of
    processor time (None: CPU_LIMIT_S).
    """
    limit_s = CPU_LIMIT_S if cpu_limit_s is None else cpu_limit_s
    cell = planned.cell
    assignment, settings = _candidate_and_settings(planned, seed)
    if reason := inapplicable_reason(cell, assignment, settings):
        return _not_applicable(planned, reason)
    with tempfile.TemporaryDirectory(prefix="conformance-trial-") as folder:
        try:
            with limited_cpu_time(limit_s):
                ran = run_without_loop(
                    CellRunner(cell, assignment, settings, Path(folder), IncrementalJudge()).run(OWN_LOOP)
                )
        except CpuLimitExceeded:
            return _trial_over_cpu_limit(planned, limit_s)
    if ran.inapplicable:
        return _not_applicable(planned, ran.inapplicable)
    return FinishedTrial(planned=planned, assignment=assignment, settings=settings, ran=ran)


def judge_finished(finished: FinishedTrial) -> Trial:
    """Judge a cell that was run by all checks that are registered now; return the result.

    The run may have a `problem` (the cell could not be run to its end), which makes the result an error, and a `wrong_state` (a
    step found a node in another state than it needs), which makes a pass inconclusive. Both are sentences, or ''.
    """
    planned, ran = finished.planned, finished.ran
    cell = planned.cell
    verdicts = judge(cell, finished.assignment, finished.settings, ran.events, complete=ran.complete)
    outcome = Outcome.ERROR if ran.problem else worst_in_cell(verdict.outcome for verdict in verdicts)
    if ran.wrong_state and outcome is Outcome.PASS:
        outcome = Outcome.INCONCLUSIVE
    sentence = ran.problem or ran.wrong_state or next((v.sentence for v in verdicts if v.outcome is outcome), "")
    return _judged_trial(planned, outcome, verdicts, sentence)


def _candidate_and_settings(planned: PlannedTrial, seed: int) -> tuple[Assignment, Settings]:
    """Return who plays the servers in a trial, and the settings of its run, in which a broken `should` row fails."""
    return Assignment(broken_reference(planned.defect)), Settings(clock="virtual", seed=seed, should="fail")


def _trial_over_cpu_limit(planned: PlannedTrial, limit_s: float) -> Trial:
    """Return the result, an error, of a trial that used more than `limit_s` seconds of processor time."""
    sentence = f"broken off after {limit_s} s of the processor's time"
    return Trial(
        defect=planned.defect,
        scenario=planned.cell.scenario,
        cell=planned.cell.id,
        outcome=Outcome.ERROR,
        blames=(),
        sentence=sentence,
    )


def _not_applicable(planned: PlannedTrial, reason: str) -> Trial:
    """Return the result of a trial whose cell does not apply to the reference, for this reason."""
    return Trial(
        defect=planned.defect,
        scenario=planned.cell.scenario,
        cell=planned.cell.id,
        outcome=Outcome.NOT_APPLICABLE,
        blames=(),
        sentence=reason,
    )


def _judged_trial(planned: PlannedTrial, outcome: Outcome, verdicts: Iterable[Verdict], sentence: str) -> Trial:
    """Return the result of a trial with this outcome and sentence, and a blame for each failed verdict that names a requirement.

    A trial that ended in an error has no blames: its history is not whole.
    """
    failed = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL and outcome is not Outcome.ERROR]
    blames = tuple(Blame(verdict.check, verdict.requirements[0]) for verdict in failed if verdict.requirements)
    return Trial(
        defect=planned.defect,
        scenario=planned.cell.scenario,
        cell=planned.cell.id,
        outcome=outcome,
        blames=blames,
        sentence=sentence,
    )


@contextmanager
def limited_cpu_time(limit_s: float) -> Iterator[None]:
    """Raise CpuLimitExceeded in the main thread once this process has used `limit_s` seconds of processor time in the block.

    The block then ends with CpuLimitExceeded, also if it raised something else or nothing: an interrupted event loop may fail to
    clean up. Uses the timer and the signal SIGPROF, whose handler is restored at the end. To be called in the main thread.
    """
    exceeded = False

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        """Handle SIGPROF: note that the limit is exceeded, and raise CpuLimitExceeded."""
        nonlocal exceeded
        exceeded = True
        raise CpuLimitExceeded

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    except BaseException as error:
        if exceeded:
            raise CpuLimitExceeded from error
        raise
    else:
        if exceeded:
            raise CpuLimitExceeded
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run_trials(
    trials: Sequence[PlannedTrial], seed: int, jobs: int, run_directory: TrialRunDirectory | None = None
) -> Iterator[Trial]:
    """Run all trials in `jobs` forked processes and yield their results in order; with `run_directory` keep them there.

    Blocks until the next result in order has come. Sets the module's list `_TRIALS`, so only one call can be active at a time.
    When the iteration ends early, or a trial raises, the others are not run to their end. Raises ProcessDied.
    """
    _TRIALS[:] = trials
    with forked_pool(jobs) as pool:
        yield from run_in_order(
            pool, partial(_run_number, seed=seed, run_directory=run_directory), range(len(trials)), chunksize=4
        )


_TRIALS: list[PlannedTrial] = []
"""All trials; forked processes get the number of one, since a cell is slow to pickle."""


def _run_number(number: int, seed: int, run_directory: TrialRunDirectory | None) -> Trial:
    """Run the trial with this number of `_TRIALS`; called in a forked process."""
    return run_trial(_TRIALS[number], seed, run_directory)
