"""Which cells may show a defect: those whose scenario judges the requirement that it breaks."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from conformance.candidates.lookup import reference_defects
from conformance.scenarios.document import Cell

MAX_CELLS_PER_SCENARIO = 6
"""In so many cells of one scenario a defect is tried."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A named way in which the reference can be made wrong, as the reference's own catalogue tells it."""

    name: str
    breaks: str
    says: str
    retired: str = ""
    """Why it is right after all, or ''."""


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One trial to come: a cell, and the defect that the reference has in it (None: it has none)."""

    defect: str | None
    cell: Cell


def active_defects() -> tuple[Defect, ...]:
    """Return the reference's defects that are in force, sorted by name."""
    return tuple(one for one in _catalogue() if not one.retired)


def retired_defects() -> tuple[Defect, ...]:
    """Return the reference's defects that a ruling has made right, sorted by name."""
    return tuple(one for one in _catalogue() if one.retired)


def _catalogue() -> tuple[Defect, ...]:
    """Return all defects of the reference that show in virtual time, in force or not."""
    return tuple(
        Defect(name, one.breaks, " ".join(inspect.cleandoc(one.says).split()), one.retired or "")
        for name, one in sorted(reference_defects().items())
        if not one.on_disks
    )


def plan_trials(defects: Iterable[Defect], cells: Sequence[Cell]) -> tuple[PlannedTrial, ...]:
    """Return all trials: the unbroken reference in every cell, then each defect wherever it may be seen.

    Of a scenario with a large matrix a defect is tried in a few cells, spread evenly over it.
    """
    judged = [(cell, cell.judged_requirements) for cell in cells]
    unbroken = [PlannedTrial(None, cell) for cell in cells]
    broken = [
        PlannedTrial(defect.name, cell)
        for defect in defects
        for cell in spread([cell for cell, ids in judged if defect.breaks in ids])
    ]
    return (*unbroken, *broken)


def spread(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield at most `MAX_CELLS_PER_SCENARIO` cells of each scenario, the first and the last among them."""
    by_scenario: dict[str, list[Cell]] = {}
    for cell in cells:
        by_scenario.setdefault(cell.scenario, []).append(cell)
    for group in by_scenario.values():
        last = len(group) - 1
        yield from (
            group[index]
            for index in sorted(
                {round(last * part / (MAX_CELLS_PER_SCENARIO - 1)) for part in range(MAX_CELLS_PER_SCENARIO)}
            )
        )
