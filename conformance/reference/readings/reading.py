"""What a conforming reading is, and how one is written: a class that is put in front of a right part."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from conformance.reference.components import SLOTS, ComponentSets

P = TypeVar("P", bound=type)

EVERY = "every-reading"
"""Stands for all readings at once."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A named way to read the contract: the ruling or page that allows it, what it does, and the parts that do it."""

    name: str
    allowed_by: str
    says: str
    parts: Mapping[str, type]

    def apply(self, parts: ComponentSets) -> ComponentSets:
        """Return parts that follow this reading, whatever readings or defects they have already."""
        return parts.with_replaced(
            {place: _in_front(mixin, parts.class_in(place)) for place, mixin in self.parts.items()}
        )


READINGS: dict[str, Reading] = {}
"""Name -> reading; `conformance.reference.readings.catalogue` has read all modules that declare one."""


def reading(
    name: str, *, allowed_by: str, parts: tuple[str, ...], also: Mapping[str, type] | None = None
) -> Callable[[P], P]:
    """Declare the class below a reading, which is put in front of the parts at these places (`parts.PLACES`).

    `also` has further parts by name, for what one class cannot do. What the reading does is the class's docstring. Raises
    ValueError for a name that is taken or a part that there is not.
    """
    others = dict(also or {})

    def declare(mixin: P) -> P:
        unknown = {*parts, *others} - SLOTS
        if name in READINGS or name == EVERY or unknown:
            raise ValueError(f"reading {name}: the name is taken, or there is no part {', '.join(sorted(unknown))}")
        says = " ".join((mixin.__doc__ or "").split())
        READINGS[name] = Reading(name, allowed_by, says, dict.fromkeys(parts, mixin) | others)
        return mixin

    return declare


def _in_front(mixin: type, part: type) -> type:
    """Return a class that does what `mixin` does and leaves the rest to `part`."""
    return mixin if issubclass(mixin, part) else type(mixin.__name__, (mixin, part), {"__doc__": mixin.__doc__})
