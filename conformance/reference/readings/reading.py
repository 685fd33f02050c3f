"""What a conforming reading is, and the decorator that declares a class as one.

`reference+NAME` runs the reference server with it. No check of the harness may fail such a server. A *component* is one function
of the server as an object, such as the delivery of messages; a *slot* is the name of its place in a node, such as `delivery`, or
`ex2010.manager` for servers of 2010 (`SLOTS` in components.py). A *defect* is a deliberate mistake, put into slots the same way.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from conformance.reference.components import SLOTS, ComponentSets

P = TypeVar("P", bound=type)

EVERY = "every-reading"
"""Stands for all readings at once."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A named way to read the documents that differs from the reference's and conforms as well.

    `allowed_by` is the ruling or page that allows it, `says` one sentence on what the server does, `classes` are the mixins by slot.
    """

    name: str
    allowed_by: str
    says: str
    classes: Mapping[str, type]

    def apply(self, classes: ComponentSets) -> ComponentSets:
        """Return a copy of `classes` that follows this reading. Other readings and defects that they have stay in effect."""
        return classes.with_replaced(
            {slot: _in_front(mixin, classes.class_in(slot)) for slot, mixin in self.classes.items()}
        )


READINGS: dict[str, Reading] = {}
"""All readings by name, once `conformance.reference.defects.catalogue` is imported."""


def reading(
    name: str, *, allowed_by: str, slots: tuple[str, ...], also: Mapping[str, type] | None = None
) -> Callable[[P], P]:
    """Return a decorator that declares a class as a reading: its methods come before those of the components in `slots`.

    `also` maps further slots to other classes. `allowed_by` is the ruling or page that allows the reading. The class's docstring
    becomes `Reading.says`. The decorator raises ValueError for a name that is taken or reserved (`EVERY`), and for an unknown slot.
    """

    def declare(mixin: P) -> P:
        """Add the reading to READINGS, and return the class unchanged."""
        classes: dict[str, type] = dict.fromkeys(slots, mixin) | dict(also or {})
        if name in READINGS or name == EVERY:
            raise ValueError(f"reading {name}: the name is taken")
        if unknown := classes.keys() - SLOTS:
            raise ValueError(f"reading {name}: there is no slot {', '.join(sorted(unknown))}")
        says = " ".join((mixin.__doc__ or "").split())
        READINGS[name] = Reading(name, allowed_by, says, classes)
        return mixin

    return declare


def _in_front(mixin: type, component: type) -> type:
    """Return a class with the methods of `mixin` before those of `component`: `mixin` itself if it inherits from `component`."""
    if issubclass(mixin, component):
        return mixin
    return type(mixin.__name__, (mixin, component), {"__doc__": mixin.__doc__})
