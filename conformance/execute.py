"""One cell from beginning to end: run it, judge its history, write both down.

This is what the pytest plugin calls for each item, and a cluster's executor for each row: it knows nothing of either.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from conformance.candidates.cast import Cast
from conformance.history.events import AnyEvent, StepEvent
from conformance.judge.cell import Setting, judge_cell
from conformance.judge.verdicts import Outcome, Verdict, worst
from conformance.judge.waiting import Waiting
from conformance.results.schema import CellHeader
from conformance.results.writer import CellWriter
from conformance.run.cell import Ran, run_cell
from conformance.run.disk_troubles import lacking
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell


@dataclass(frozen=True, slots=True)
class CellResult:
    """What became of a cell, and where the whole of it is written."""

    outcome: Outcome
    verdicts: tuple[Verdict, ...]
    events: tuple[AnyEvent, ...]
    file: Path
    logs: dict[str, Path]
    problem: str = ""


def execute(
    cell: Cell,
    cast: Cast,
    settings: Settings,
    header: CellHeader,
    run_dir: Path,
    *,
    watch: Callable[[AnyEvent], None] = lambda event: None,
    known: Callable[[Outcome, tuple[Verdict, ...]], str] = lambda outcome, verdicts: "",
) -> CellResult:
    """Run and judge one cell; everything is written to its file of the run directory as it happens.

    `known` says why a cell that ended so is known to fail, '' when it is not; its footer tells it.

    A cell that needs what the candidate does not claim is not started. Never raises for what a node, a scenario or
    the harness itself does wrong: that is a verdict. KeyboardInterrupt passes through, after everything was cleaned
    up.
    """
    wall, cpu = time.monotonic(), time.process_time()
    servers = tuple(server.name for server in cell.topology.servers)
    with CellWriter(run_dir, header) as writer:
        missing = cast.missing(cell.needs, servers)
        if missing or (absent := (*cast.absent(servers), *lacking(cell, cast))):
            why = "not claimed: " + ", ".join(missing) if missing else "cannot be run: " + ", ".join(absent)
            return _not_applicable(cell, writer, why)

        def seen(event: AnyEvent) -> None:
            writer.event(event)
            watch(event)

        ran = run_cell(cell, cast, settings, writer.attachments, seen, Waiting())
        if ran.inapplicable:
            return _not_applicable(cell, writer, f"--clock {settings.clock}: {ran.inapplicable}")
        verdicts = judge(cell, cast, settings, ran.events, complete=ran.problem == "")
        if ran.problem:
            broken = Verdict(
                check="harness.run",
                outcome=Outcome.ERROR,
                requirements=cell.requirements,
                sentence=ran.problem,
                evidence=(ran.events[-1].n,) if ran.events else (),
            )
            verdicts = (broken, *verdicts)
        if ran.astray:
            verdicts = (*verdicts, _astray(cell, ran))
        for verdict in verdicts:
            writer.verdict(verdict)
        outcome = worst(verdict.outcome for verdict in verdicts)
        writer.finish(
            outcome,
            headline(verdicts),
            wall_seconds=time.monotonic() - wall,
            cpu_seconds=time.process_time() - cpu,
            simulated_seconds=ran.simulated,
            known=known(outcome, verdicts),
        )
        return CellResult(outcome, verdicts, ran.events, writer.path, ran.logs, ran.problem)


def _not_applicable(cell: Cell, writer: CellWriter, why: str) -> CellResult:
    verdict = Verdict(
        check="harness.capabilities", outcome=Outcome.NOT_APPLICABLE, requirements=cell.requirements, sentence=why
    )
    writer.verdict(verdict)
    writer.finish(Outcome.NOT_APPLICABLE, verdict.sentence, wall_seconds=0, cpu_seconds=0, simulated_seconds=0)
    return CellResult(Outcome.NOT_APPLICABLE, (verdict,), (), writer.path, {})


def _astray(cell: Cell, ran: Ran) -> Verdict:
    """Return what a step that came at the wrong time proves: nothing, whatever else was found."""
    return Verdict(
        check="harness.steps",
        outcome=Outcome.INCONCLUSIVE,
        requirements=cell.requirements,
        sentence=f"the scenario took another course than it was written for: {ran.astray}",
        evidence=tuple(e.n for e in ran.events if isinstance(e, StepEvent) and e.phase == "failed"),
    )


def judge(
    cell: Cell, cast: Cast, settings: Settings, events: tuple[AnyEvent, ...], *, complete: bool
) -> tuple[Verdict, ...]:
    """Judge a history, of a moment ago or of a year ago."""
    claims = frozenset.intersection(*(frozenset(cast.plays(s.name).claims) for s in cell.topology.servers))
    setting = Setting(clock=settings.clock, tolerance=settings.tolerance, claims=claims, complete=complete)
    return judge_cell(cell, events, setting)


def headline(verdicts: tuple[Verdict, ...]) -> str:
    """Return the sentence of the worst verdict, or nothing when all is well."""
    whole = worst(verdict.outcome for verdict in verdicts)
    if whole in (Outcome.PASS, Outcome.NOT_APPLICABLE):
        return ""
    return next(verdict.sentence for verdict in verdicts if verdict.outcome is whole)


def stamp() -> str:
    """Return the present moment for a header: real time, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def workers() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
