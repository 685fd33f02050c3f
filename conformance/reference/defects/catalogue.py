"""All defects by name."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from conformance.reference.defects import acceptance
from conformance.reference.parts import Parts


@dataclass(frozen=True, slots=True)
class Defect:
    """A named way to be wrong, and the requirement that it breaks."""

    name: str
    breaks: str
    spoil: Callable[[Parts], Parts]


DEFECTS: dict[str, Defect] = {
    defect.name: defect
    for defect in (
        Defect(
            "acknowledges-before-shadow",
            "SR-CRE-01",
            lambda parts: replace(parts, acceptance=acceptance.AcknowledgesBeforeShadow),
        ),
    )
}
"""Name -> defect."""


def spoiled(parts: Parts, name: str | None) -> Parts:
    """Return the parts with one defect, or as they are. Raises ValueError when there is none of that name."""
    if name is None:
        return parts
    if name not in DEFECTS:
        raise ValueError(f"no defect {name!r}; there are: {', '.join(sorted(DEFECTS))}")
    return DEFECTS[name].spoil(parts)
