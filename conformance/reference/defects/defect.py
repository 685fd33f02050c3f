"""What a defect is, and how one is written: a class that takes the place of a right part."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from conformance.reference.parts import Parts

P = TypeVar("P", bound=type)


@dataclass(frozen=True, slots=True)
class Defect:
    """A named way to be wrong, the requirement that it breaks, and what it does in one sentence."""

    name: str
    breaks: str
    says: str
    spoil: Callable[[Parts], Parts]


DEFECTS: dict[str, Defect] = {}
"""Name -> defect; `conformance.reference.defects.catalogue` has read all modules that declare one."""


def defect(name: str, *, breaks: str, part: str) -> Callable[[P], P]:
    """Declare the class below a defect: it takes the place of the part of that name in `Parts`.

    What the defect does is the class's docstring. Raises ValueError for a name that is taken or a part there is not.
    """

    def declare(wrong: P) -> P:
        if name in DEFECTS or part not in Parts.__dataclass_fields__:
            raise ValueError(f"defect {name}: the name is taken, or there is no part {part!r}")
        says = (wrong.__doc__ or "").strip()
        DEFECTS[name] = Defect(name, breaks, says, lambda parts: replace(parts, **{part: wrong}))
        return wrong

    return declare
