"""The registries of checks: one function for each expectation verb, one for each invariant.

The modules of `conformance.judge.expectations` and `conformance.judge.invariants` declare their functions here, by the
decorators below; importing one of these packages imports all of its modules. Neither kind of check is called by its name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from conformance.judge.blame import BlameRules, ViolationKind
from conformance.judge.context import CheckContext, ExpectationContext
from conformance.judge.finding import Finding
from conformance.registry import Registry
from conformance.scenarios.expectations import EXPECTATIONS, Expectation

E = TypeVar("E", bound=Expectation)
ExpectationCheck = Callable[[E, ExpectationContext], Finding]
InvariantCheck = Callable[[CheckContext], Finding]
_NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RegisteredExpectation:
    """The check of one expectation verb, and which rows its violations are blamed on."""

    check: ExpectationCheck[Any]
    blame: BlameRules


@dataclass(frozen=True, slots=True)
class RegisteredInvariant:
    """The check of one invariant, and the requirements that it judges; the first is blamed unless a violation names one."""

    check: InvariantCheck
    requirements: tuple[str, ...]


EXPECTATION_CHECKS: Registry[RegisteredExpectation] = Registry("check of the expectation")
INVARIANT_CHECKS: Registry[RegisteredInvariant] = Registry("check of the invariant")


def expectation_check(
    model: type[E],
    *,
    rows_by_kind: Mapping[ViolationKind, frozenset[str]] = _NONE,
    explaining_kinds: Iterable[ViolationKind] = (),
    fallback_rows: Mapping[ViolationKind, Mapping[bool, str]] = _NONE,
) -> Callable[[ExpectationCheck[E]], ExpectationCheck[E]]:
    """Return a decorator that registers a function as the check of an expectation.

    `model` declares the expectation's fields; its registered verb names the check. `rows_by_kind` has the requirements
    that a violation of each kind breaks. Violations of `explaining_kinds` are listed before others, since they say what
    was done instead. `fallback_rows` has the requirement to blame where the scenario names none for a kind: under False
    for servers of 2013 and later, under True where all are of 2010.
    """

    def register(check: ExpectationCheck[E]) -> ExpectationCheck[E]:
        rules = BlameRules(rows_by_kind, frozenset(explaining_kinds), fallback_rows)
        EXPECTATION_CHECKS.add(EXPECTATIONS.name_of(model), RegisteredExpectation(check, rules))
        return check

    return register


def invariant_check(name: str, *requirements: str) -> Callable[[InvariantCheck], InvariantCheck]:
    """Return a decorator that registers a function as the check of an invariant, which judges these requirements.

    A violation that names no row of its own is blamed on the first of them.
    """

    def register(check: InvariantCheck) -> InvariantCheck:
        INVARIANT_CHECKS.add(name, RegisteredInvariant(check, requirements))
        return check

    return register
