"""Writes reports/exploration-table.md: what was measured, and what is missing.

A *series* has the plans, numbered from 0, of one seed and one way of drawing (*bias*) for one defect. Equal results give an equal
page. A number of plans stands for a defect only if all plans before it were run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from conformance.detection.campaign import MOST_PLANS, MOST_PLANS_OF_A_BIAS, Measurement
from conformance.detection.store import SeriesResult, Store
from conformance.detection.trial import BIASES, Series

_DEPTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
"""Numbers of plans for which the page says what they catch."""


@dataclass(frozen=True, slots=True)
class Depth:
    """Of some series: how many were caught within the first `plans` plans, and how many were run as far without being caught."""

    plans: int
    caught: int
    missed: int

    @property
    def judged(self) -> int:
        """How many series say anything about this number of plans."""
        return self.caught + self.missed

    @property
    def text(self) -> str:
        """How many were caught, in words, such as `12 of 40 (30 %)`; `not measured` if no series says anything."""
        return (
            f"{self.caught} of {self.judged} ({100 * self.caught / self.judged:.0f} %)"
            if self.judged
            else "not measured"
        )


def depth(results: Sequence[SeriesResult], plans: int) -> Depth:
    """Return in how many of some series the first `plans` plans caught the defect, and in how many they did not.

    A series that was not caught, and was tried with fewer plans, counts as neither.
    """
    caught = sum(one.catch is not None and one.catch.number < plans for one in results)
    missed = sum(one.tried >= plans and (one.catch is None or one.catch.number >= plans) for one in results)
    return Depth(plans=plans, caught=caught, missed=missed)


def page(measurement: Measurement, store: Store) -> str:
    """Return the text of the page about a measurement, with the results in the store."""
    return (
        "\n".join(
            [
                _HEAD,
                *_missing(measurement, store),
                *_summary(measurement, store),
                *_biases(measurement, store),
                *_defects(measurement, store),
            ]
        )
        + "\n"
    )


_HEAD = f"""\
# What random plans catch

`conformance explore --random` draws plans that no scenario has ([Exploring](exploring.md)). This page says how many of them it takes to
catch each published defect of the reference ([What each check catches](defects.md)), with the rules of the model and the harness's own
checks alone. Defects that only a scenario's expectation can catch are left out. The plans of a defect have the numbers from 0 on, and
end with the first that catches it, or after {MOST_PLANS:,}.

A violation counts only if the reference without a defect does not violate the same check in the same plan.

This page is written by `tox -e explore-table`, which keeps what it has measured in `reports/exploration-table.jsonl` and goes on there.
Plans are run in the order of their numbers, one of each defect at a time, so a measurement that ends early has tried all defects about
as far.
"""


def _missing(measurement: Measurement, store: Store) -> Iterator[str]:
    """Yield the section on what was measured: the seed and the number of plans, what is missing, if anything, and what does not count."""
    results = [(series, limit, store.results[series]) for series, limit in measurement.limits.items()]
    open_series = [(series, one) for series, limit, one in results if one.catch is None and one.tried < limit]
    plans = sum(len(one.trials) for _, _, one in results)
    yield "## What was measured\n"
    yield f"Seed {measurement.seed}; {plans:,} plans in {len(results):,} series of a defect, a seed and a way of drawing plans."
    yield ""
    if open_series:
        table = [one for series, one in open_series if series in set(measurement.table)]
        compared = [one for series, one in open_series if series in set(measurement.comparison)]
        yield (
            f"**The measurement is not complete.** {len(table)} of the {len(measurement.defects)} defects were neither caught nor tried with "
            f"{measurement.most_plans:,} plans, the least tried with {min((one.tried for one in table), default=0):,}; "
            f"{len(compared)} of the {len(measurement.comparison)} series of the comparison were neither caught nor tried with "
            f"{measurement.most_plans_of_a_bias:,}, the least tried with {min((one.tried for one in compared), default=0):,}. "
            "The same command goes on with them."
        )
        yield ""
    broken = sum(trial.broken for _, _, one in results for trial in one.trials.values())
    accused = sum(trial.accused for _, _, one in results for trial in one.trials.values())
    yield (
        f"In {accused:,} plans the reference without a defect violates a check too; such a check does not count there. {broken:,} plans were "
        "broken off because a node used too much of the processor's time."
    )
    yield ""


def _summary(measurement: Measurement, store: Store) -> Iterator[str]:
    """Yield the table of how many defects are caught within which number of plans, as far as that was measured for all defects."""
    results = [store.results[series] for series in measurement.table]
    yield "## Defects caught\n"
    yield "A line counts the defects that were caught within that number of plans, or tried with that number.\n"
    yield "| plans | defects caught |"
    yield "|---|---|"
    for plans in _DEPTHS:
        if (found := depth(results, plans)).judged == len(results):
            yield f"| {plans:,} | {found.text} |"
    caught = [one.catch for one in results if one.catch is not None]
    yield ""
    if caught:
        right = sum(trial.requirement == _breaks(measurement)[trial.series.defect] for trial in caught)
        yield (
            f"{len(caught)} of the {len(results)} defects were caught in all, half of these within {_count(median(t.number + 1 for t in caught))} "
            f"plans. The requirement blamed first is the broken one for {right} of them."
        )
        yield ""


def _biases(measurement: Measurement, store: Store) -> Iterator[str]:
    """Yield the section that compares the ways of drawing plans, with a column for each number of plans in `_DEPTHS`.

    A number has a column only if every series of the comparison caught its defect or was tried with that number of plans.
    """
    series = measurement.comparison
    least = min((one.tried for s in series if (one := store.results[s]).catch is None), default=MOST_PLANS_OF_A_BIAS)
    seeds = sorted({one.seed for one in series})
    yield "## Ways of drawing plans compared\n"
    yield (
        f"{len(measurement.sample)} defects, drawn by the seed, with the plans of {len(seeds)} seeds ({', '.join(map(str, seeds))}), and at most "
        f"{measurement.most_plans_of_a_bias:,} plans each. Each line has the series of all defects and seeds. Columns end where a way of "
        "drawing was not tried so far in all of its series."
    )
    yield ""
    depths = [plans for plans in _DEPTHS if plans <= min(least, measurement.most_plans_of_a_bias)]
    heads = [f"caught within {plans:,}" for plans in depths]
    yield f"| plans | {' | '.join([*heads, 'caught in all', 'faults fired'])} |"
    yield f"|---|{'---|' * (len(heads) + 2)}"
    for name, (_, words) in BIASES.items():
        results = [store.results[one] for one in series if one.bias == name]
        cells = [depth(results, plans).text for plans in depths]
        all_of_it = f"{sum(one.catch is not None for one in results)} of {len(results)}"
        yield f"| {words} | {' | '.join([*cells, all_of_it, _share_fired(results)])} |"
    yield ""


def _share_fired(results: Sequence[SeriesResult]) -> str:
    """Return which share of the faults in the plans of some series acted, as text; `none drawn` if the plans have no faults."""
    drawn = sum(trial.faults for one in results for trial in one.trials.values())
    fired = sum(trial.fired for one in results for trial in one.trials.values())
    return f"{100 * fired / drawn:.0f} %" if drawn else "none drawn"


def _defects(measurement: Measurement, store: Store) -> Iterator[str]:
    """Yield the table with a line for each defect: first those that were not caught, then those that took most plans."""
    yield "## Each defect\n"
    yield "| defect | breaks | plans | caught by | blamed |"
    yield "|---|---|---|---|---|"
    rows = [(series, store.results[series]) for series in measurement.table]
    breaks = _breaks(measurement)
    for series, one in sorted(rows, key=_hardest_first):
        if one.catch is None:
            yield f"| `{series.defect}` | {breaks[series.defect]} | not in {one.tried:,} | | |"
        else:
            yield (
                f"| `{series.defect}` | {breaks[series.defect]} | {one.catch.number + 1:,} | `{one.catch.check}` | {one.catch.requirement} |"
            )


def _hardest_first(row: tuple[Series, SeriesResult]) -> tuple[bool, int, str]:
    """Return the sorting key of a defect's line (`row`): those that were not caught first, then by the number of plans, falling.

    That is the number of the plan that caught it, from 0, or how many plans were run in vain.
    """
    series, one = row
    return (one.catch is not None, -(one.catch.number if one.catch is not None else one.tried), series.defect)


def _breaks(measurement: Measurement) -> dict[str, str]:
    """Return defect -> the requirement that it breaks."""
    return {defect.name: defect.breaks for defect in measurement.defects}


def _count(value: float) -> str:
    """Return a median as text, without a fraction that is 0."""
    return f"{value:,.1f}".removesuffix(".0")
