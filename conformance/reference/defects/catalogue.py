"""All defects by name: importing the modules that declare them fills `DEFECTS`."""

from conformance.reference.defects import (  # noqa: F401  # read for what they declare
    acceptance,
    choice,
    configuration,
    creation,
    discard_status,
    duplicates,
    failing_disks,
    hub2010,
    hub_manager,
    hub_sessions,
    keeping,
    manager,
    redundancy,
    replies,
    routing,
    safety_net,
    sending,
    session,
)
from conformance.reference.defects.defect import DEFECTS
from conformance.reference.parts import Generations
from conformance.reference.readings.catalogue import applied
from conformance.reference.readings.reading import EVERY, READINGS


def spoiled(parts: Generations, names: str) -> Generations:
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
