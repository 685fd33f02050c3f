"""All defects and conforming readings by name: importing every module of both packages fills `DEFECTS` and `READINGS`.

A defect is a deliberate mistake of the reference server. A reading is another way to conform that the documents allow. Each
replaces the classes of one or more components (slots). A node that is started as `reference+NAME` has them applied by
`apply_by_name`.
"""

import importlib
import pkgutil

from conformance.reference import defects, readings
from conformance.reference.components import ComponentSets
from conformance.reference.defects.defect import DEFECTS
from conformance.reference.readings.reading import EVERY, READINGS, Reading

__all__ = ["DEFECTS", "EVERY", "READINGS", "apply_by_name"]

for _package in (defects, readings):
    for _module in pkgutil.iter_modules(_package.__path__):
        if _module.name != "catalogue":
            importlib.import_module(f"{_package.__name__}.{_module.name}")


def apply_by_name(classes: ComponentSets, names: str) -> ComponentSets:
    """Return a copy of `classes` with the defects and conforming readings in `names`, joined with `+`; EVERY stands for all readings.

    A defect replaces the classes of its slots, so of two defects with one slot only the last acts there. Readings are applied
    last, in front of defects, and add up; each is applied once, in the place where it is named last, so that its methods come
    before those of the readings named earlier. Raises ValueError for an unknown name.
    """
    requested = names.split("+")
    if unknown := [name for name in requested if name not in DEFECTS and name not in READINGS and name != EVERY]:
        raise ValueError(
            f"no defect {unknown[0]!r}; there are: {', '.join(sorted(DEFECTS))}; and conforming readings: "
            f"{', '.join(sorted(READINGS))}, {EVERY}"
        )
    for name in requested:
        if name in DEFECTS:
            classes = DEFECTS[name].apply(classes)
    in_order: dict[str, Reading] = {}
    for name in requested:
        for reading in READINGS.values():
            if name in (reading.name, EVERY):
                in_order.pop(reading.name, None)
                in_order[reading.name] = reading
    for reading in in_order.values():
        classes = reading.apply(classes)
    return classes
