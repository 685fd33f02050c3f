"""Collectors: a file of scenarios, a scenario, and for each point of its matrix and each candidate one item."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance import paths
from conformance.candidates.generations import placed
from conformance.records import item_name
from conformance.scenarios.errors import Problems
from conformance.scenarios.loader import SUFFIX, Scenario, read
from conformance.suite.item import CellItem
from conformance.suite.options import Options

OPTIONS = pytest.StashKey[Options]()


class ScenarioFile(pytest.File):
    """A file of one or more scenarios; one that is wrong does not hide the others."""

    def collect(self) -> Iterator[pytest.Collector]:
        """Yield a collector for each scenario, and one for what is wrong with the file."""
        for scenario in read(self.path, paths.fixtures()):
            yield ScenarioCollector.from_parent(self, name=scenario.id, scenario=scenario)


class ScenarioCollector(pytest.Collector):
    """One scenario: its matrix, times the candidates."""

    def __init__(self, *, scenario: Scenario, **rest: Any) -> None:
        super().__init__(**rest)
        self._scenario = scenario

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each cell and candidate, in a stable order."""
        options = self.config.stash[OPTIONS]
        grid = options.settings.grid
        for number, one in enumerate(self._scenario.cells(grid)):
            for cast in options.casts:
                cell = self._scenario.cells(grid, cast.own_timers(one.topology.by_name))[number]
                yield CellItem.from_parent(self, name=item_name(cell, cast), cell=placed(cell, cast), cast=cast)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what is wrong in the file's own terms, without a traceback."""
        if isinstance(excinfo.value, Problems):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


def collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Take `*.scenario.yaml` and nothing else."""
    if not file_path.name.endswith(SUFFIX):
        return None
    return ScenarioFile.from_parent(parent, path=file_path, nodeid=_node_id(file_path, parent.config.rootpath))


def _node_id(file: Path, root: Path) -> str | None:
    """Return the node id of a file outside of pytest's root, for which pytest has none: its place in the corpus, or the
    way to it from the root. None leaves it to pytest."""
    if file.is_relative_to(root):
        return None
    corpus = paths.corpus()
    return (file.relative_to(corpus) if file.is_relative_to(corpus) else Path(os.path.relpath(file, root))).as_posix()
