"""The register of the invariants' checks: a function for each, and the requirements that it judges."""

from collections.abc import Callable

from conformance.judge.finding import Case, Finding
from conformance.registry import Registry

Judged = Callable[[Case], Finding]

CHECKS: Registry[tuple[tuple[str, ...], Judged]] = Registry("check of the invariant")


def invariant(name: str, *requirements: str) -> Callable[[Judged], Judged]:
    """Declare a function as the check of an invariant, which judges these requirements; the first is blamed."""

    def declare(judged: Judged) -> Judged:
        CHECKS.add(name, (requirements, judged))
        return judged

    return declare
