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
from conformance.reference.parts import Parts


def spoiled(parts: Parts, name: str) -> Parts:
    """Return the parts with one defect. Raises ValueError when there is none of that name."""
    if name not in DEFECTS:
        raise ValueError(f"no defect {name!r}; there are: {', '.join(sorted(DEFECTS))}")
    return DEFECTS[name].spoil(parts)
