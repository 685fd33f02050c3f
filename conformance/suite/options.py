"""The options of the pytest plugin: declared, and checked into `Options`. Scripts depend on their names.

`conformance.plugin` calls this. An *assignment* says which candidate plays each server of a cell; each value of
`--candidate` is one. A *baseline* lists a candidate's known failures, a *shard* is a part of a run.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment, check_hosts, choose_clock, read_assignment
from conformance.candidates.description import CandidateError
from conformance.candidates.kind import KINDS
from conformance.clocks import CLOCKS, DEFAULT_SCALE, default_scale
from conformance.run.settings import Settings
from conformance.run.virtual.asyncio_compat import incompatibilities
from conformance.run.virtual.errors import UnsupportedPython
from conformance.suite.selection import SelectionError, check_requirements

_SCALED = " or ".join(name for name, kind in CLOCKS.items() if kind.scaled)

TOO_LARGE = 1e9
"""No scale and no number of seconds may be this large; a comparison with it also excludes not-a-number."""


def add_options(parser: pytest.Parser) -> None:
    """Add the options of the harness to pytest's parser."""
    declare_options(parser.getgroup("conformance", "conformance of mail transports"))


def options_help(width: int) -> str:
    """Return the help text of the harness's options without those of pytest, at most `width` columns wide."""
    parser = argparse.ArgumentParser(
        add_help=False, usage=argparse.SUPPRESS, formatter_class=partial(argparse.HelpFormatter, width=width)
    )
    declare_options(SimpleNamespace(addoption=parser.add_argument_group("options of the harness").add_argument))
    return parser.format_help()


class _Group(Protocol):
    """A group of options: of pytest's parser, or of argparse's with its `add_argument` under this name."""

    def addoption(self, *names: str, **attributes: Any) -> None:
        """Add an option; the attributes are those of argparse's `add_argument`."""


def declare_options(group: _Group) -> None:
    """Add every option of the harness to a group."""
    group.addoption(
        "--candidate",
        action="append",
        metavar="NAME|FILE|KIND:...",
        help="the candidate to judge: a name, a description, exec:reference, "
        + ", ".join(kind.word for kind in KINDS.values() if kind.word)
        + ", or SERVER=CANDIDATE,...; repeatable; default: reference",
    )
    group.addoption(
        "--clock",
        choices=tuple(CLOCKS),
        help="the clock: "
        + ", ".join(f"{name} ({kind.about})" if kind.about else name for name, kind in CLOCKS.items()),
    )
    group.addoption(
        "--scale",
        type=float,
        metavar="N",
        help=f"{_SCALED} clock: divide the documents' times by N (default {DEFAULT_SCALE:g})",
    )
    group.addoption("--grid", choices=("smoke", "pairwise", "full"), default="smoke", help="size of fault grids")
    group.addoption(
        "--keep",
        choices=("failed",),
        help="`failed`: the nodes' directories of failed cells (queue, log, configuration) stay, in kept/ of the run's "
        "directory; secrets of node.json and AUTH of logs are replaced",
    )
    group.addoption(
        "--cell-timeout",
        type=float,
        metavar="SECONDS",
        help="real time for one cell, which is inconclusive after it (default: 10 minutes more than the scenario's "
        "steps and drain take on that clock)",
    )
    group.addoption(
        "--should",
        choices=("warn", "fail"),
        default="warn",
        help="what a broken `should` requirement does: the cell passes with a remark (warn, the default), or fails",
    )
    group.addoption(
        "--disk",
        choices=("loop", "layer"),
        help="what a power cut affects, where both can be had: an ext4 of the server's own on a loop device (needs root), "
        "or a layer before its C library; default: loop, and without root the layer for the reference alone",
    )
    group.addoption(
        "--cells",
        type=int,
        default=1,
        metavar="N",
        help="cells in flight in one process (default 1); no effect with --clock "
        + " and ".join(name for name, kind in CLOCKS.items() if kind.jumps),
    )
    group.addoption(
        "--run-dir", type=Path, metavar="DIR", help="where this run is written (default: a new folder under reports/)"
    )
    group.addoption("--fresh", action="store_true", help="delete an earlier run in --run-dir first")
    group.addoption(
        "--baseline",
        action="append",
        metavar="FILE",
        help="what is known to fail, with the reason: a file, or a folder with one for each candidate; `write` drafts "
        "one in the run's directory; repeatable",
    )
    group.addoption(
        "--new-cells",
        choices=("report", "fail"),
        default="report",
        help="what failures do in cells that the baseline does not list: they are shown apart (report, the default), or "
        "fail the run",
    )
    group.addoption(
        "--allow-hosts",
        action="append",
        metavar="HOST,...",
        help="hosts other than this one at which candidates of the kind remote may be, or dial the harness; repeatable",
    )
    group.addoption(
        "--only",
        action="append",
        metavar="ID",
        help="only this cell, by its id as `conformance list` prints it, or the cells of SCENARIO[AXIS=VALUE]; an id "
        "can also stand in place of a path; repeatable",
    )
    group.addoption(
        "--requirement",
        action="append",
        metavar="ROW|GROUP",
        help="only cells that judge this row (SR-MNT-03) or a row of this group (MNT) of the catalogue; repeatable",
    )
    group.addoption("--shard", metavar="K/N", help="run only each N-th cell, from the K-th; the shards of a run merge")
    group.addoption(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="seed of all random choices, and but for 1, the default, of the order of what happens at one virtual time",
    )


@dataclass(frozen=True, slots=True)
class Options:
    """The options, checked. `words` are the values of `--candidate`, one for each of `assignments`.

    `baselines` are the values of `--baseline`, `hosts` those of `--allow-hosts`, one by one. `run_dir` None: a new directory is
    chosen. Empty `only` or `requirements`: all cells.
    """

    assignments: tuple[Assignment, ...]
    words: tuple[str, ...]
    settings: Settings
    cells: int
    run_dir: Path | None
    fresh: bool
    baselines: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    shard: tuple[int, int] = (1, 1)
    """(k, n): only each n-th cell from the k-th on is run; (1, 1) is all."""
    only: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    new_cells: Literal["report", "fail"] = "report"


def read_options(config: pytest.Config) -> Options:
    """Check the options and return them. Raises pytest.UsageError.

    Reads the descriptions of the candidates; baselines and `--only` are checked later.
    """
    words = config.getoption("--candidate") or ["reference"]
    hosts = tuple(host for word in config.getoption("--allow-hosts") or () for host in word.split(","))
    try:
        assignments = tuple(read_assignment(word, paths.fixtures() / "candidates") for word in words)
        check_hosts((candidate for assignment in assignments for candidate in assignment.candidates), hosts)
    except CandidateError as error:
        raise pytest.UsageError(str(error)) from error
    if len({assignment.identity for assignment in assignments}) != len(assignments):
        raise pytest.UsageError("--candidate: two of them have the same name")
    try:
        clock, assignments = choose_clock(assignments, config.getoption("--clock"))
    except CandidateError as error:
        raise pytest.UsageError(str(error)) from error
    if CLOCKS[clock].jumps and (missing := incompatibilities()):
        raise pytest.UsageError(f"--clock {clock}: {UnsupportedPython(missing)}")
    scale = config.getoption("--scale")
    if scale is not None and (not CLOCKS[clock].scaled or not 0 < scale < TOO_LARGE):
        raise pytest.UsageError(f"--scale: a number above 0, with --clock {_SCALED}")
    settings = Settings(
        clock=clock,
        scale=scale or default_scale(clock),
        seed=config.getoption("--seed"),
        grid=config.getoption("--grid"),
        keep=config.getoption("--keep"),
        cell_timeout=config.getoption("--cell-timeout"),
        should=config.getoption("--should"),
        disk=config.getoption("--disk"),
    )
    if not -(2**63) <= settings.seed < 2**63:
        raise pytest.UsageError("--seed: a whole number of 64 bits")
    if settings.cell_timeout is not None and not 0 < settings.cell_timeout < TOO_LARGE:
        raise pytest.UsageError("--cell-timeout: a number of seconds above 0")
    cells = config.getoption("--cells")
    if cells < 1:
        raise pytest.UsageError("--cells: at least 1")
    return Options(
        assignments=assignments,
        words=tuple(words),
        settings=settings,
        cells=cells,
        run_dir=config.getoption("--run-dir"),
        fresh=config.getoption("--fresh"),
        baselines=tuple(config.getoption("--baseline") or ()),
        hosts=hosts,
        shard=_parse_shard(config.getoption("--shard")),
        new_cells=config.getoption("--new-cells"),
        only=tuple(config.getoption("--only") or ()),
        requirements=_checked_requirements(config.getoption("--requirement") or ()),
    )


def _checked_requirements(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of `--requirement`. Raises pytest.UsageError for one that is not in the catalogue."""
    try:
        check_requirements(words)
    except SelectionError as error:
        raise pytest.UsageError(str(error)) from error
    return tuple(words)


def _parse_shard(word: str | None) -> tuple[int, int]:
    """Return (k, n) for `k/n`, (1, 1) for None. Raises pytest.UsageError."""
    if word is None:
        return 1, 1
    first, slash, second = word.partition("/")
    if not slash or not first.isdecimal() or not second.isdecimal() or not 1 <= int(first) <= int(second):
        raise pytest.UsageError(f"--shard {word}: write 2/4 for the second of four")
    return int(first), int(second)
