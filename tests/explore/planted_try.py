"""Tries whether exploration finds the planted mistakes: by no single fault of their scenario, and by a pair of faults.

`python -m tests.explore.planted_try [--mistake NAME] [--plans N] [--seed S]` prints a line for each mistake, and ends with 1
if one is missed, or found by less than two faults. The pairs are those of `conformance explore --sweep 2`, in the order that the seed draws.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.clocks import IN_PROCESS
from conformance.explore.campaign import run_plans
from conformance.explore.injections import Injection
from conformance.explore.pairs import alone, sweep_pairs
from conformance.explore.sweep import Enumeration, ObservedCell, Plan, sweep, without_faults
from conformance.explore.trial import PlanResult, run_plan
from conformance.run.applicability import inapplicable_reason
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus
from tests.explore.planted import MISTAKES, Mistake

SETTINGS = Settings(clock="virtual", seed=1, should="fail")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of trying one mistake: how many single faults and pairs were run, and the first pair that shows it.

    `early` has what was found with less than two faults, which must be nothing; `unrelated` the plans that violate a rule in the
    reference itself too.
    """

    mistake: Mistake
    singles: int
    early: tuple[PlanResult, ...]
    unrelated: tuple[PlanResult, ...]
    pairs: int
    tried: int
    found: PlanResult | None

    @property
    def good(self) -> bool:
        """Whether two faults were needed and enough."""
        return not self.early and self.found is not None


def reason_against(assignment: Assignment) -> Callable[[Plan, Injection], str]:
    """Return the function that says why a fault is left out, as the command has it."""

    def reason(plan: Plan, injection: Injection) -> str:
        if injection.kind == "frozen" and IN_PROCESS in assignment.candidate_for(injection.node).features:
            return "a node in the process of the harness cannot be frozen: its timers go on"
        return inapplicable_reason(plan.cell, assignment, SETTINGS)

    return reason


@cache
def cell_of(name: str) -> Cell:
    """Return the cell with this id, or the first one of the scenario with this id, without its faults and expectations."""
    scenario_id = name.partition("[")[0]
    (scenario,) = [one for one in read_corpus([paths.corpus()], paths.fixtures()) if one.id == scenario_id]
    cells = scenario.cells()
    return without_faults(next((cell for cell in cells if cell.id == name), cells[0]))


def single_faults(mistake: Mistake, assignment: Assignment) -> tuple[PlanResult, Enumeration]:
    """Return the result of the mistake's scenario without faults, and its single faults. Blocks."""
    cell = cell_of(mistake.scenario)
    run = run_plan(Plan(cell.id, cell), assignment, SETTINGS)
    return run.result, sweep(ObservedCell.from_run(cell, run.events), reason_against(assignment))


def run_known_pair(mistake: Mistake, assignment: Assignment) -> tuple[PlanResult, PlanResult]:
    """Return what came of a mistake's scenario without faults, and with the pair of faults that the mistake names. Blocks.

    Raises ValueError if there is no such pair: a point is not enumerated, or the first fault alone violates a rule.
    """
    base, singles = single_faults(mistake, assignment)
    first, second = mistake.pair
    numbers = [number for number, (_, injection) in enumerate(singles.plans.entries) if injection.text == first]
    pairs = sweep_pairs(Enumeration(singles.plans.subset(numbers)), assignment, SETTINGS, 1)
    plans = [observed.plan(injection) for observed, injection in pairs.plans.entries if injection.text == second]
    if len(plans) != 1:
        raise ValueError(f"{mistake.name}: no pair {first}, then {second}: {dict(pairs.pruned)}")
    return base, run_plan(plans[0], assignment, SETTINGS).result


def attempt(mistake: Mistake, plans: int, seed: int) -> Attempt:
    """Run all single faults of a mistake's scenario, and then pairs until one violates a rule, at most `plans`. Blocks.

    What violates a rule in the reference itself too does not count: it is in `Attempt.unrelated`.
    """
    with mistake.planted() as assignment:
        base, singles = single_faults(mistake, assignment)
        unrelated = []
        early = [base] if base.outcome == "violated" else []
        found_pairs = sweep_pairs(singles, assignment, SETTINGS, 1, reason_against(assignment))
        if found_pairs.pruned[alone("violated")]:  # else no single fault shows anything, and none need be run again
            for number, result in run_plans(singles.plans, assignment, SETTINGS, 1):
                if result.outcome == "violated":
                    (unrelated if is_violated_by_reference(singles.plans[number]) else early).append(result)
        pairs = found_pairs.plans
        chosen = pairs.subset(random.Random(seed).sample(range(len(pairs)), 0 if early else min(plans, len(pairs))))  # noqa: S311
        found = None
        tried = 0
        for number, result in run_plans(chosen, assignment, SETTINGS, 1):
            tried += 1
            if result.outcome == "violated":
                if not is_violated_by_reference(chosen[number]):
                    found = result
                    break
                unrelated.append(result)
    return Attempt(mistake, len(singles.plans), tuple(early), tuple(unrelated), len(pairs), tried, found)


def is_violated_by_reference(plan: Plan) -> bool:
    """Return whether a plan violates a rule in the reference without any mistake: then the reference or the rule is wrong."""
    return run_plan(plan, Assignment(REFERENCE), SETTINGS).result.outcome == "violated"


def main(arguments: list[str]) -> int:
    """Try the mistakes that the arguments name, all without a name; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore.planted_try", description=__doc__)
    parser.add_argument("--mistake", action="append", choices=sorted(MISTAKES), help="try this one; may be repeated")
    parser.add_argument("--plans", type=int, default=2000, help="the most pairs for each mistake")
    parser.add_argument("--seed", type=int, default=1, help="draws the order of the pairs")
    options = parser.parse_args(arguments)
    good = True
    for name in options.mistake or MISTAKES:
        began = time.monotonic()
        tried = attempt(MISTAKES[name], options.plans, options.seed)
        good = good and tried.good
        print(_line(tried, time.monotonic() - began), flush=True)
        if tried.unrelated:
            print(f"    {len(tried.unrelated)} plans violate a rule in the reference too; the first ones:", flush=True)
        for result in tried.unrelated[:5]:
            print(f"    also in the reference: {result.name}: {result.violations[0].check}", flush=True)
    return 0 if good else 1


def _line(tried: Attempt, seconds: float) -> str:
    """Return the line of the table about one mistake."""
    mistake = tried.mistake
    start = f"{mistake.name} ({mistake.about}): {tried.singles} single faults"
    if tried.early:
        first = tried.early[0]
        return f"{start}, EARLY {len(tried.early)}: {first.name}: {first.violations[0].check} [{seconds:.0f} s]"
    if tried.found is None:
        return f"{start}, {tried.tried} of {tried.pairs} pairs, MISSED [{seconds:.0f} s]"
    violation = tried.found.violations[0]
    return f"{start}, found by pair {tried.tried} of {tried.pairs}: {tried.found.name}: {violation.check} [{seconds:.0f} s]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
