"""The loader: from files of scenarios to scenarios with their cells, or with everything that is wrong with them."""

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
"""How the name of a file of scenarios ends."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario of a file: its cells, or what is wrong with it."""

    id: str
    path: Path
    line: int
    document: Document | None
    problems: tuple[Problem, ...]
    matrix: CellExpander | None

    def cells(self, grid: GridSize = "smoke", timers: OwnTimers | None = None) -> tuple[Cell, ...]:
        """Return the cells in a stable order, with the scenario's fault grid in the size asked for. Raises Problems.

        `timers` are those that the candidate has by itself, for a scenario that leaves them to it.
        """
        if self.problems or self.matrix is None:
            raise InvalidFile(self.problems)
        return self.matrix.cells(grid, timers)


def read_scenarios(path: Path, fixtures: Path) -> tuple[Scenario, ...]:
    """Return the scenarios of a file; one that is wrong (no YAML at all, even) does not hide the others.

    A file that cannot be read counts as one scenario, with the reason. `fixtures` is the directory of topologies and messages.
    """
    whole = ProblemReport(str(path))
    text = read_text(path, whole)
    if text is None:
        return (Scenario(_stem(path), path, 1, None, whole.problems, None),)
    scenarios: list[Scenario] = []
    seen: dict[str, int] = {}
    for number, chunk in enumerate(split_documents(text), start=1):
        scenario = _read_document(path, fixtures, chunk, number)
        if scenario.document and (first := seen.setdefault(scenario.id, scenario.line)) != scenario.line:
            scenario = _spoiled(scenario, f"the id {scenario.id!r} is used twice (first in line {first})")
        scenarios.append(scenario)
    if not scenarios:
        whole.add(Mark(1, 1), "there is no scenario in this file")
        return (Scenario(_stem(path), path, 1, None, whole.problems, None),)
    return tuple(scenarios)


def scenario_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files of scenarios among and below the paths, sorted; a file that is named is taken."""
    found = (path.rglob("*" + SUFFIX) if path.is_dir() else [path] for path in paths)
    return tuple(sorted({path for some in found for path in some}))


def read_corpus(paths: Iterable[Path], fixtures: Path) -> tuple[Scenario, ...]:
    """Return all scenarios of files and folders; an id that two files use spoils the second."""
    scenarios: list[Scenario] = []
    seen: dict[str, Scenario] = {}
    for scenario in (scenario for path in scenario_files(paths) for scenario in read_scenarios(path, fixtures)):
        first = seen.setdefault(scenario.id, scenario)
        if first.path != scenario.path and scenario.document:
            message = f"the id {scenario.id!r} is used already, by {first.path}:{first.line}"
            scenarios.append(_spoiled(scenario, message))
        else:
            scenarios.append(scenario)
    return tuple(scenarios)


def check_corpus(paths: Iterable[Path], fixtures: Path) -> tuple[Problem, ...]:
    """Return everything that is wrong with files and folders of scenarios, in the order of files and lines."""
    scenarios = read_corpus(paths, fixtures)
    return tuple(sorted({problem for scenario in scenarios for problem in scenario.problems}))


def _stem(path: Path) -> str:
    """Return a file's name without `.scenario.yaml`."""
    return path.name.removesuffix(SUFFIX)


def _read_document(path: Path, fixtures: Path, chunk: Chunk, number: int) -> Scenario:
    """Read the n-th document of a file; file and number stand in for the id where there is none."""
    report = ProblemReport(str(path))
    name, line = f"{_stem(path)}-{number}", chunk.line
    node = compose(chunk, report)
    if node is None:
        return Scenario(name, path, line, None, report.problems, None)
    if (own := node.get("id")) is not None and isinstance(own.value, str) and own.value:
        name, line = own.value, node.entries["id"].key.line
    document = validate(Document, node, report)
    matrix = CellExpander(path, fixtures, node, document, line, report)
    matrix.check()
    return Scenario(name, path, line, document, report.problems, matrix)


def _spoiled(scenario: Scenario, message: str) -> Scenario:
    problem = Problem(str(scenario.path), scenario.line, 1, message)
    return replace(scenario, problems=tuple(sorted({problem, *scenario.problems})))
