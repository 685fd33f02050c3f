"""Ordered pairs of faults of a scenario: each single fault is run, and the second fault is put at a point after the first.

Theory of operation
-------------------
The points of the second fault are those of the run in which the first one occurred, so they include what the servers do because of it.
A plan of a pair is the plan of the first fault with one more fault. Every possible pair is enumerated: it is a plan, or
`Enumeration.pruned` counts it under the reason to leave it out. All pairs of a first fault that is not sound alone count as one.

The runs with one fault are made in forked processes. Their results do not depend on how many processes there are. A run is *sound* if
it came to its end and violates no rule of the model.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from conformance.candidates.assignment import Assignment
from conformance.explore.injections import Injection, injections_at
from conformance.explore.points import ProtocolPoint
from conformance.explore.sweep import Enumeration, ObservedCell, Plan, ScenePlans, sweep
from conformance.explore.trial import run_plan
from conformance.forked_process import forked_pool, run_in_order
from conformance.history.events import AnyEvent, FaultFired, StepEvent
from conformance.run.settings import Settings

_OTHER_ORDER = "the second fault would come before the first: a pair in the other order"
_UNREACHABLE = "the first fault makes the point of the second unreachable"
_SAME_HISTORY = "another first fault has the same history"


def alone(outcome: str) -> str:
    """Return the reason to leave out the pairs of a first fault whose run with that fault alone has this outcome, not `sound`."""
    return f"pairs whose first fault alone is {outcome}"


@dataclass(frozen=True, slots=True)
class FirstFault:
    """What a run with one fault showed.

    `outcome` is that of `PlanResult`, or `not fired`. `fired_n` is the number of the event at which the fault fired first, -1 where it
    did not. `digest` is equal for runs with the same history, faults, steps and the numbers of events aside.
    """

    outcome: str
    observed: ObservedCell
    fired_n: int
    digest: str


def sweep_pairs(
    singles: Enumeration,
    assignment: Assignment,
    settings: Settings,
    jobs: int,
    reason_against: Callable[[Plan, Injection], str] = lambda plan, injection: "",
) -> Enumeration:
    """Return one plan for each pair of a single fault of `singles` and a fault at a representative point after it. Blocks.

    The single faults are run, `jobs` at a time. Left out, and counted in `pruned`, are a single fault whose run alone is not
    `sound` or in which it does not fire (one for all of its pairs); the pairs of one whose history an earlier one has; those
    whose second point comes before the first fault, or is not reached any more; and those that `sweep` leaves out.
    `reason_against` returns why a plan with the second fault cannot be run, '' if it can.
    """
    found = Enumeration()
    seen: set[str] = set()
    later = _by_scenario(singles)
    against: dict[tuple[str, str, str], str] = {}

    def reason_once(plan: Plan, injection: Injection) -> str:
        """Return what `reason_against` returns; it is asked once for each scenario, node and kind of the second fault."""
        key = plan.cell.id, injection.node, injection.kind
        if key not in against:
            against[key] = reason_against(plan, injection)
        return against[key]

    for number, first in _run_singles(singles.plans, assignment, settings, jobs):
        if first.outcome != "sound":
            found.pruned[alone(first.outcome)] += 1
            continue
        cell = first.observed.cell
        servers = frozenset(cell.topology.by_name)
        after = [point for point in first.observed.points if point[1].n > first.fired_n]
        earlier = len(first.observed.points) - len(after)
        for _, point in first.observed.points[:earlier]:
            found.pruned[_OTHER_ORDER] += _count_injections(point.place, servers & {point.client, point.server})
        reached = {point.text for _, point in first.observed.points}
        _, injection = singles.plans.entries[number]
        found.pruned[_UNREACHABLE] += sum(
            count for (text, n), count in later[cell.id].items() if n > injection.point.n and text not in reached
        )
        pairs = sweep(replace(first.observed, points=after), reason_once)
        found.pruned.update(pairs.pruned)
        if first.digest in seen:
            found.pruned[_SAME_HISTORY] += len(pairs.plans)
        else:
            seen.add(first.digest)
            found.plans.entries += pairs.plans.entries
    return found


def _by_scenario(singles: Enumeration) -> Mapping[str, Counter[tuple[str, int]]]:
    """Return how many single faults each point of a cell has, by the cell's id and (the point's text, the number of its event)."""
    found: dict[str, Counter[tuple[str, int]]] = {}
    for observed, injection in singles.plans.entries:
        found.setdefault(observed.cell.id, Counter())[injection.point.text, injection.point.n] += 1
    return found


@cache
def _count_injections(place: str, servers: frozenset[str]) -> int:
    """Return how many faults `injections_at` yields at a place of a link; `servers` are those of its two ends that are under test."""
    client, server = (*sorted(servers), "a", "b")[:2]
    return len(list(injections_at(ProtocolPoint(client, server, "transport", place, 1, 0.0), servers)))


def _run_singles(
    plans: ScenePlans, assignment: Assignment, settings: Settings, jobs: int
) -> Iterator[tuple[int, FirstFault]]:
    """Run each plan in a forked process, `jobs` at a time, and yield its number and what it showed, in order. Blocks."""
    _WORK[:] = [(plans, assignment, settings)]
    with forked_pool(jobs) as pool:
        for number, first in enumerate(run_in_order(pool, _run_single, range(len(plans)), chunksize=4)):
            # The process returned a copy of the cell; the plan's own one is shared by all of its pairs.
            yield number, replace(first, observed=replace(first.observed, cell=plans[number].cell))


_WORK: list[tuple[ScenePlans, Assignment, Settings]] = []
"""The plans of the call in hand; forked processes get their numbers."""


def _run_single(number: int) -> FirstFault:
    """Run the plan of `_WORK` with this number, and return what it showed; called in a forked process."""
    ((plans, assignment, settings),) = _WORK
    plan = plans[number]
    _, injection = plans.entries[number]
    run = run_plan(plan, assignment, settings)
    fired = [event.n for event in run.events if isinstance(event, FaultFired) and event.fault in plan.faults]
    outcome = run.result.outcome if fired or run.result.outcome != "sound" else "not fired"
    observed = ObservedCell.from_run(plan.cell, run.events, (injection.text,), plan.faults)
    return FirstFault(outcome, observed, min(fired, default=-1), _digest(run.events))


def _digest(events: Sequence[AnyEvent]) -> str:
    """Return a hash of a history without its faults, its steps and the numbers of its events."""
    found = hashlib.sha256()
    for event in events:
        if not isinstance(event, FaultFired | StepEvent):
            found.update(repr(replace(event, n=0)).encode())
    return found.hexdigest()
