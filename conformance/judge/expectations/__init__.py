"""The checks of one scenario: a function for each expectation verb, in a module for each family; `CHECKS` has them all."""

import sys

from conformance import counterparts
from conformance.judge.expectations.check import CHECKS
from conformance.scenarios.expectations import VERBS

__all__ = ["CHECKS"]

counterparts.load(sys.modules[__name__])
counterparts.match(
    "expectation", VERBS, "conformance/scenarios/expectations.py", CHECKS, "conformance/judge/expectations/"
)
