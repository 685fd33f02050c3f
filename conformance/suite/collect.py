"""Collectors: a file of scenarios, a scenario, and for each point of its matrix and each candidate one item. What
`selection` finds is applied to a session as arguments and items of pytest.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance import paths
from conformance.candidates.cell_needs import with_described_generations
from conformance.records import item_name
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.loader import SUFFIX, Scenario, read_scenarios
from conformance.suite.item import CellItem
from conformance.suite.options import Options
from conformance.suite.selection import SelectionError, as_keywords, covers_corpus, find_scenarios, is_id, select

OPTIONS = pytest.StashKey[Options]()


class ScenarioFile(pytest.File):
    """A file of one or more scenarios; one that is wrong does not hide the others."""

    def collect(self) -> Iterator[pytest.Collector]:
        """Yield a collector for each scenario, and one for what is wrong with the file."""
        for scenario in read_scenarios(self.path, paths.fixtures()):
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
            for assignment in options.assignments:
                cell = self._scenario.cells(grid, assignment.own_timers(one.topology.by_name))[number]
                yield CellItem.from_parent(
                    self,
                    name=item_name(cell, assignment),
                    cell=with_described_generations(cell, assignment),
                    assignment=assignment,
                )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what is wrong in the file's own terms, without a traceback."""
        if isinstance(excinfo.value, InvalidFile):
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


NO_CELL_FOUND = "no cell was found"
"""How the message of a run without a cell begins."""
UNFILTERED = pytest.StashKey[bool]()
"""Whether no item was deselected, but for those of other shards."""


def take_ids(config: pytest.Config) -> None:
    """Move the arguments that are ids of cells to `--only`, and write `-k` so that pytest can read `axis=value`."""
    ids = [word for word in config.args if is_id(word)]
    if ids and config.args_source is config.ArgsSource.ARGS:
        config.option.only = [*(config.option.only or ()), *ids]
        config.args[:] = [word for word in config.args if word not in ids] or [str(paths.corpus())]
    config.option.keyword = as_keywords(config.option.keyword or "")


def narrow(config: pytest.Config, options: Options) -> None:
    """Let pytest collect only the scenarios that `--only` names. Raises pytest.UsageError."""
    if not options.only:
        return
    start = config.invocation_params.dir
    where = [start / word.partition("::")[0] for word in config.args]
    if missing := [path for path in where if not path.exists()]:
        raise pytest.UsageError(f"file or directory not found: {missing[0]}")
    try:
        found = find_scenarios(options.only, where, options.settings.grid)
    except (OSError, SelectionError) as error:
        raise pytest.UsageError(str(error)) from error
    config.args[:] = [f"{path}::{scenario}" for path, scenario in found]


def keep_wanted(config: pytest.Config, options: Options, items: list[pytest.Item]) -> None:
    """Deselect what `--only` and `--requirement` do not name. Raises pytest.UsageError."""
    if not options.only and not options.requirements:
        return
    cells = [item for item in items if isinstance(item, CellItem)]
    chosen = select([item.cell for item in cells], options.only, options.requirements)
    wanted = {id(item) for item, one in zip(cells, chosen, strict=True) if one}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in wanted])
    items[:] = [item for item in items if id(item) in wanted]


def is_filtered(config: pytest.Config, files: Sequence[Path]) -> bool:
    """Whether only a part of the corpus is run: something was deselected, or not all of its files were collected."""
    parts = any("::" in word for word in config.args)
    return parts or not config.stash.get(UNFILTERED, False) or not covers_corpus(files)


def explain_empty(config: pytest.Config) -> str:
    """Return why no cell was collected, and what to do."""
    option = config.option
    given = {
        "-k": [option.keyword],
        "-m": [option.markexpr],
        "--only": option.only or (),
        "--requirement": option.requirement or (),
    }
    words = [f"{name} {shlex.quote(word)}" for name, values in given.items() for word in values if word]
    if words:
        return f"{NO_CELL_FOUND}: none matches {' and '.join(words)}; `conformance list` prints the ids of all cells"
    return f"{NO_CELL_FOUND}: name files that end in {SUFFIX}, or folders of them"
