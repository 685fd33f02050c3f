"""All readings by name: importing the modules that declare them fills `READINGS`."""

from conformance.reference.components import ComponentSets
from conformance.reference.readings import hub2010, hub2010_outage, queues, receiving, rights, shadows  # noqa: F401  # read for what they declare
from conformance.reference.readings.reading import EVERY, READINGS


def applied(parts: ComponentSets, name: str) -> ComponentSets:
    """Return the parts with one reading, or with all of them. Raises KeyError when there is none of that name."""
    for one in READINGS.values() if name == EVERY else (READINGS[name],):
        parts = one.apply(parts)
    return parts
