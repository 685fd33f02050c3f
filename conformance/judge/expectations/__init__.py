"""The checks of one scenario: a function for each expectation verb, in a module for each family; `CHECKS` has them all."""

import sys

from conformance import registry
from conformance.judge.expectations.check import CHECKS
from conformance.scenarios.expectations import EXPECTATIONS

__all__ = ["CHECKS"]

registry.import_submodules(sys.modules[__name__])
registry.check_counterparts(
    "expectation", EXPECTATIONS, "conformance/scenarios/expectations.py", CHECKS, "conformance/judge/expectations/"
)
