"""The checks of one scenario: a function for each expectation verb, in a module for each family; `CHECKS` has them all."""

from conformance.judge.expectations.check import CHECKS
from conformance.registry import complete
from conformance.scenarios.expectations import VERBS

__all__ = ["CHECKS"]

complete(CHECKS, __name__, VERBS)
