"""Which rows of the catalogue a verdict may blame on a candidate."""

from conformance.requirements.catalogue import catalogue

OF_ANY_RELAY = frozenset({"relay", "dsn", "lmtp-delivery", "inspect"})
"""Capabilities of a relay without shadow redundancy: a candidate that claims no other is bound by the relay rows alone."""


def binding(requirements: tuple[str, ...], claims: frozenset[str]) -> tuple[str, ...]:
    """Return the rows, in their order, that bind a candidate with these claims.

    A row of shadow redundancy does not bind an ordinary relay. Where no row is left, all are returned: the scenario
    needs too little (a test of the corpus finds it), and a verdict without a row would say nothing.
    """
    if not claims <= OF_ANY_RELAY:
        return requirements
    rows = (catalogue().get(requirement) for requirement in requirements)
    return tuple(row.id for row in rows if row is not None and row.profile == "relay") or requirements
