"""The clocks that a run can have (`--clock`). Without `--clock` the first one is taken that suits all candidates.

Each is declared here; `conformance.run.clocks` has the class that keeps its time, under the same name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

IN_PROCESS, MOVED_CLOCK = "in-process", "moved-clock"
"""Features that a clock may need and only some kinds of candidates have: its node runs on this process's event loop, its clock
can be moved."""

DEFAULT_SCALE = 60.0
"""By what `--clock scaled` divides documented times without `--scale`: two minutes take two seconds."""


@dataclass(frozen=True, slots=True)
class ClockKind:
    """The declaration of a clock; `about` is its text in `--help`."""

    tolerance: float
    """Documented seconds, at a scale of 1, by which something may be late before a check of time reports it."""
    about: str = ""
    needs: str = ""
    """The feature that every candidate must have, '' for none."""
    refused: str = ""
    """How a message ends that a candidate lacks that feature."""
    jumps: bool = False
    """Whether time jumps to the next timer when nothing else is to be done. Then each cell has an event loop of its own, so
    `--cells` has no effect, and nothing is late because the machine is slow."""
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
    "scaled": ClockKind(about="default for others", tolerance=0.25, scaled=True),  # short delays of the machine
    "shifted": ClockKind(
        about="programs at their own timers, their clocks moved",
        tolerance=1.0,  # the time it takes to notice that programs are idle
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


def default_clock(features: Iterable[Iterable[str]]) -> ClockName:
    """Return the first clock whose needed feature all candidates have; `features` are those of each candidate.

    There is always one: the clock `scaled` needs none.
    """
    each = [frozenset(names) for names in features]
    return next(name for name, kind in CLOCKS.items() if not kind.needs or all(kind.needs in names for names in each))


def default_scale(name: ClockName) -> float:
    """Return by what a clock divides documented times without `--scale`."""
    return DEFAULT_SCALE if CLOCKS[name].scaled else 1.0
