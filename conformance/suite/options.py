"""The options of the pytest plugin, in one group; their names are a contract with scripts."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment, check_hosts, read_assignment
from conformance.candidates.description import CandidateError
from conformance.candidates.kind import KINDS
from conformance.clocks import CLOCKS, DEFAULT_SCALE, ClockName, default_clock, default_scale
from conformance.run.settings import Settings
from conformance.run.virtual.asyncio_compat import incompatibilities
from conformance.run.virtual.errors import UnsupportedPython
from conformance.suite.selection import SelectionError, check_requirements

_SCALED = " or ".join(name for name, kind in CLOCKS.items() if kind.scaled)

_ENDLESS = 1e9
"""Seconds, and times: no run takes so many, and not-a-number is not below it."""


def add_options(parser: pytest.Parser) -> None:
    """Add the options to pytest's own."""
    declare_options(parser.getgroup("conformance", "conformance of mail transports"))


def options_help(width: int) -> str:
    """Return the help text of the options, without pytest's own."""
    parser = argparse.ArgumentParser(
        add_help=False, usage=argparse.SUPPRESS, formatter_class=partial(argparse.HelpFormatter, width=width)
    )
    declare_options(SimpleNamespace(addoption=parser.add_argument_group("options of the harness").add_argument))
    return parser.format_help()


class _Group(Protocol):
    """What options are added to: a group of pytest's parser, or one of argparse behind the same name."""

    def addoption(self, *names: str, **attributes: Any) -> None:
        """Add an option, with the attributes that argparse's `add_argument` takes."""


def declare_options(group: _Group) -> None:
    """Declare each option of the harness."""
    group.addoption(
        "--candidate",
        action="append",
        metavar="NAME|FILE|KIND:...",
        help="what is judged: a name, a description, exec:reference, "
        + ", ".join(kind.word for kind in KINDS.values() if kind.word)
        + ", or SERVER=CANDIDATE,...; repeatable; default: reference",
    )
    group.addoption(
        "--clock",
        choices=tuple(CLOCKS),
        help="which time: "
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
        help="what a power cut strikes, where both can be had: an ext4 of the server's own on a loop device (needs root), "
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
        help="hosts other than this one that candidates of the kind remote may be at, or dial us at; repeatable",
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
    group.addoption("--seed", type=int, default=1, metavar="N", help="seed of everything that is chosen (default 1)")


@dataclass(frozen=True, slots=True)
class Options:
    """The options, checked."""

    assignments: tuple[Assignment, ...]
    words: tuple[str, ...]
    settings: Settings
    cells: int
    run_dir: Path | None
    fresh: bool
    baselines: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    shard: tuple[int, int] = (1, 1)
    """Which of how many parts of the cells; (1, 1) is all."""
    only: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    new_cells: Literal["report", "fail"] = "report"


def read_options(config: pytest.Config) -> Options:
    """Check the options and return them. Raises pytest.UsageError."""
    words = config.getoption("--candidate") or ["reference"]
    hosts = tuple(host for word in config.getoption("--allow-hosts") or () for host in word.split(","))
    try:
        assignments = tuple(read_assignment(word, paths.fixtures() / "candidates") for word in words)
        check_hosts((one for assignment in assignments for one in assignment.candidates), hosts)
    except CandidateError as error:
        raise pytest.UsageError(str(error)) from error
    if len({assignment.identity for assignment in assignments}) != len(assignments):
        raise pytest.UsageError("--candidate: two of them have the same name")
    clock: ClockName = config.getoption("--clock") or default_clock(
        one.features for assignment in assignments for one in assignment.candidates
    )
    if needed := CLOCKS[clock].needs:
        assignments = tuple(assignment.with_feature(needed) for assignment in assignments)
        if without := [
            one.identity for assignment in assignments for one in assignment.candidates if needed not in one.features
        ]:
            raise pytest.UsageError(f"--clock {clock}: {without[0]} {CLOCKS[clock].refused}")
    if CLOCKS[clock].jumps and (unknown := incompatibilities()):
        raise pytest.UsageError(f"--clock {clock}: {UnsupportedPython(unknown)}")
    scale = config.getoption("--scale")
    if scale is not None and (not CLOCKS[clock].scaled or not 0 < scale < _ENDLESS):
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
    if settings.cell_timeout is not None and not 0 < settings.cell_timeout < _ENDLESS:
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
        shard=_shard(config.getoption("--shard")),
        new_cells=config.getoption("--new-cells"),
        only=tuple(config.getoption("--only") or ()),
        requirements=_requirements(config.getoption("--requirement") or ()),
    )


def _requirements(words: Sequence[str]) -> tuple[str, ...]:
    try:
        check_requirements(words)
    except SelectionError as error:
        raise pytest.UsageError(str(error)) from error
    return tuple(words)


def _shard(word: str | None) -> tuple[int, int]:
    if word is None:
        return 1, 1
    first, slash, second = word.partition("/")
    if not slash or not first.isdecimal() or not second.isdecimal() or not 1 <= int(first) <= int(second):
        raise pytest.UsageError(f"--shard {word}: write 2/4 for the second of four")
    return int(first), int(second)
