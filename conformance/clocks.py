"""The clocks that a run may have (`--clock`): each is declared here, in the order in which one is taken that was not named.

What keeps the time of one is the class that `conformance.run.clocks` knows by the same name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

IN_PROCESS, MOVED_CLOCK = "in-process", "moved-clock"
"""What a clock may need of a candidate, and only some kinds have: a life on this process's loop, a clock that can be moved."""

SCALED_BY_DEFAULT = 60.0
"""Two minutes of the documents are two seconds."""


@dataclass(frozen=True, slots=True)
class ClockKind:
    """What the rest of the harness has to know of a clock; `about` is for `--help`."""

    tolerance: float
    """Documented seconds by which something may be late before a check of time says so, for a scale of 1."""
    about: str = ""
    needs: str = ""
    """What every candidate must have; empty: nothing."""
    refused: str = ""
    """What is said of a candidate that does not have it."""
    jumps: bool = False
    """Whether time jumps where nothing happens: a cell has its loop to itself, its steps take no real time to speak of, and
    time stands still while a program waits for a processor. Else `--cells` counts, and so does lateness."""
    scaled: bool = False
    """Whether `--scale` divides the documents' times."""


CLOCKS = {
    "virtual": ClockKind(
        about="default for candidates in this process",
        tolerance=0.0,  # nothing is late
        needs=IN_PROCESS,
        refused="is a process of its own; use --clock scaled",
        jumps=True,
    ),
    "scaled": ClockKind(about="default for others", tolerance=0.25, scaled=True),  # a machine's hiccup
    "shifted": ClockKind(
        about="programs at their own timers, their clocks moved",
        tolerance=1.0,  # as fast as real time, but for what passes while programs are found to be quiet
        needs=MOVED_CLOCK,
        refused="is no program on this machine; use exec:...",
        jumps=True,
    ),
    "real": ClockKind(tolerance=0.25),
}

if TYPE_CHECKING:
    ClockName = str
else:
    ClockName = Literal[tuple(CLOCKS)]


def default_clock(means: Iterable[Iterable[str]]) -> ClockName:
    """Return the first clock for which each of the candidates has what it needs; `means` is what each of them has."""
    everybody = [frozenset(one) for one in means]
    return next(name for name, kind in CLOCKS.items() if not kind.needs or all(kind.needs in one for one in everybody))


def default_scale(name: ClockName) -> float:
    """Return what documented times are divided by under a clock when nobody says by what."""
    return SCALED_BY_DEFAULT if CLOCKS[name].scaled else 1.0
