"""Collects scenario files as pytest items, one for each cell and candidate, and applies `--only` and `--requirement`.

The plugin's hooks call this. `config.args` are the paths that pytest will collect. An *assignment* says which candidate plays each
server of a cell; each value of `--candidate` is one. A *shard* is a part of a run on one of several machines.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance import paths
from conformance.candidates.cell_needs import cells_for
from conformance.records import item_name
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.loader import SUFFIX, Scenario, read_scenarios
from conformance.scenarios.steps.sending import Send
from conformance.suite.item import CellItem
from conformance.suite.options import Options
from conformance.suite.selection import SelectionError, as_keywords, covers_corpus, find_scenarios, is_id, select

OPTIONS = pytest.StashKey[Options]()  # stored by the plugin when pytest is configured


class ScenarioFile(pytest.File):
    """A file of one or more scenarios; one with errors does not keep the others from being collected."""

    def collect(self) -> Iterator[pytest.Collector]:
        """Yield a collector for each scenario, also for those with errors; these fail when they collect their cells."""
        for scenario in read_scenarios(self.path, paths.fixtures()):
            yield ScenarioCollector.from_parent(self, name=scenario.id, scenario=scenario)


class ScenarioCollector(pytest.Collector):
    """One scenario, whose items are the cells of its matrix for each candidate."""

    def __init__(self, *, scenario: Scenario, **rest: Any) -> None:
        super().__init__(**rest)
        self._scenario = scenario

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each cell and candidate, in a stable order. Raises InvalidFile if there are errors."""
        options = self.config.stash[OPTIONS]
        grid = options.settings.grid
        cells = (cells_for(self._scenario, grid, assignment) for assignment in options.assignments)
        for same_cell in zip(*cells, strict=True):
            for assignment, cell in zip(options.assignments, same_cell, strict=True):
                yield CellItem.from_parent(self, name=item_name(cell, assignment), cell=cell, assignment=assignment)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the scenario's errors by line, without a traceback."""
        if isinstance(excinfo.value, InvalidFile):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


def collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Return a collector for `*.scenario.yaml`, None for any other file."""
    if not file_path.name.endswith(SUFFIX):
        return None
    return ScenarioFile.from_parent(parent, path=file_path, nodeid=_node_id(file_path, parent.config.rootpath))


def _node_id(file: Path, root: Path) -> str | None:
    """Return the node id of a file outside of pytest's root: its path in the corpus, else its path relative to the root.

    None for a file below the root, to which pytest gives an id.
    """
    if file.is_relative_to(root):
        return None
    corpus = paths.corpus()
    return (file.relative_to(corpus) if file.is_relative_to(corpus) else Path(os.path.relpath(file, root))).as_posix()


NO_CELL_FOUND = "no cell was found"
"""How the message of a run without any cell begins."""
UNFILTERED = pytest.StashKey[bool]()
"""Whether no item was deselected, apart from those of other shards; the plugin sets it after the collection."""


def move_ids_to_only(config: pytest.Config) -> None:
    """Move the path arguments that are ids of cells to `--only`, and rewrite `-k` so that pytest accepts `axis=value`.

    Only arguments of the command line are moved. If no other path is left, the corpus is searched for the ids.
    """
    ids = [word for word in config.args if is_id(word)]
    # `args` may also come from the ini file or be the current directory: those are paths
    if ids and config.args_source is config.ArgsSource.ARGS:
        config.option.only = [*(config.option.only or ()), *ids]
        config.args[:] = [word for word in config.args if word not in ids] or [str(paths.corpus())]
    config.option.keyword = as_keywords(config.option.keyword or "")


def narrow_paths(config: pytest.Config, options: Options) -> None:
    """Replace pytest's path arguments by the scenarios that `--only` names, if it is given.

    Raises pytest.UsageError. The paths that were given say where the scenarios are looked for.
    """
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


def deselect_cells(config: pytest.Config, options: Options, items: list[pytest.Item]) -> None:
    """Deselect the items that `--only` and `--requirement` do not name, and those that are no cells; `items` is changed in place.

    Nothing is deselected if neither option is given.
    """
    if not options.only and not options.requirements:
        return
    cells = [item for item in items if isinstance(item, CellItem)]
    chosen = select([item.cell for item in cells], options.only, options.requirements)
    wanted = {id(item) for item, one in zip(cells, chosen, strict=True) if one}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in wanted])
    items[:] = [item for item in items if id(item) in wanted]


MANY_MESSAGES = 500
"""A cell that sends at least this many takes half a minute; most take less than a second."""


def put_long_cells_first(items: list[pytest.Item]) -> None:
    """Move the cells that send 500 messages or more to the front of `items`, which is changed in place; all else keeps its order.

    Of several workers none is then left alone with a long cell at the end of a run.
    """
    items.sort(key=lambda item: not (isinstance(item, CellItem) and _sent_messages(item.cell) >= MANY_MESSAGES))


def _sent_messages(cell: Cell) -> int:
    """Return how many messages the steps `send` and `submit` of a cell send; a step that a `repeat` repeats counts once."""
    return sum(step.action.count for step in cell.all_steps if isinstance(step.action, Send))


def is_filtered(config: pytest.Config, files: Sequence[Path]) -> bool:
    """Whether not all of the corpus is run.

    That is so if items were deselected (but for those of other shards), a path names a scenario, or `files`, those that were
    collected, are not all.
    """
    parts = any("::" in word for word in config.args)  # `FILE::SCENARIO`
    return parts or not config.stash.get(UNFILTERED, False) or not covers_corpus(files)


def explain_empty(config: pytest.Config) -> str:
    """Return a message that no cell was collected, with the options that exclude all, or how to name files."""
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
