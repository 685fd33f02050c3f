"""Runs a plan and judges its history by the model alone, and by the harness's own checks of the nodes."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from conformance.candidates.assignment import Assignment
from conformance.execute import judge
from conformance.explore.sweep import Plan
from conformance.history.events import AnyEvent, FaultFired
from conformance.run.applicability import inapplicable_reason
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.verdicts import Outcome

PlanOutcome = Literal["sound", "violated", "unfinished", "inapplicable"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a history violates: the check, the requirement that it blames, and the sentence."""

    check: str
    requirement: str
    sentence: str


@dataclass(frozen=True, slots=True)
class PlanResult:
    """What came of a plan.

    `fired` says whether all of its faults occurred. `unfinished` is a cell that could not be run to its end, with the `reason`.
    """

    name: str
    outcome: PlanOutcome
    violations: tuple[Violation, ...] = ()
    fired: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A plan, its result and its history."""

    plan: Plan
    result: PlanResult
    events: tuple[AnyEvent, ...]


def run_plan(plan: Plan, assignment: Assignment, settings: Settings) -> PlanRun:
    """Run a plan's cell in this process and judge it. Blocks."""
    if reason := inapplicable_reason(plan.cell, assignment, settings):
        return PlanRun(plan, PlanResult(plan.name, "inapplicable", reason=reason), ())
    with tempfile.TemporaryDirectory(prefix="conformance-explore-") as folder:
        ran = run_without_loop(CellRunner(plan.cell, assignment, settings, Path(folder), _holds_never).run(OWN_LOOP))
    if ran.inapplicable:
        return PlanRun(plan, PlanResult(plan.name, "inapplicable", reason=ran.inapplicable), ran.events)
    violations = find_violations(plan.cell, assignment, settings, ran.events, complete=ran.complete)
    fired = _have_fired(plan.faults, ran.events)
    reason = ran.problem or ran.wrong_state
    if violations:
        return PlanRun(plan, PlanResult(plan.name, "violated", violations, fired), ran.events)
    if reason or not ran.complete:
        return PlanRun(
            plan, PlanResult(plan.name, "unfinished", fired=fired, reason=reason or ran.timed_out), ran.events
        )
    return PlanRun(plan, PlanResult(plan.name, "sound", fired=fired), ran.events)


def find_violations(
    cell: Cell, assignment: Assignment, settings: Settings, events: tuple[AnyEvent, ...], *, complete: bool
) -> tuple[Violation, ...]:
    """Return what the model and the harness's own checks find wrong in a history; expectations are not asked."""
    verdicts = judge(cell, assignment, settings, events, complete=complete)
    return tuple(
        Violation(verdict.check, verdict.requirements[0], verdict.sentence)
        for verdict in verdicts
        if verdict.outcome is Outcome.FAIL and verdict.requirements and not verdict.check.startswith("expect.")
    )


def _have_fired(faults: tuple[str, ...], events: tuple[AnyEvent, ...]) -> bool:
    """Return whether each fault of a plan has acted."""
    return set(faults) <= {event.fault for event in events if isinstance(event, FaultFired)}


def _holds_never(*_: object) -> bool:
    """Plans have no expectations, so nothing asks."""
    return False
