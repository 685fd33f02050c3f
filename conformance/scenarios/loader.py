"""The loader: from files of scenarios to scenarios with their cells, or with everything that is wrong with them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from conformance.scenarios.errors import Mark, Problem, Report
from conformance.scenarios.reader import SUFFIX, Grid, Scenario, read_document, stem
from conformance.scenarios.yaml_nodes import read_text, split

__all__ = ["SUFFIX", "Grid", "Scenario", "check_corpus", "files", "read", "read_corpus"]


def read(path: Path, fixtures: Path) -> tuple[Scenario, ...]:
    """Return the scenarios of a file; one that is wrong (no YAML at all, even) does not hide the others.

    `fixtures` is the directory of topologies and messages. Raises OSError when the file cannot be read.
    """
    whole = Report(str(path))
    text = read_text(path.read_bytes(), whole)
    if text is None:
        return (Scenario(stem(path), path, 1, None, whole.problems, None),)
    scenarios: list[Scenario] = []
    seen: dict[str, int] = {}
    for number, chunk in enumerate(split(text), start=1):
        scenario = read_document(path, fixtures, chunk, number)
        if scenario.document and (first := seen.setdefault(scenario.id, scenario.line)) != scenario.line:
            scenario = _spoiled(scenario, f"the id {scenario.id!r} is used twice (first in line {first})")
        scenarios.append(scenario)
    if not scenarios:
        whole.add(Mark(1, 1), "there is no scenario in this file")
        return (Scenario(stem(path), path, 1, None, whole.problems, None),)
    return tuple(scenarios)


def files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files of scenarios among and below the paths, sorted; a file that is named is taken."""
    found = (path.rglob("*" + SUFFIX) if path.is_dir() else [path] for path in paths)
    return tuple(sorted({path for some in found for path in some}))


def read_corpus(paths: Iterable[Path], fixtures: Path) -> tuple[Scenario, ...]:
    """Return all scenarios of files and folders; an id that two files use spoils the second. Raises OSError."""
    scenarios: list[Scenario] = []
    seen: dict[str, Scenario] = {}
    for scenario in (scenario for path in files(paths) for scenario in read(path, fixtures)):
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


def _spoiled(scenario: Scenario, message: str) -> Scenario:
    problem = Problem(str(scenario.path), scenario.line, 1, message)
    return replace(scenario, problems=tuple(sorted({problem, *scenario.problems})))
