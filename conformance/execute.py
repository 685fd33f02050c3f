"""Executes one cell: runs it, judges its history, and writes both to the run directory.

The pytest plugin calls this for each item, `conformance defects` for each trial, the fixture `run_scenario` for each cell.

A `RecordedRun` has the history of a cell and says why the run is not whole. Each reason is a sentence, '' for none: the
run broke (`problem`), a step needed a node in another state (`wrong_state`), the cell used up its real time
(`timed_out`), or the clock or disk does not suit the candidate after all (`inapplicable`).
"""

import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from conformance.candidates.assignment import Assignment
from conformance.candidates.cell_needs import claimed_capabilities
from conformance.history.events import AnyEvent, StepEvent
from conformance.judge.adjustments import excuse_lateness
from conformance.judge.cell import JudgeSettings, judge_cell
from conformance.judge.incremental import IncrementalJudge
from conformance.results.kept_nodes import delete_node_data, keep_node_directories
from conformance.results.schema import CellHeader
from conformance.results.writer import CellWriter
from conformance.run.applicability import inapplicable_reason
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, CellLoop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.shortage import describe_harness_error
from conformance.verdicts import Outcome, Reason, Verdict, worst_in_cell
from conformance.verdicts.outcome import OK_OUTCOMES

FindKnownFailure = Callable[[Outcome, tuple[Verdict, ...]], str]
"""(outcome, verdicts) of a cell -> why it is known to fail with these; '' if it is not."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of a cell. `file` is the cell's file, with header, events, verdicts and footer.

    `logs` has the path of each node's log, by the name of its server; it is empty where the cell passed, since the logs are in a
    ZIP file then. `problem` is why the run itself broke, or ''.
    """

    outcome: Outcome
    verdicts: tuple[Verdict, ...]
    events: tuple[AnyEvent, ...]
    file: Path
    logs: dict[str, Path]
    problem: str = ""


async def execute(
    cell: Cell,
    assignment: Assignment,
    settings: Settings,
    header: CellHeader,
    run_dir: Path,
    *,
    cell_loop: CellLoop = OWN_LOOP,
    find_known_failure: FindKnownFailure = lambda outcome, verdicts: "",
) -> CellResult:
    """Run and judge one cell, and return its result; events are written to the cell's file as they happen.

    The directory `run_dir` gets the cell's file and the nodes' directories; `header` becomes the file's first record.
    With `cell_loop` OWN_LOOP the cell runs on a new event loop, which blocks the caller's: the coroutine never
    suspends, so it is run by `conformance.run.cell_loop.run_without_loop`. `find_known_failure` is called once, with
    the outcome and the verdicts; what it returns is written into the footer.

    A cell that does not apply to the candidate (`inapplicable_reason`) is not started; its one verdict says why. What a node, a
    scenario or the harness itself does wrong is a verdict, not an exception. Raises RunDirectoryError where `run_dir` has a file
    of this cell already, OSError where files cannot be written; KeyboardInterrupt after everything was cleaned up.
    """
    reason = inapplicable_reason(cell, assignment, settings)  # '' where the cell applies
    with _Execution(cell, assignment, header, run_dir, find_known_failure, settings) as execution:
        if reason:
            return execution.not_applicable(reason)
        runner = CellRunner(
            cell,
            assignment,
            settings,
            execution.attachments,
            IncrementalJudge(),  # says during the run whether an expectation holds already
            on_event=execution.write_event,
            flush=execution.flush,
        )
        ran = await runner.run(cell_loop)
        if ran.inapplicable:
            return execution.not_applicable(ran.inapplicable)
        verdicts = await cell_loop.call(_judge_run, cell, assignment, settings, ran)
        return await cell_loop.call(execution.finish, ran, verdicts)  # in a thread: this compresses the history


class _Execution:
    """Writes one cell's file of the run directory, from its header to its footer; a context manager.

    Where the block ends without `finish` or `not_applicable`, the file has no footer: the cell was cut short. `_writer`
    writes the file; `_find_known_failure` returns the reason if the outcome is a listed known failure, else ''.
    """

    def __init__(
        self,
        cell: Cell,
        assignment: Assignment,
        header: CellHeader,
        run_dir: Path,
        find_known_failure: FindKnownFailure,
        settings: Settings,
    ) -> None:
        """Note the time at which the cell begins; nothing is written before the block begins."""
        self._settings = settings
        self._cell = cell
        self._assignment = assignment
        self._find_known_failure = find_known_failure
        self._writer = CellWriter(run_dir, header)
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self.write_event = self._writer.add_event

    def __enter__(self) -> "_Execution":
        """Create the cell's file with its header. Raises RunDirectoryError where the run has a file of this cell already."""
        self._writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the events that are not written yet, and close the file; an exception of the block is not caught."""
        self._writer.__exit__(kind, error, trace)

    @property
    def attachments(self) -> Path:
        """The directory that contains the nodes' directories."""
        return self._writer.attachments

    def flush(self) -> None:
        """Hand what was written to the operating system, so that it survives the end of this process."""
        self._writer.flush()

    def not_applicable(self, reason: str) -> CellResult:
        """Write the verdict that the cell is not applicable, and the footer; return the result."""
        verdict = Verdict(
            check="harness.capabilities",
            outcome=Outcome.NOT_APPLICABLE,
            requirements=self._cell.requirements,
            sentence=reason,
        )
        self._writer.write_verdict(verdict)
        known = self._find_known_failure(Outcome.NOT_APPLICABLE, (verdict,))
        self._writer.finish(
            Outcome.NOT_APPLICABLE, reason, wall_seconds=0, cpu_seconds=0, simulated_seconds=0, known=known
        )
        return CellResult(
            outcome=Outcome.NOT_APPLICABLE, verdicts=(verdict,), events=(), file=self._writer.path, logs={}
        )

    def finish(self, ran: RecordedRun, verdicts: tuple[Verdict, ...]) -> CellResult:
        """Write the verdicts, also those about the run itself, and the footer; return the result.

        With `--keep` the nodes' directories of a failed or broken cell are copied, and after every outcome the queues in the
        originals are deleted.
        """
        if ran.problem:
            broken = Verdict(
                check="harness.run",
                outcome=Outcome.ERROR,
                requirements=self._cell.requirements,
                sentence=ran.problem,
                evidence=(ran.events[-1].n,) if ran.events else (),
            )
            verdicts = (broken, *verdicts)
        if ran.wrong_state:
            verdicts = (*verdicts, *self._excuse_lateness(_wrong_state_verdict(self._cell, ran), ran))
        if ran.timed_out:
            verdicts = (*self._excuse_lateness(_timeout_verdict(self._cell, ran), ran), *verdicts)
        for verdict in verdicts:
            self._writer.write_verdict(verdict)
        outcome = worst_in_cell(verdict.outcome for verdict in verdicts)
        if self._settings.keep is not None:
            if outcome in (Outcome.FAIL, Outcome.ERROR):
                keep_node_directories(self._writer.path, self._writer.attachments)
            delete_node_data(self._writer.attachments)
        self._writer.finish(
            outcome,
            worst_sentence(verdicts),
            wall_seconds=time.monotonic() - self._wall,
            cpu_seconds=time.process_time() - self._cpu,
            simulated_seconds=ran.simulated,
            known=self._find_known_failure(outcome, verdicts),
        )
        return CellResult(
            outcome=outcome,
            verdicts=verdicts,
            events=ran.events,
            file=self._writer.path,
            logs={name: path for name, path in ran.logs.items() if path.exists()},  # else `finish` has compressed it
            problem=ran.problem,
        )

    def _excuse_lateness(self, verdict: Verdict, ran: RecordedRun) -> Iterator[Verdict]:
        """Yield the verdict; where the harness was later than it may be, one that is inconclusive for that reason instead."""
        return excuse_lateness([verdict], ran.events, self._settings.tolerance)


def _judge_run(cell: Cell, assignment: Assignment, settings: Settings, ran: RecordedRun) -> tuple[Verdict, ...]:
    """Return the verdicts on a run; if a check raises an exception, a single one, an error with a sentence about the exception.

    The exception is printed to stderr with its traceback.
    """
    try:
        return judge(cell, assignment, settings, ran.events, complete=ran.complete)
    except Exception as error:  # noqa: BLE001  # whatever a check raises, the cell was not judged
        traceback.print_exc()
        why = describe_harness_error(error)
        return (Verdict(check="harness.judge", outcome=Outcome.ERROR, requirements=cell.requirements, sentence=why),)


def _wrong_state_verdict(cell: Cell, ran: RecordedRun) -> Verdict:
    """Return the inconclusive verdict on a cell in which a step found a node in a state that the scenario excludes."""
    return Verdict(
        check="harness.steps",
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.NO_OCCASION,
        requirements=cell.requirements,
        sentence=f"the scenario took another course than it was written for: {ran.wrong_state}",
        evidence=tuple(e.n for e in ran.events if isinstance(e, StepEvent) and e.phase == "failed"),
    )


def _timeout_verdict(cell: Cell, ran: RecordedRun) -> Verdict:
    """Return the inconclusive verdict on a cell that has used up its real time (`--cell-timeout`)."""
    return Verdict(
        check="harness.cell-timeout",
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.CUT_SHORT,
        requirements=cell.requirements,
        sentence=ran.timed_out,
        evidence=(ran.events[-1].n,) if ran.events else (),
    )


def judge(
    cell: Cell, assignment: Assignment, settings: Settings, events: tuple[AnyEvent, ...], *, complete: bool
) -> tuple[Verdict, ...]:
    """Return the verdicts of all checks on a cell's history; `complete`: the run was neither broken off nor timed out."""
    setting = JudgeSettings(
        clock=settings.clock,
        tolerance=settings.tolerance,
        claims=claimed_capabilities(cell, assignment),
        complete=complete,
        should=settings.should,
    )
    return judge_cell(cell, events, setting)


def worst_sentence(verdicts: tuple[Verdict, ...]) -> str:
    """Return the sentence of the first verdict with the worst outcome, '' if that is pass or not applicable.

    For a cell without any verdict, such as one that waives every invariant and expects nothing, the sentence says so.
    """
    if not verdicts:
        return "no check judged anything in this cell"
    outcome = worst_in_cell(verdict.outcome for verdict in verdicts)
    if outcome in OK_OUTCOMES:
        return ""
    return next(verdict.sentence for verdict in verdicts if verdict.outcome is outcome)


def utc_timestamp() -> str:
    """Return the present real time in UTC as ISO 8601, to the second, as headers have it: `2026-11-23T08:43:47Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))
