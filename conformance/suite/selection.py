"""Selects cells by id (`--only`) and by requirement or group (`--requirement`), and reads ids of cells.

A cell's id is `SCENARIO[AXIS=VALUE,...]`; values that the scenario declares as `implied` are not part of it.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from conformance import paths
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import unknown_name
from conformance.scenarios.fault_grid import GridSize
from conformance.scenarios.loader import SUFFIX, Scenario, read_scenarios, scenario_files

_ID = re.compile(r"(?P<scenario>[a-z0-9][a-z0-9-]*)(?:\[(?P<axes>[^\]]*)\])?")
_SCENARIO = re.compile(r"^id:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
_NOT_IN_KEYWORDS = re.compile(r"[=,]")


class SelectionError(ValueError):
    """A value of `--only` or `--requirement` matches nothing; the text says which, and suggests others."""


@dataclass(frozen=True, slots=True)
class CellSelector:
    """One value of `--only`, which is `word`: a scenario, and the values that its cells must have on some axes."""

    word: str
    scenario: str
    axes: dict[str, str]

    def matches(self, cell: Cell) -> bool:
        """Whether a cell is of the scenario and has the values; those that are `implied`, and not in its id, count too."""
        return self.scenario == cell.scenario and self.axes.items() <= {**cell.axes, **cell.implied}.items()


def is_id(word: str) -> bool:
    """Whether a word of the command line is a cell's id and not a path: `scenario`, or `scenario[axis=value]`."""
    return _ID.fullmatch(word) is not None and not Path(word).exists()


def read_id(word: str) -> CellSelector:
    """Return the selector for one value of `--only`. Raises SelectionError if it has not the form of an id."""
    match = _ID.fullmatch(word)
    pairs = [pair.partition("=") for pair in (match["axes"] or "").split(",") if pair] if match else []
    if match is None or not all(equals for _, equals, _ in pairs):
        raise SelectionError(
            f"--only {word}: write SCENARIO or SCENARIO[AXIS=VALUE,...], as `conformance list` prints it"
        )
    return CellSelector(word, match["scenario"], {axis: value for axis, _, value in pairs})


def find_scenarios(
    words: Iterable[str], where: Iterable[Path], size: GridSize, option: str = "--only "
) -> tuple[tuple[Path, str], ...]:
    """Return the file and the id of each scenario that ids of scenarios or cells name, in the order of the files.

    `where` are the files and folders to search. `option` stands in front of the id in a message. Only files that declare one of the scenarios are parsed. Raises OSError, and
    SelectionError for a value that is no id, or that matches no cell with a grid of this size.
    """
    declared = {path: _SCENARIO.findall(path.read_text("utf-8", "replace")) for path in scenario_files(where)}
    scenarios: set[tuple[Path, str]] = set()

    @cache
    def read(path: Path) -> tuple[Scenario, ...]:
        """Return the scenarios of a file, which is read once however many values name one of them."""
        return read_scenarios(path, paths.fixtures())

    for selector in map(read_id, words):
        files_with_it = [path for path, ids in declared.items() if selector.scenario in ids]
        if not files_with_it:
            known = {name for ids in declared.values() for name in ids}
            raise SelectionError(f"{option}{selector.word}: {unknown_name('scenario', selector.scenario, known)}")
        parsed = [scenario for path in files_with_it for scenario in read(path) if scenario.id == selector.scenario]
        _check_axes(selector, parsed, size, option)
        scenarios.update((path, selector.scenario) for path in files_with_it)
    return tuple(sorted(scenarios))


def _check_axes(selector: CellSelector, scenarios: Sequence[Scenario], size: GridSize, option: str) -> None:
    """Raise SelectionError if no cell with a grid of this size has the selector's values. Nothing where a scenario has problems."""
    if not selector.axes or any(scenario.problems for scenario in scenarios):
        return
    cells = [cell for scenario in scenarios for cell in scenario.cells(size)]
    if any(map(selector.matches, cells)):
        return
    every = [cell for scenario in scenarios for cell in scenario.cells("full")]
    if any(map(selector.matches, every)):
        raise SelectionError(f"{option}{selector.word}: not in the {size} grid; add --grid full")
    for axis, value in selector.axes.items():
        values = {held[axis] for cell in every if axis in (held := {**cell.axes, **cell.implied})}
        if not values:
            axes = {name for cell in every for name in (*cell.axes, *cell.implied)}
            raise SelectionError(f"{option}{selector.word}: {unknown_name('axis', axis, axes)}")
        if value not in values:
            raise SelectionError(
                f"{option}{selector.word}: {unknown_name(f'value of the axis {axis!r}:', value, values)}"
            )
    raise SelectionError(f"{option}{selector.word}: no cell has all of these values")


def check_requirements(words: Iterable[str]) -> None:
    """Raise SelectionError for a value of `--requirement` that is not a row of the catalogue, a group, or a part of the group RLY."""
    known = {*catalogue().ids, *catalogue().groups, *(row.topic for row in catalogue().requirements)}
    for word in words:
        if word not in known:
            raise SelectionError(f"--requirement {word}: {unknown_name('row or group', word, known)}")


def select(cells: Sequence[Cell], only: Sequence[str], requirements: Sequence[str]) -> tuple[bool, ...]:
    """Return for each cell whether it is selected: by any value of `only` and by any of `requirements`, if these are given.

    A value that is the complete id of a cell selects this cell alone, and not others with further axes. A cell is of a
    requirement that the scenario or one of its expectations names. Raises SelectionError for a value that is no id.
    """
    ids = {cell.id for cell in cells}
    selectors = [read_id(word) for word in only]
    exact = {selector.word for selector in selectors if selector.word in ids}
    rows = {row.id for row in catalogue().requirements if not {row.id, row.group, row.topic}.isdisjoint(requirements)}

    def by_id(cell: Cell) -> bool:
        """Return whether a value of `only` names the cell."""
        return cell.id in exact or any(selector.matches(cell) for selector in selectors if selector.word not in exact)

    return tuple(
        (not only or by_id(cell)) and (not requirements or not rows.isdisjoint(cell.judged_requirements))
        for cell in cells
    )


def as_keywords(text: str) -> str:
    """Return an expression of `-k`, or a text that it is compared with, in which `:` replaces `=` and `,`: `axis:value`.

    pytest does not accept `=` and `,` in an expression.
    """
    return _NOT_IN_KEYWORDS.sub(":", text)


def covers_corpus(collected: Iterable[Path]) -> bool:
    """Whether the files include all those of the corpus, compared by content: they may be those of a checkout."""
    hashes = {hashlib.sha256(path.read_bytes()).digest() for path in set(collected)}
    return all(hashlib.sha256(path.read_bytes()).digest() in hashes for path in paths.corpus().rglob(f"*{SUFFIX}"))
