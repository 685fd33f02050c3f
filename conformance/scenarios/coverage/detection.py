"""Finds the dimensions that a cell varies, from its steps, its topology and its axes; nothing is run.

A *dimension* is something in which scenarios can differ, such as a second message or a restart. An *action* is what a step of a
scenario does; its class is the model of the step's verb. A *group* is one of the groups of requirements, such as `MNT`.

A detector is a function of a cell whose name is the dimension's id in `dimensions.yaml`, with `_` for `-`. It says whether the cell
gives an occasion for every group of which it judges a row, or names the groups for which it does. It may be generous: not every
mistake shows in an occasion. The detectors are in `value_dimensions`, `mail_dimensions` and `server_dimensions`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from conformance.requirements.catalogue import catalogue
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Parallel, Repeat, Step
from conformance.scenarios.steps.sending import Send

Detector = Callable[[Cell], bool | Iterable[str]]
"""Returns whether a cell varies a dimension, or the groups for which it does."""

DETECTORS: dict[str, Detector] = {}
"""Detectors by the id of their dimension."""


def detector(function: Detector) -> Detector:
    """Register a detector under the id that its name gives, and return it unchanged."""
    DETECTORS[function.__name__.replace("_", "-")] = function
    return function


def groups_by_dimension(cell: Cell) -> dict[str, frozenset[str]]:
    """Return the groups for which a cell varies each dimension; the set of a dimension that it does not vary is empty."""
    every_group = frozenset(catalogue().groups)
    found = {name: function(cell) for name, function in DETECTORS.items()}
    return {
        name: (every_group if groups else frozenset()) if isinstance(groups, bool) else frozenset(groups)
        for name, groups in found.items()
    }


def dimensions_of(cell: Cell) -> frozenset[str]:
    """Return the ids of the dimensions that a cell varies for any group."""
    return frozenset(name for name, groups in groups_by_dimension(cell).items() if groups)


def actions(cell: Cell, *kinds: type) -> list[Any]:
    """Return the actions of these kinds, in order, including those of steps inside blocks."""
    return [step.action for step in cell.all_steps if isinstance(step.action, kinds)]


def sends(cell: Cell) -> list[Send]:
    """Return the actions of the steps `send` and `submit` (not `resend`), in order, including those inside blocks."""
    return actions(cell, Send)


def repeated(steps: Iterable[Step], times: int = 1) -> Iterator[tuple[Step, int]]:
    """Yield each step, including those inside blocks, with the number of times that it is done.

    `times` is how often the block is done that contains `steps`.
    """
    for step in steps:
        yield step, times
        if isinstance(step.action, Parallel | Repeat):
            yield from repeated(step.action.steps, times * getattr(step.action, "times", 1))
