"""Load scenario files: each document becomes a scenario with its cells, or with everything that is wrong with it.

A *cell* is one point of a scenario's matrix, which can be run; a *fault grid* adds an axis of faults to the matrix. Everything that
reads scenarios calls this: pytest's collection, and commands such as `conformance list` and `validate`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.scenarios.cells import CellExpander
from conformance.scenarios.document import Cell, Document
from conformance.scenarios.errors import InvalidFile, Mark, Problem, ProblemReport
from conformance.scenarios.fault_grid import GridSize
from conformance.scenarios.own_timers import OwnTimers
from conformance.scenarios.validation import validate
from conformance.scenarios.yaml_nodes import Chunk, compose, read_text, split_documents

SUFFIX = ".scenario.yaml"
"""The suffix of scenario files."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A document of a scenario file. Where `problems` is not empty it has no cells.

    `line` is that of its id, or the document's first. `document` is None where its values are wrong; `document` and `matrix`
    are None where it is not YAML, or the file cannot be read or has no scenario.
    """

    id: str
    path: Path
    line: int
    document: Document | None
    problems: tuple[Problem, ...]
    matrix: CellExpander | None

    def cells(self, grid: GridSize = "smoke", timers: OwnTimers | None = None) -> tuple[Cell, ...]:
        """Return the cells in a stable order, with a fault grid of the given size where the scenario has one.

        `timers` are the candidate's own, for a scenario with `timers: own`; None: example values. Raises InvalidFile where the
        scenario has problems, or these cells have.
        """
        if self.problems or self.matrix is None:
            raise InvalidFile(self.problems)
        return self.matrix.cells(grid, timers)


def read_scenarios(path: Path, fixtures: Path) -> tuple[Scenario, ...]:
    """Return the scenarios of a file; one with problems, even invalid YAML, does not affect the others.

    A file that cannot be read, or has no document, gives one scenario with that problem.
    `fixtures` is the directory of topologies and messages.
    """
    report = ProblemReport(str(path))
    text = read_text(path, report)
    if text is None:
        return (Scenario(_stem(path), path, 1, None, report.problems, None),)
    scenarios = parse_scenarios(text, path, fixtures)
    if not scenarios:
        report.add(Mark(1, 1), "there is no scenario in this file")
        return (Scenario(_stem(path), path, 1, None, report.problems, None),)
    return scenarios


def parse_scenarios(text: str, path: Path, fixtures: Path) -> tuple[Scenario, ...]:
    """Return the scenarios of a text, () without any; `path` is the file that problems name.

    One with problems does not affect the others. A later scenario with the same id gets a problem, unless its values are wrong.
    """
    scenarios: list[Scenario] = []
    seen: dict[str, int] = {}
    for number, chunk in enumerate(split_documents(text), start=1):
        scenario = _read_document(path, fixtures, chunk, number)
        if scenario.document and (first := seen.setdefault(scenario.id, scenario.line)) != scenario.line:
            scenario = _with_problem(scenario, f"the id {scenario.id!r} is used twice (first in line {first})")
        scenarios.append(scenario)
    return tuple(scenarios)


def scenario_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the scenario files below the folders among the paths, and the other paths as they are, sorted."""
    found = (path.rglob("*" + SUFFIX) if path.is_dir() else [path] for path in paths)
    return tuple(sorted({file for files in found for file in files}))


def read_corpus(paths: Iterable[Path], fixtures: Path) -> tuple[Scenario, ...]:
    """Return all scenarios of files and folders; one whose id an earlier file has gets a problem, unless its values are wrong.

    `fixtures` is the directory of topologies and messages.
    """
    scenarios: list[Scenario] = []
    seen: dict[str, Scenario] = {}
    for scenario in (scenario for path in scenario_files(paths) for scenario in read_scenarios(path, fixtures)):
        first = seen.setdefault(scenario.id, scenario)
        if first.path != scenario.path and scenario.document:
            message = f"the id {scenario.id!r} is used already, by {first.path}:{first.line}"
            scenarios.append(_with_problem(scenario, message))
        else:
            scenarios.append(scenario)
    return tuple(scenarios)


def check_corpus(paths: Iterable[Path], fixtures: Path) -> tuple[Problem, ...]:
    """Return all problems of the scenarios in files and folders, sorted by file and line."""
    scenarios = read_corpus(paths, fixtures)
    return tuple(sorted({problem for scenario in scenarios for problem in scenario.problems}))


def _stem(path: Path) -> str:
    """Return a file's name without `SUFFIX`."""
    return path.name.removesuffix(SUFFIX)


def _read_document(path: Path, fixtures: Path, chunk: Chunk, number: int) -> Scenario:
    """Return the scenario of a file's document, with its problems, after checking the whole matrix with the smoke grid.

    Where the document has no id, the id is made of the file's name and `number`, the document's place in the file from 1.
    """
    report = ProblemReport(str(path))
    name, line = f"{_stem(path)}-{number}", chunk.line
    node = compose(chunk, report)
    if node is None:
        return Scenario(name, path, line, None, report.problems, None)
    if (own := node.get("id")) is not None and isinstance(own.value, str) and own.value:
        name, line = own.value, node.entries["id"].key.line
    document = validate(Document, node, report)
    # Even without a document: its steps are checked all the same, and their problems go into `report`.
    matrix = CellExpander(path, fixtures, node, document, line, report)
    matrix.check()
    return Scenario(name, path, line, document, report.problems, matrix)


def _with_problem(scenario: Scenario, message: str) -> Scenario:
    """Return a scenario with one more problem, at its first line."""
    problem = Problem(str(scenario.path), scenario.line, 1, message)
    return replace(scenario, problems=tuple(sorted({problem, *scenario.problems})))
