"""Which trials are run, in which order, and how many at the same time.

A *plan* is one cell that is run with drawn faults, and judged by the rules of the model alone. A *trial* is one plan on the
reference with one defect. A *series* has the plans of one seed, drawn in one way (*bias*), for one defect; plans are numbered
from 0.

Theory of operation
-------------------
The trials are run plan by plan: the first plan of every series, then the second of every series in which the defect was not
caught yet, and so on. So a measurement that ends early has tried all series about as far, and its numbers can be compared. Each
process is forked from one that has everything loaded. A process gets a trial when it has ended the one before, so that no plan is
run for a defect that is caught.
"""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from conformance.defects.plan import Defect, active_defects
from conformance.detection.store import Store
from conformance.detection.trial import BIASES, USUAL, PlanTrial, Series, run_trial
from conformance.forked_process import forked_pool, run_unordered

T = TypeVar("T")

MOST_PLANS = 2000
"""Plans of each defect that the model can see, at the most."""
MOST_PLANS_OF_A_BIAS = 500
"""Plans of each series of the comparison of biases, at the most."""
SAMPLE = 40
"""Defects with which biases are compared."""
SEEDS = 3
"""Seeds with which biases are compared: the one that is given, and those after it."""


Part = Literal["table", "biases", "both"]
"""What is measured by one call: the table of all defects, the comparison of biases, or both at the same time."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is measured: the series of the table, and those of the comparison of biases; some are in both.

    `defects` are those that the model can see. `seed` is the seed of the plans of the table, and draws the sample.
    """

    defects: tuple[Defect, ...]
    seed: int
    most_plans: int = MOST_PLANS
    most_plans_of_a_bias: int = MOST_PLANS_OF_A_BIAS

    @property
    def table(self) -> tuple[Series, ...]:
        """A series for each defect, drawn as `conformance explore --random` draws."""
        return tuple(Series(USUAL, self.seed, defect.name) for defect in self.defects)

    @property
    def sample(self) -> tuple[str, ...]:
        """The names of the defects with which biases are compared: `SAMPLE`, or all if there are fewer, drawn by the seed; sorted."""
        names = sorted(defect.name for defect in self.defects)
        rng = random.Random(self.seed)  # noqa: S311  # to be repeated, not to be secret
        return tuple(sorted(rng.sample(names, min(SAMPLE, len(names)))))

    @property
    def comparison(self) -> tuple[Series, ...]:
        """A series for each defect of the sample, each bias and each seed."""
        return tuple(
            Series(bias, seed, name)
            for name in self.sample
            for bias in BIASES
            for seed in range(self.seed, self.seed + SEEDS)
        )

    @property
    def limits(self) -> dict[Series, int]:
        """How many plans of each series are run at the most; the series of the table come first."""
        limits = dict.fromkeys(self.table, self.most_plans)
        return limits | {one: self.most_plans_of_a_bias for one in self.comparison if one not in limits}

    def trials(self, store: Store, part: Part = "both") -> Iterator[tuple[Series, int]]:
        """Yield the series and number of each plan to run, in order.

        A plan is left out if the store, when its turn comes, has its result, or any plan of its series that caught the defect.
        """
        chosen = {"table": self.table, "biases": self.comparison, "both": (*self.table, *self.comparison)}[part]
        limits = {series: limit for series, limit in self.limits.items() if series in frozenset(chosen)}
        for number in range(max(limits.values(), default=0)):
            for series, limit in limits.items():
                result = store.results[series]
                if number < limit and not result.is_caught and number not in result.trials:
                    yield series, number


def visible_defects(names: Sequence[str] = ()) -> tuple[Defect, ...]:
    """Return the defects that the model can see, sorted by name: all, or those that are named.

    Raises ValueError for another name. The model cannot see a defect that only a scenario's expectation can catch
    (`needs_expectation`). Defects that show only on failing disks are left out too.
    """
    visible = [defect for defect in active_defects() if not defect.needs_expectation]
    if unknown := sorted({*names} - {defect.name for defect in visible}):
        raise ValueError(f"{unknown[0]}: no defect that the model can see has this name")
    return tuple(defect for defect in visible if not names or defect.name in names)


def run_trials(trials: Iterable[tuple[Series, int]], jobs: int, until: float | None = None) -> Iterator[PlanTrial]:
    """Run trials (series, number of plan) in `jobs` processes, and yield each result as it comes, in no fixed order. Blocks.

    No trial is begun after `until`, a time of `time.monotonic()` (None: without limit); those that run then are waited for.
    `trials` is read as processes become free, so it can depend on the results so far. Raises ProcessDied.
    """
    with forked_pool(jobs) as pool:
        yield from run_unordered(pool, _run_trial, _begun_until(trials, until), jobs)


def _run_trial(trial: tuple[Series, int]) -> PlanTrial:
    """Run one trial, in a forked process."""
    return run_trial(*trial)


def _begun_until(trials: Iterable[T], until: float | None) -> Iterator[T]:
    """Yield trials until a time of `time.monotonic()` (None: without limit)."""
    for trial in trials:
        if until is not None and time.monotonic() >= until:
            return
        yield trial
