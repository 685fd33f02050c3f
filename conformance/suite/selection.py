"""Which cells of a run are wanted: by id (`--only`), by requirement or group (`--requirement`), and by keyword."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    """A word of `--only` or `--requirement` names nothing; the text says which, and what there is."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One word of `--only`: a scenario, and the values that its cells must have on some axes."""

    word: str
    scenario: str
    axes: dict[str, str]

    def takes(self, cell: Cell) -> bool:
        """Whether a cell is of the scenario and has the values."""
        return self.scenario == cell.scenario and self.axes.items() <= {**cell.axes, **cell.implied}.items()


def is_id(word: str) -> bool:
    """Whether a word of the command line is a cell's id and not a path: `scenario`, or `scenario[axis=value]`."""
    return _ID.fullmatch(word) is not None and not Path(word).exists()


def read_id(word: str) -> Wanted:
    """Read one word of `--only`. Raises SelectionError."""
    match = _ID.fullmatch(word)
    pairs = [pair.partition("=") for pair in (match["axes"] or "").split(",") if pair] if match else []
    if match is None or not all(equals for _, equals, _ in pairs):
        raise SelectionError(
            f"--only {word}: write SCENARIO or SCENARIO[AXIS=VALUE,...], as `conformance list` prints it"
        )
    return Wanted(word, match["scenario"], {axis: value for axis, _, value in pairs})


def find_scenarios(words: Iterable[str], where: Iterable[Path], size: GridSize) -> tuple[tuple[Path, str], ...]:
    """Return the file and the id of each scenario that the words of `--only` name, in the order of the files.

    Only the files that declare them are read. Raises SelectionError for a word that names no cell of a grid of this
    size, OSError.
    """
    declared = {path: _SCENARIO.findall(path.read_text("utf-8", "replace")) for path in scenario_files(where)}
    found: set[tuple[Path, str]] = set()
    for wanted in map(read_id, words):
        places = [path for path, ids in declared.items() if wanted.scenario in ids]
        if not places:
            known = {one for ids in declared.values() for one in ids}
            raise SelectionError(f"--only {wanted.word}: {unknown_name('scenario', wanted.scenario, known)}")
        scenarios = [
            one for path in places for one in read_scenarios(path, paths.fixtures()) if one.id == wanted.scenario
        ]
        _check_axes(wanted, scenarios, size)
        found.update((path, wanted.scenario) for path in places)
    return tuple(sorted(found))


def _check_axes(wanted: Wanted, scenarios: Sequence[Scenario], size: GridSize) -> None:
    """Raise SelectionError when no cell has the values; a scenario that is wrong is left for the run to report."""
    if not wanted.axes or any(one.problems for one in scenarios):
        return
    cells = [cell for one in scenarios for cell in one.cells(size)]
    if any(map(wanted.takes, cells)):
        return
    every = [cell for one in scenarios for cell in one.cells("full")]
    if any(map(wanted.takes, every)):
        raise SelectionError(f"--only {wanted.word}: not in the {size} grid; add --grid full")
    for axis, value in wanted.axes.items():
        values = {held[axis] for cell in every if axis in (held := {**cell.axes, **cell.implied})}
        if not values:
            axes = {name for cell in every for name in (*cell.axes, *cell.implied)}
            raise SelectionError(f"--only {wanted.word}: {unknown_name('axis', axis, axes)}")
        if value not in values:
            raise SelectionError(f"--only {wanted.word}: {unknown_name(f'value of the axis {axis!r}:', value, values)}")
    raise SelectionError(f"--only {wanted.word}: no cell has all of these values")


def check_requirements(words: Iterable[str]) -> None:
    """Raise SelectionError for a word of `--requirement` that is neither a row nor a group of the catalogue."""
    known = {*catalogue().ids, *catalogue().groups}
    for word in words:
        if word not in known:
            raise SelectionError(f"--requirement {word}: {unknown_name('row or group', word, known)}")


def select(cells: Sequence[Cell], only: Sequence[str], requirements: Sequence[str]) -> tuple[bool, ...]:
    """Return for each cell whether it is wanted: by one of the ids, and by one of the rows or groups.

    A word that is the whole id of a cell takes this cell alone. Raises SelectionError.
    """
    ids = {cell.id for cell in cells}
    wanted = [read_id(word) for word in only]
    exact = {one.word for one in wanted if one.word in ids}
    rows = {row.id for row in catalogue().requirements if row.id in requirements or row.group in requirements}

    def by_id(cell: Cell) -> bool:
        return cell.id in exact or any(one.takes(cell) for one in wanted if one.word not in exact)

    return tuple(
        (not only or by_id(cell)) and (not requirements or not rows.isdisjoint(cell.judged_requirements))
        for cell in cells
    )


def as_keywords(text: str) -> str:
    """Return an expression of `-k`, or what it matches, with `=` and `,` as pytest can read them: `axis:value`."""
    return _NOT_IN_KEYWORDS.sub(":", text)


def covers_corpus(taken: Iterable[Path]) -> bool:
    """Whether files hold all scenarios of the corpus, wherever they lie: a checkout's are those of the package."""
    hashes = {hashlib.sha256(path.read_bytes()).digest() for path in set(taken)}
    return all(hashlib.sha256(path.read_bytes()).digest() in hashes for path in paths.corpus().rglob(f"*{SUFFIX}"))
