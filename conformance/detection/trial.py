"""Runs one random plan on the reference with one defect, judged by the model alone.

A *plan* is one cell that is run with drawn faults. The *model* has the rules that judge any history, without a scenario's
expectations. A violation counts only if the reference without a defect does not violate the same check in the same plan: else the
check, or the reference, is wrong there.
"""

from dataclasses import dataclass, replace
from typing import Literal

from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.defects.trial import CpuLimitExceeded, broken_reference, limited_cpu_time
from conformance.explore.grammar import Bias
from conformance.explore.random_plans import RandomPlans
from conformance.explore.trial import fired_faults, run_plan
from conformance.run.settings import Settings

CPU_LIMIT_S = 60
"""Seconds of processor time that a plan may take with a defect, which can put a node into an endless loop."""
_SETTINGS = Settings(clock="virtual", seed=1, should="fail")

BiasName = Literal["left-out-aimed", "all-aimed", "left-out-timed", "all-timed"]
BIASES: dict[BiasName, tuple[Bias, str]] = {
    "left-out-aimed": (Bias(), "half of the plans leave out features; faults at protocol points"),
    "all-aimed": (Bias(leaves_out=False), "all features in every plan; faults at protocol points"),
    "left-out-timed": (Bias(aimed=False), "half of the plans leave out features; faults at random times"),
    "all-timed": (Bias(leaves_out=False, aimed=False), "all features in every plan; faults at random times"),
}
"""The ways of drawing plans that are compared, in words; the first is that of `conformance explore --random`."""
USUAL: BiasName = "left-out-aimed"


@dataclass(frozen=True, slots=True)
class Series:
    """The plans of one seed, drawn in one way, on the reference with one defect."""

    bias: BiasName
    seed: int
    defect: str


@dataclass(frozen=True, slots=True)
class PlanTrial:
    """What came of one plan of a series, by its number from 0.

    `check` and `requirement` are those of the first violation that counts, '' without one. `accused` is whether the reference violates a
    check in this plan too, `broken` whether the plan took too much processor time. `faults` is how many faults the plan has, `fired` how
    many of them acted.
    """

    series: Series
    number: int
    check: str = ""
    requirement: str = ""
    accused: bool = False
    broken: bool = False
    faults: int = 0
    fired: int = 0


def run_trial(series: Series, number: int) -> PlanTrial:
    """Draw the plan with this number of a series, run it on the defective reference, and judge it; return the result. Blocks.

    If it violates a check, the plan is run on the sound reference too. A plan that takes more than CPU_LIMIT_S is `broken`.
    """
    bias, _ = BIASES[series.bias]
    wrong = Assignment(broken_reference(series.defect))
    try:
        with limited_cpu_time(CPU_LIMIT_S):
            run = RandomPlans(series.seed, number + 1, wrong, _SETTINGS, bias).run(number)
    except CpuLimitExceeded:
        return PlanTrial(series, number, broken=True)
    faults = set(run.plan.faults)
    ended = PlanTrial(series, number, faults=len(faults), fired=len(faults & fired_faults(run.events)))
    if not run.result.violations:
        return ended
    sound = run_plan(run.plan, Assignment(REFERENCE), _SETTINGS).result
    accused = {violation.check for violation in sound.violations}
    found = next((violation for violation in run.result.violations if violation.check not in accused), None)
    if found is None:
        return replace(ended, accused=True)
    return replace(ended, check=found.check, requirement=found.requirement, accused=bool(accused))
