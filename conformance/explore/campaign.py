"""Runs many plans in forked processes, and reduces one plan for each rule that any of them violates.

A *plan* is a cell with faults that is judged by the rules of the model; its *result* is what it violates and shows. The command
`conformance explore` calls this. In virtual time the results do not depend on how many processes there are: a plan is run by
itself, and what it finds is ordered by the number of the plan.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.clocks import CLOCKS
from conformance.explore.documents import problems_of
from conformance.explore.random_plans import RandomPlans
from conformance.explore.shrink import MAX_RUNS, shrink
from conformance.explore.sometimes import SOMETIMES
from conformance.explore.states import Coverage, coverage
from conformance.explore.sweep import Plan
from conformance.explore.trial import Observation, PlanResult, PlanRun, Violation, observe, run_plan
from conformance.forked_process import forked_pool, run_in_order, run_unordered
from conformance.run.settings import Settings

_MAX_REAL_RUNS = 8
"""Runs that the reduction of one plan may take where time passes by itself: each takes some 40 seconds."""


_CURVE_POINTS = 99
"""Parts into which the plans of a coverage curve are divided."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that a plan violates, the reduced plan, and how many plans of the campaign have it as their first violation."""

    violation: Violation
    original: Plan
    reduced: Plan
    plans: int

    @property
    def name(self) -> str:
        """A stable name: the check and a hash of the reduced plan's steps and topology."""
        contents = self.reduced.cell.model_dump_json(include={"steps", "topology"}, by_alias=True)
        digest = hashlib.sha256(contents.encode()).hexdigest()[:8]
        return f"{self.violation.check.replace('.', '-').lower()}-{digest}"


@dataclass(slots=True)
class Campaign:
    """The results of the plans of a campaign: `results` has them by the number of the plan."""

    results: dict[int, PlanResult] = field(default_factory=dict)
    _states: set[str] = field(default_factory=set)
    _checks: set[str] = field(default_factory=set)

    def add(self, number: int, result: PlanResult) -> None:
        """Add the result of the plan with this number; `progress` counts its states, and the first check that it violates."""
        self.results[number] = result
        self._checks.update(violation.check for violation in result.violations[:1])
        if result.observed is not None:
            self._states |= result.observed.visited.states

    @property
    def progress(self) -> str:
        """How many distinct states and violated checks (of each plan the first) were found so far, in words."""
        return f"{len(self._states)} states, {len(self._checks)} findings"

    @property
    def outcomes(self) -> Counter[str]:
        """How many plans had each outcome (`trial.PlanOutcome`)."""
        return Counter(result.outcome for result in self.results.values())

    @property
    def fired(self) -> int:
        """The number of plans all of whose faults occurred; a plan that was not applicable does not count."""
        return sum(result.fired for result in self.results.values() if result.outcome != "inapplicable")

    @property
    def unfinished(self) -> Counter[str]:
        """The reasons why plans could not be run to their end, each with the number of such plans."""
        return Counter(result.reason for result in self.results.values() if result.outcome == "unfinished")

    @property
    def curve(self) -> tuple[tuple[int, int], ...]:
        """How many distinct states the first plans showed: (plans, states) at up to 100 numbers of plans, from 0 to the last."""
        seen, counts = set[str](), [0]
        for _, result in sorted(self.results.items()):
            seen |= result.observed.visited.states if result.observed is not None else frozenset()
            counts.append(len(seen))
        last = len(counts) - 1
        points = sorted({round(last * point / _CURVE_POINTS) for point in range(_CURVE_POINTS + 1)})
        return tuple((plans, counts[plans]) for plans in points)

    @property
    def observations(self) -> list[Observation]:
        """What each plan showed besides violations, in the order in which results came, without plans that were not observed."""
        return [result.observed for result in self.results.values() if result.observed is not None]

    @property
    def sometimes(self) -> dict[str, int]:
        """How many plans showed each of the things that must be seen sometimes, by its sentence; 0 for one never seen."""
        counts = Counter(sentence for observed in self.observations for sentence in observed.seen)
        return {sentence: counts[sentence] for sentence in SOMETIMES}

    @property
    def coverage(self) -> Coverage:
        """How many states and transitions the plans visited together, and how many states one plan alone."""
        return coverage(observed.visited for observed in self.observations)

    def first_violations(self) -> dict[str, tuple[int, Violation, int]]:
        """Return for each violated check the number of the first plan that violates it, its violation, and how many plans do.

        Only the first violation of each plan counts.
        """
        found: dict[str, tuple[int, Violation, int]] = {}
        for number, result in sorted(self.results.items()):
            for violation in result.violations[:1]:
                first, shown, count = found.get(violation.check, (number, violation, 0))
                found[violation.check] = (first, shown, count + 1)
        return found


def run_plans(
    plans: Sequence[Plan],
    assignment: Assignment,
    settings: Settings,
    jobs: int,
    until: float | None = None,
    known: Container[int] = (),
) -> Iterator[tuple[int, PlanResult]]:
    """Run plans in forked processes, `jobs` at a time, and yield the number and result of each as it ends.

    Those with a `known` number are not run. The first result after `until`, a time of `time.monotonic()`, is the last: plans that
    still run then are ended and have none. Blocks while it waits for the next result. Only one call may be in progress, since
    the processes find the plans in `_WORK`.
    """
    _WORK[:] = [(plans, assignment, settings)]
    numbers = (number for number in range(len(plans)) if number not in known)
    at_once = jobs * (2 if CLOCKS[settings.clock].jumps else 1)  # no process waits for its next short plan
    with forked_pool(jobs) as pool:
        for number, result in run_unordered(pool, _run_number, numbers, at_once):
            yield number, result
            if until is not None and time.monotonic() >= until:
                return


def run_bases(
    plans: Sequence[Plan], assignment: Assignment, settings: Settings, jobs: int
) -> Iterator[tuple[PlanRun, float]]:
    """Run plans without faults, and yield the run of each with the seconds of processor time that it took, in order. Blocks.

    With one job they run in this process, one after another, else in forked ones.
    """
    if jobs == 1:
        for plan in plans:
            yield _run_base(plan, assignment, settings)
        return
    with forked_pool(jobs) as pool:
        yield from run_in_order(pool, partial(_run_base, assignment=assignment, settings=settings), plans)


def _run_base(plan: Plan, assignment: Assignment, settings: Settings) -> tuple[PlanRun, float]:
    """Run one plan in this process; return it with the seconds of processor time."""
    began = time.process_time()
    run = run_plan(plan, assignment, settings)
    return run, time.process_time() - began


_WORK: list[tuple[Sequence[Plan], Assignment, Settings]] = []
"""The plans of the call in hand; forked processes get their numbers, and build or draw the plan."""


def _run_number(number: int) -> tuple[int, PlanResult]:
    """Run the plan of `_WORK` with this number; return the number, and the result with what its history showed.

    Called in a forked process.
    """
    ((plans, assignment, settings),) = _WORK
    run = plans.run(number) if isinstance(plans, RandomPlans) else run_plan(plans[number], assignment, settings)
    return number, observe(run, assignment)


def reduce_findings(
    campaign: Campaign,
    plans: Sequence[Plan],
    assignment: Assignment,
    settings: Settings,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Finding]:
    """Return one finding for each violated check, with its plan reduced while that check still fails. Blocks.

    Runs plans in this process: for each check at most 150, or 8 on a clock on which time passes by itself, and for a random plan two to
    four more, since it is drawn again. `progress` gets a line before each reduction. After a KeyboardInterrupt (Ctrl-C) during a
    reduction that plan and those that follow are returned as they were found; after one while a plan is drawn, that plan and those
    that follow are left out.
    """
    findings = []
    interrupted = False
    for check, (number, violation, count) in campaign.first_violations().items():
        try:
            original = reduced = plans[number]
        except KeyboardInterrupt:
            progress("interrupted: the rest is left out, and another call with the same directory reduces it")
            break

        def fails(plan: Plan, check: str = check) -> bool:
            """Return whether a plan is a valid scenario that violates the check of the finding."""
            if problems_of(plan.cell, paths.fixtures()):
                return False
            return any(found.check == check for found in run_plan(plan, assignment, settings).result.violations)

        if not interrupted:
            progress(f"reducing {original.name} ({check})")
            try:
                reduced = shrink(original, fails, MAX_RUNS if CLOCKS[settings.clock].jumps else _MAX_REAL_RUNS)
            except KeyboardInterrupt:
                interrupted = True
                progress("interrupted: the rest is kept as it was found")
        findings.append(Finding(violation=violation, original=original, reduced=reduced, plans=count))
    return findings
