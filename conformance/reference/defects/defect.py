"""What a defect is, and how one is written: a class that takes the place of a right part."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from conformance.reference.components import SLOTS, ComponentSets

P = TypeVar("P", bound=type)


@dataclass(frozen=True, slots=True)
class Defect:
    """A named way to be wrong, the requirement that it breaks, and what it does in one sentence."""

    name: str
    breaks: str
    says: str
    spoil: Callable[[ComponentSets], ComponentSets]
    retired: str | None = None
    """Why it is right after all; it can still be switched on, and nothing has to catch it."""
    on_disks: bool = False
    """Whether it shows only where the disk under a server of its own fails."""


DEFECTS: dict[str, Defect] = {}
"""Name -> defect; `conformance.reference.defects.catalogue` has read all modules that declare one."""


def defect(
    name: str,
    *,
    breaks: str,
    part: str,
    also: Mapping[str, type] | None = None,
    retired: str | None = None,
    on_disks: bool = False,
) -> Callable[[P], P]:
    """Declare the class below a defect: it takes the place of the part at that place (`parts.PLACES`).

    `retired` says why it is right after all. `also` names further parts, for a mistake that more than one part must make before it shows. What the defect does
    is the class's docstring. Raises ValueError for a name that is taken or a part that there is not.
    """
    others = dict(also or {})

    def declare(wrong: P) -> P:
        unknown = {part, *others} - SLOTS
        if name in DEFECTS or unknown:
            raise ValueError(f"defect {name}: the name is taken, or there is no part {', '.join(unknown)}")
        says = " ".join((wrong.__doc__ or "").split())
        spoiled: dict[str, type] = {part: wrong, **others}
        DEFECTS[name] = Defect(name, breaks, says, lambda parts: parts.with_replaced(spoiled), retired, on_disks)
        return wrong

    return declare
