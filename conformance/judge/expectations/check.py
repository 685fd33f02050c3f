"""The register of checks: a function for each expectation verb, found by the model of what stands under the verb.
Numbers of copies, as expectations ask for them, are told alike.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from conformance.judge.blame import Blame, Kind
from conformance.judge.finding import Finding, View
from conformance.registry import Registry
from conformance.scenarios.expectations import EXPECTATIONS, Copies, Expectation

E = TypeVar("E", bound=Expectation)
Judged = Callable[[E, View], Finding]
_NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Check:
    """The check of one verb, and what its violations are about."""

    judged: Judged[Any]
    blame: Blame


CHECKS: Registry[Check] = Registry("check of the expectation")


def check(
    model: type[E],
    *,
    about: Mapping[Kind, frozenset[str]] = _NONE,
    explains: Iterable[Kind] = (),
    granted: Mapping[Kind, Mapping[bool, str]] = _NONE,
) -> Callable[[Judged[E]], Judged[E]]:
    """Declare a function as the check of an expectation, and what its violations are about (see `Blame`)."""

    def declare(judged: Judged[E]) -> Judged[E]:
        CHECKS.declare(EXPECTATIONS.name_of(model))(Check(judged, Blame(about, frozenset(explains), granted)))
        return judged

    return declare


def within(copies: Copies, number: int) -> bool:
    """Whether a number is what was asked for."""
    return copies.min <= number and (copies.max is None or number <= copies.max)


def asked(copies: Copies) -> str:
    """Say how many were asked for."""
    if copies.max == copies.min:
        return str(copies.min)
    return f"at least {copies.min}" if copies.max is None else f"{copies.min} to {copies.max}"


def times(number: int) -> str:
    """Say how often: `once`, `3 times`."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")
