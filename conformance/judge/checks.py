"""The registry of checks: one function for each expectation verb.

The modules of `conformance.judge.expectations` declare their functions here, by the decorator below; importing that package
imports all of its modules. `conformance.judge.cell` finds a check by its verb in EXPECTATION_CHECKS; no check is called by the
name of its function. A *row* is a requirement of the catalogue, on which violations are blamed by their kind.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from conformance.judge.blame import BlameRules
from conformance.registry import Registry
from conformance.scenarios.expectations import EXPECTATIONS, Expectation
from conformance.trace.context import ExpectationContext
from conformance.trace.finding import Finding, ViolationKind

E = TypeVar("E", bound=Expectation)
ExpectationCheck = Callable[[E, ExpectationContext], Finding]
_NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RegisteredExpectation:
    """The check of one expectation verb, and which rows its violations are blamed on."""

    check: ExpectationCheck[Any]
    blame: BlameRules


EXPECTATION_CHECKS: Registry[RegisteredExpectation] = Registry("check of the expectation")


def expectation_check(
    model: type[E],
    *,
    rows_by_kind: Mapping[ViolationKind, frozenset[str]] = _NONE,
    explaining_kinds: Iterable[ViolationKind] = (),
    fallback_rows: Mapping[ViolationKind, Mapping[bool, str]] = _NONE,
) -> Callable[[ExpectationCheck[E]], ExpectationCheck[E]]:
    """Return a decorator that registers a function as the check of an expectation, and returns the function unchanged.

    `model` declares the expectation's fields; its registered verb names the check. `rows_by_kind` has the requirements that a
    violation of each kind breaks. Violations of `explaining_kinds` say what was done instead of the right thing, and are listed
    before the failures that may follow from them. `fallback_rows` has the requirement to blame where the scenario names none
    for a kind: under False for servers of 2013 and later, under True where all are of 2010.
    """

    def register(check: ExpectationCheck[E]) -> ExpectationCheck[E]:
        """Register the check under the verb of `model`, with its blame rules, and return it."""
        rules = BlameRules(
            rows_by_kind=rows_by_kind, explaining_kinds=frozenset(explaining_kinds), fallback_rows=fallback_rows
        )
        EXPECTATION_CHECKS.add(EXPECTATIONS.name_of(model), RegisteredExpectation(check, rules))
        return check

    return register
