"""Applies the choice of cells to a pytest session: what `selection` finds, as arguments and items of pytest."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance import paths
from conformance.scenarios.loader import SUFFIX
from conformance.suite.item import CellItem
from conformance.suite.options import Options
from conformance.suite.selection import SelectionError, as_keywords, covers_corpus, find_scenarios, is_id, select

NOTHING = "no cell was found"
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
        return f"{NOTHING}: none matches {' and '.join(words)}; `conformance list` prints the ids of all cells"
    return f"{NOTHING}: name files that end in {SUFFIX}, or folders of them"
