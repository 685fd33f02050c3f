"""What a defect is, and the decorator that declares a class as one.

A defect is a deliberate mistake of the reference server: `reference+NAME` runs with it, and some check of the harness must
notice. A *component* is one function of the server as an object; a *slot* is the name of its place in a node (components.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from conformance.reference.components import SLOTS, ComponentSets

P = TypeVar("P", bound=type)


@dataclass(frozen=True, slots=True)
class Defect:
    """A named deliberate mistake: the requirement that it breaks, and in `says` one sentence on what the server then does."""

    name: str
    breaks: str
    says: str
    classes: Mapping[str, type]
    """The classes that make the mistake, by the slot that each takes."""
    retired: str | None = None
    """Why it conforms after all; it can still be switched on, and no check has to catch it. None for a defect in force."""
    on_disks: bool = False
    """Whether it shows only when the disk of a server that runs as a program fails."""
    needs_expectation: str | None = None
    """Why no rule that judges any history can find it, so that only a scenario's expectation does; None if a rule finds it."""

    def apply(self, classes: ComponentSets) -> ComponentSets:
        """Return a copy of the component classes, in which the classes of this defect take their slots."""
        return classes.with_replaced(self.classes)


DEFECTS: dict[str, Defect] = {}
"""All defects by name, once `conformance.reference.defects.catalogue` is imported."""


def defect(
    name: str,
    *,
    breaks: str,
    slot: str,
    also: Mapping[str, type] | None = None,
    retired: str | None = None,
    on_disks: bool = False,
    needs_expectation: str | None = None,
) -> Callable[[P], P]:
    """Return a class decorator that declares a defect: the class takes the place of the component in a slot (`SLOTS`).

    `breaks` is the id of the requirement that it violates. `also` has classes for further slots, by slot, for a mistake that shows only
    when several components make it. `retired` says why it conforms after all, `needs_expectation` why no rule of the model can find it;
    `on_disks`: it shows only when a disk fails. The class's docstring becomes `Defect.says`. The decorator, not this function, raises
    ValueError for a name that is taken and for an unknown slot.
    """

    def declare(component: P) -> P:
        """Add the defect to DEFECTS, and return the class unchanged. Raises ValueError if its name is taken or a slot is unknown."""
        classes: dict[str, type] = {slot: component, **(also or {})}
        if name in DEFECTS:
            raise ValueError(f"defect {name}: the name is taken")
        if unknown := classes.keys() - SLOTS:
            raise ValueError(f"defect {name}: there is no slot {', '.join(sorted(unknown))}")
        says = " ".join((component.__doc__ or "").split())
        DEFECTS[name] = Defect(name, breaks, says, classes, retired, on_disks, needs_expectation)
        return component

    return declare
