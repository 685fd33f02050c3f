"""Plans which cells a defect of the reference is tried in: those whose scenario judges the requirement that it breaks.

A cell is one scenario with one value for each axis of its matrix. A *trial* is one cell that is run on the reference, with one
defect or without (the *sound* reference). The command `conformance defects` makes the plan here, runs it by `trial` and gathers
the results in `table`.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ruamel.yaml import YAML

from conformance import paths
from conformance.candidates.lookup import reference_defects
from conformance.scenarios.document import Cell

MAX_CELLS_PER_SCENARIO = 6
"""In how many cells of one scenario a defect is tried, those in BROAD_FOLDER left out."""


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
"""Folder of scenarios that judge many requirements at once, and take long: a defect is tried in one cell of them at most.

The file `defects/broad-cells.yaml` of the fixtures names it, for the defects that no other scenario catches.
"""

BROAD_CELLS_FILE = "defects/broad-cells.yaml"
"""A file of the fixtures: defect -> id of the cell in BROAD_FOLDER in which it is tried."""

FOUND_FOLDER = "found"
"""Folder of scenarios in which a sound server was once accused: they need not catch a defect."""


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One trial to run: a cell, and the name of the defect that the reference has in it (None: the sound reference)."""

    defect: str | None
    cell: Cell

    @property
    def folder(self) -> str:
        """The name of the folder in which the scenario is."""
        return PurePath(self.cell.path).parent.name


def active_defects() -> tuple[Defect, ...]:
    """Return the reference's defects that are in force, sorted by name, without those that show only on failing disks."""
    return tuple(defect for defect in _read_catalogue() if not defect.retired)


def retired_defects() -> tuple[Defect, ...]:
    """Return the reference's defects whose behaviour a ruling has declared right, sorted by name."""
    return tuple(defect for defect in _read_catalogue() if defect.retired)


def disk_defects() -> tuple[Defect, ...]:
    """Return the reference's defects that show only on failing disks, which need real time, sorted by name."""
    return _read_catalogue(on_disks=True)


def _read_catalogue(*, on_disks: bool = False) -> tuple[Defect, ...]:
    """Return all defects of the reference, sorted by name: those that show only on failing disks, or all others."""
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
        if defect.on_disks is on_disks
    )


def plan_trials(defects: Iterable[Defect], cells: Sequence[Cell]) -> tuple[PlannedTrial, ...]:
    """Return all trials: the sound reference in every cell, then each defect in the cells that judge what it breaks.

    A defect is tried in MAX_CELLS_PER_SCENARIO cells of a scenario at most, spread evenly over its matrix; of BROAD_FOLDER in the one cell
    that is named for it, if there is one. A cell judges the requirements of its scenario and of its single expectations.
    """
    judged = [(cell, cell.judged_requirements) for cell in cells if not _is_broad(cell)]
    broad, named = {cell.id: cell for cell in cells if _is_broad(cell)}, broad_cells()
    trials = [PlannedTrial(defect=None, cell=cell) for cell in cells]
    for defect in defects:
        judging = [cell for cell, requirements in judged if defect.breaks in requirements]
        trials += [PlannedTrial(defect=defect.name, cell=cell) for cell in spread_cells(judging)]
        if (cell := broad.get(named.get(defect.name, ""))) is not None:
            trials.append(PlannedTrial(defect=defect.name, cell=cell))
    return tuple(trials)


def broad_cells() -> Mapping[str, str]:
    """Return what BROAD_CELLS_FILE says: name of a defect -> id of the cell in BROAD_FOLDER in which it is tried; {} for an empty file."""
    document = YAML(typ="safe", pure=True).load((paths.fixtures() / BROAD_CELLS_FILE).read_text("utf-8"))
    return {str(defect): str(cell) for defect, cell in (document or {}).items()}


def _is_broad(cell: Cell) -> bool:
    """Return whether a cell's scenario judges many requirements at once: it is in BROAD_FOLDER."""
    return PurePath(cell.path).parent.name == BROAD_FOLDER


def spread_cells(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield at most MAX_CELLS_PER_SCENARIO of the given cells of each scenario, at even distances, always the first and the last."""
    by_scenario: dict[str, list[Cell]] = {}
    for cell in cells:
        by_scenario.setdefault(cell.scenario, []).append(cell)
    for group in by_scenario.values():
        last, intervals = len(group) - 1, MAX_CELLS_PER_SCENARIO - 1
        yield from (group[index] for index in sorted({round(last * n / intervals) for n in range(intervals + 1)}))
