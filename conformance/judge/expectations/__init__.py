"""The checks of expectations, in a module for each family of verbs; importing the package registers them all."""

import sys

from conformance import registry
from conformance.judge.checks import EXPECTATION_CHECKS
from conformance.scenarios.expectations import EXPECTATIONS

__all__ = ["EXPECTATION_CHECKS"]

registry.import_submodules(sys.modules[__name__])
registry.check_counterparts(
    "expectation",
    EXPECTATIONS,
    "conformance/scenarios/expectations.py",
    EXPECTATION_CHECKS,
    "conformance/judge/expectations/",
)
