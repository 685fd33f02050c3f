"""Plans which cells a defect of the reference is tried in: those whose scenario judges the requirement that it breaks.

The command `conformance defects` makes the plan here, runs it by `trial` and gathers the results in `table`.
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from conformance.candidates.lookup import reference_defects
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.sending import Send

MAX_CELLS_PER_SCENARIO = 6
"""In how many cells of one scenario a defect is tried; not of scenarios in BROAD_FOLDER."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A named way in which the reference can be made wrong, from the reference's own catalogue of defects."""

    name: str
    breaks: str
    """The id of the requirement that it breaks."""
    says: str
    """What the defective reference does, in a sentence."""
    retired: str = ""
    """Why a ruling has declared that behaviour right; '' for a defect that is in force."""
    needs_expectation: str = ""
    """Why no rule of the model can catch it, so that only a scenario's expectation does; '' if a rule has to catch it."""


BROAD_FOLDER = "variations"
"""Folder of scenarios that judge many requirements at once: a defect is tried there only if no other scenario catches it."""

BROAD_CELLS_OF_A_ROUND = 4
"""How many cells of BROAD_FOLDER are tried before those that follow; only as long as none has caught the defect."""

FOUND_FOLDER = "found"
"""Folder of scenarios in which a sound server was once accused: they need not catch a defect."""


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One trial to run: a cell, and the name of the defect that the reference has in it (None: the sound reference)."""

    defect: str | None
    cell: Cell
    round: int = 1
    """The trials of a defect in a round above 1 are run only if those of the rounds before did not catch it."""

    @property
    def folder(self) -> str:
        """The name of the folder in which the scenario is."""
        return PurePath(self.cell.path).parent.name


def active_defects() -> tuple[Defect, ...]:
    """Return the reference's defects that are in force, sorted by name."""
    return tuple(defect for defect in _read_catalogue() if not defect.retired)


def retired_defects() -> tuple[Defect, ...]:
    """Return the reference's defects whose behaviour a ruling has declared right, sorted by name."""
    return tuple(defect for defect in _read_catalogue() if defect.retired)


def _read_catalogue() -> tuple[Defect, ...]:
    """Return all defects of the reference, without those that show only on failing disks, which need real time."""
    return tuple(
        # `says` is the docstring of the defect's class.
        Defect(
            name=name,
            breaks=defect.breaks,
            says=" ".join(inspect.cleandoc(defect.says).split()),
            retired=defect.retired or "",
            needs_expectation=defect.needs_expectation or "",
        )
        for name, defect in sorted(reference_defects().items())
        if not defect.on_disks
    )


def plan_trials(defects: Iterable[Defect], cells: Sequence[Cell]) -> tuple[PlannedTrial, ...]:
    """Return all trials: the sound reference in every cell, then each defect in the cells that judge what it breaks.

    A defect is tried in MAX_CELLS_PER_SCENARIO cells of a scenario at most, spread evenly over its matrix. The cells of scenarios in
    BROAD_FOLDER come in later rounds, those with the fewest messages first: in each of them something else happens, and they take long.
    A cell judges the requirements of its scenario and of its single expectations.
    """
    narrow = [cell for cell in cells if not _is_broad(cell)]
    in_order = [*narrow, *sorted(filter(_is_broad, cells), key=_count_messages)]
    judged = [(cell, cell.judged_requirements) for cell in in_order]
    sound = [PlannedTrial(defect=None, cell=cell) for cell in cells]
    defective = [
        planned
        for defect in defects
        for planned in _rounds(defect, [cell for cell, requirements in judged if defect.breaks in requirements])
    ]
    return (*sound, *defective)


def _rounds(defect: Defect, cells: Sequence[Cell]) -> Iterator[PlannedTrial]:
    """Yield the trials of a defect in cells that judge what it breaks, each with its round; broad ones in the order of `cells`."""
    for cell in spread_cells(cell for cell in cells if not _is_broad(cell)):
        yield PlannedTrial(defect=defect.name, cell=cell)
    for index, cell in enumerate(filter(_is_broad, cells)):
        yield PlannedTrial(defect=defect.name, cell=cell, round=2 + index // BROAD_CELLS_OF_A_ROUND)


def _is_broad(cell: Cell) -> bool:
    """Return whether a cell's scenario judges many requirements at once."""
    return PurePath(cell.path).parent.name == BROAD_FOLDER


def _count_messages(cell: Cell) -> int:
    """Return how many messages a cell sends; resent ones are not counted."""
    return sum(step.action.count for step in cell.all_steps if isinstance(step.action, Send))


def spread_cells(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield at most MAX_CELLS_PER_SCENARIO cells of each scenario at even distances, always its first and last."""
    by_scenario: dict[str, list[Cell]] = {}
    for cell in cells:
        by_scenario.setdefault(cell.scenario, []).append(cell)
    for group in by_scenario.values():
        last, intervals = len(group) - 1, MAX_CELLS_PER_SCENARIO - 1
        yield from (group[index] for index in sorted({round(last * n / intervals) for n in range(intervals + 1)}))
