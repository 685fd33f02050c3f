"""One cell from beginning to end: run it, judge its history, write both down.

This is what the pytest plugin calls for each item, and a cluster's executor for each row: it knows nothing of either.
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

Known = Callable[[Outcome, tuple[Verdict, ...]], str]
"""(outcome, verdicts) -> why a cell that ended so is known to fail; '' when it is not."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """What became of a cell, and where the whole of it is written."""

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
    known: Known = lambda outcome, verdicts: "",
) -> CellResult:
    """Run and judge one cell; everything is written to its file of the run directory as it happens.

    Where `cell_loop` is OWN_LOOP this waits for nothing (see `conformance.run.cell_loop.run_without_loop`). `known` is called once, with
    the outcome and the verdicts of the cell; what it returns is written into the footer.

    A cell that needs what the candidate does not claim is not started. Never raises for what a node, a scenario or
    the harness itself does wrong: that is a verdict. KeyboardInterrupt passes through, after everything was cleaned
    up.
    """
    reason = inapplicable_reason(cell, assignment, settings)
    with _Execution(cell, assignment, header, run_dir, known, settings) as execution:
        if reason:
            return execution.not_applicable(reason)
        run = CellRunner(
            cell,
            assignment,
            settings,
            execution.attachments,
            IncrementalJudge(),
            seen=execution.seen,
            flush=execution.flush,
        )
        ran = await run.run(cell_loop)
        if ran.inapplicable:
            return execution.not_applicable(ran.inapplicable)
        verdicts = await cell_loop.call(_judged, cell, assignment, settings, ran)
        return await cell_loop.call(execution.finish, ran, verdicts)  # it compresses the history


class _Execution:
    """One cell's file of the run directory, from its header to its footer."""

    def __init__(
        self,
        cell: Cell,
        assignment: Assignment,
        header: CellHeader,
        run_dir: Path,
        known: Known,
        settings: Settings,
    ) -> None:
        self._settings = settings
        self._cell = cell
        self._assignment = assignment
        self._known = known
        self._writer = CellWriter(run_dir, header)
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self.seen = self._writer.add_event
        """Writes an event as it happens."""

    def __enter__(self) -> "_Execution":
        self._writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    @property
    def attachments(self) -> Path:
        """Where nodes have their directories."""
        return self._writer.attachments

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        self._writer.flush()

    def not_applicable(self, why: str) -> CellResult:
        """Write that the cell is not applicable, and why."""
        verdict = Verdict(
            check="harness.capabilities",
            outcome=Outcome.NOT_APPLICABLE,
            requirements=self._cell.requirements,
            sentence=why,
        )
        self._writer.write_verdict(verdict)
        known = self._known(Outcome.NOT_APPLICABLE, (verdict,))
        self._writer.finish(
            Outcome.NOT_APPLICABLE, why, wall_seconds=0, cpu_seconds=0, simulated_seconds=0, known=known
        )
        return CellResult(Outcome.NOT_APPLICABLE, (verdict,), (), self._writer.path, {})

    def finish(self, ran: RecordedRun, verdicts: tuple[Verdict, ...]) -> CellResult:
        """Write the verdicts and the footer."""
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
            verdicts = (*verdicts, *self._excused(_astray(self._cell, ran), ran))
        if ran.timed_out:
            verdicts = (*self._excused(_timed_out(self._cell, ran), ran), *verdicts)
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
            known=self._known(outcome, verdicts),
        )
        return CellResult(outcome, verdicts, ran.events, self._writer.path, ran.logs, ran.problem)

    def _excused(self, verdict: Verdict, ran: RecordedRun) -> Iterator[Verdict]:
        return excuse_lateness([verdict], ran.events, self._settings.tolerance)


def _judged(cell: Cell, assignment: Assignment, settings: Settings, ran: RecordedRun) -> tuple[Verdict, ...]:
    """Judge what was run; where a check raises an exception, nothing was judged."""
    try:
        return judge(cell, assignment, settings, ran.events, complete=ran.complete)
    except Exception as error:  # noqa: BLE001  # whatever a check raises, the cell was not judged
        traceback.print_exc()
        said = describe_harness_error(error)
        return (Verdict(check="harness.judge", outcome=Outcome.ERROR, requirements=cell.requirements, sentence=said),)


def _astray(cell: Cell, ran: RecordedRun) -> Verdict:
    """Return what a step that came at the wrong time proves: nothing, whatever else was found."""
    return Verdict(
        check="harness.steps",
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.NO_OCCASION,
        requirements=cell.requirements,
        sentence=f"the scenario took another course than it was written for: {ran.wrong_state}",
        evidence=tuple(e.n for e in ran.events if isinstance(e, StepEvent) and e.phase == "failed"),
    )


def _timed_out(cell: Cell, ran: RecordedRun) -> Verdict:
    """Return that a cell used up its real time: what it has not shown until then stays open."""
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
    """Judge a history, of a moment ago or of a year ago."""
    setting = JudgeSettings(
        settings.clock, settings.tolerance, claimed_capabilities(cell, assignment), complete, settings.should
    )
    return judge_cell(cell, events, setting)


def worst_sentence(verdicts: tuple[Verdict, ...]) -> str:
    """Return the sentence of the worst verdict, or nothing when all is well."""
    whole = worst_in_cell(verdict.outcome for verdict in verdicts)
    if whole in OK_OUTCOMES:
        return ""
    return next(verdict.sentence for verdict in verdicts if verdict.outcome is whole)


def utc_timestamp() -> str:
    """Return the present moment for a header: real time, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
