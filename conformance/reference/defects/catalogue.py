"""All defects by name: importing every module of this package fills `DEFECTS`."""

import importlib
import pkgutil

from conformance.reference import defects
from conformance.reference.components import ComponentSets
from conformance.reference.defects.defect import DEFECTS
from conformance.reference.readings.catalogue import applied
from conformance.reference.readings.reading import EVERY, READINGS

for _module in pkgutil.iter_modules(defects.__path__):
    if _module.name != "catalogue":
        importlib.import_module(f"{defects.__name__}.{_module.name}")


def spoiled(parts: ComponentSets, names: str) -> ComponentSets:
    """Return the parts with defects and conforming readings, `NAME` or `NAME+NAME`; readings are put on last.

    Raises ValueError when there is none of a name.
    """
    wanted = names.split("+")
    if unknown := [name for name in wanted if name not in DEFECTS and name not in READINGS and name != EVERY]:
        raise ValueError(
            f"no defect {unknown[0]!r}; there are: {', '.join(sorted(DEFECTS))}; and conforming readings: "
            f"{', '.join(sorted(READINGS))}, {EVERY}"
        )
    for name in wanted:
        if name in DEFECTS:
            parts = DEFECTS[name].spoil(parts)
    for name in wanted:
        if name not in DEFECTS:
            parts = applied(parts, name)
    return parts
