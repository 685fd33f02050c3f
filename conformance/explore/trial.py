"""Runs a plan and judges its history by the model alone, and by the harness's own checks of the nodes.

A *plan* is a cell with faults (`sweep.Plan`). `campaign` calls this in its forked processes, and in the main process to reduce what was
found. A run takes place on the clock of the settings, mostly the virtual one, in a temporary directory, and blocks until it has ended.
"""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from conformance.candidates.assignment import Assignment
from conformance.candidates.cell_needs import claimed_capabilities
from conformance.execute import judge
from conformance.explore.sometimes import seen_in
from conformance.explore.states import Visited, visited_in
from conformance.explore.sweep import Plan
from conformance.history.events import AnyEvent, FaultFired
from conformance.model.facts import Facts
from conformance.run.applicability import inapplicable_reason
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.trace.context import CheckContext
from conformance.trace.trace import Trace
from conformance.verdicts import Outcome

PlanOutcome = Literal["sound", "violated", "unfinished", "inapplicable"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a history violates: the check, the requirement that it blames, and the sentence."""

    check: str
    requirement: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What a plan showed besides violations: sentences of `sometimes`, states, and how many of its faults there are and fired."""

    seen: tuple[str, ...]
    visited: Visited
    faults: int
    fired: int


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result of a plan, by the plan's name.

    `outcome`: `violated` where a rule is, `sound` where none is, `unfinished` for a cell that could not be run to its end,
    `inapplicable` for one that could not be run on the candidate; the last two have a `reason`. `fired` says whether all of its faults
    occurred; it means nothing for `inapplicable`. `observed` is None until `observe` adds it.
    """

    name: str
    outcome: PlanOutcome
    violations: tuple[Violation, ...] = ()
    fired: bool = True
    reason: str = ""
    observed: Observation | None = None


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A plan, its result and its history."""

    plan: Plan
    result: PlanResult
    events: tuple[AnyEvent, ...]


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """A plan that was run, and is not judged yet.

    `complete`: the run came to the end of its drain. `reason` is why it did not, or why its steps ended early, '' otherwise.
    `inapplicable` is why the plan could not be run on the candidate, '' otherwise.
    """

    plan: Plan
    events: tuple[AnyEvent, ...] = ()
    complete: bool = False
    reason: str = ""
    inapplicable: str = ""


def run_plan(plan: Plan, assignment: Assignment, settings: Settings) -> PlanRun:
    """Run a plan's cell in this process and judge it. Blocks."""
    return judge_plan(record_plan(plan, assignment, settings), assignment, settings)


def record_plan(plan: Plan, assignment: Assignment, settings: Settings) -> RecordedPlan:
    """Run a plan's cell in this process, and return its history; without one if the cell is not applicable. Blocks."""
    if reason := inapplicable_reason(plan.cell, assignment, settings):
        return RecordedPlan(plan, inapplicable=reason)
    with tempfile.TemporaryDirectory(prefix="conformance-explore-") as folder:
        ran = run_without_loop(CellRunner(plan.cell, assignment, settings, Path(folder), _holds_never).run(OWN_LOOP))
    return RecordedPlan(
        plan=plan,
        events=ran.events,
        complete=ran.complete,
        reason=ran.problem or ran.wrong_state or ran.timed_out,
        inapplicable=ran.inapplicable,
    )


def judge_plan(recorded: RecordedPlan, assignment: Assignment, settings: Settings) -> PlanRun:
    """Judge a plan that was run, and return it with its result and history, without running it again.

    It is `inapplicable` where it could not be run on the candidate; else `violated` where the model or the harness's checks find
    anything; else `unfinished` where it did not get to its end or a step could not be done, else `sound`.
    """
    plan, events = recorded.plan, recorded.events
    if recorded.inapplicable:
        return PlanRun(
            plan=plan, result=PlanResult(plan.name, "inapplicable", reason=recorded.inapplicable), events=events
        )
    violations = find_violations(plan.cell, assignment, settings, events, complete=recorded.complete)
    fired = set(plan.faults) <= fired_faults(events)
    if violations:
        return PlanRun(
            plan=plan,
            result=PlanResult(name=plan.name, outcome="violated", violations=violations, fired=fired),
            events=events,
        )
    if recorded.reason or not recorded.complete:
        return PlanRun(
            plan=plan, result=PlanResult(plan.name, "unfinished", fired=fired, reason=recorded.reason), events=events
        )
    return PlanRun(plan=plan, result=PlanResult(plan.name, "sound", fired=fired), events=events)


def observe(run: PlanRun, assignment: Assignment) -> PlanResult:
    """Return the result of a plan that was run, with what else its history showed (`Observation`)."""
    claims = claimed_capabilities(run.plan.cell, assignment)
    facts = Facts(CheckContext(run.plan.cell, Trace(run.events), claims=claims))
    faults = set(run.plan.faults)
    fired = len(faults & fired_faults(run.events))
    return replace(
        run.result,
        observed=Observation(seen=seen_in(facts), visited=visited_in(facts), faults=len(faults), fired=fired),
    )


def find_violations(
    cell: Cell, assignment: Assignment, settings: Settings, events: tuple[AnyEvent, ...], *, complete: bool
) -> tuple[Violation, ...]:
    """Return what the model and the harness's own checks find wrong in a history: each failed check that blames a requirement.

    Failed expectations are left out. `complete`: the run came to the end of its drain.
    """
    verdicts = judge(cell, assignment, settings, events, complete=complete)
    return tuple(
        Violation(check=verdict.check, requirement=verdict.requirements[0], sentence=verdict.sentence)
        for verdict in verdicts
        if verdict.outcome is Outcome.FAIL and verdict.requirements and not verdict.check.startswith("expect.")
    )


def fired_faults(events: Iterable[AnyEvent]) -> set[str]:
    """Return the names of the faults and moments that acted in a history."""
    return {event.fault for event in events if isinstance(event, FaultFired)}


def _holds_never(*_: object) -> bool:
    """Return False. Never called: a run asks only for expectations, and plans have none."""
    return False
