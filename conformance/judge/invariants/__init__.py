"""The checks of invariants, in a module for each subject; importing the package registers them all."""

import sys

from conformance import registry
from conformance.invariants import INVARIANTS
from conformance.judge.checks import INVARIANT_CHECKS

__all__ = ["INVARIANT_CHECKS"]

registry.import_submodules(sys.modules[__name__])
registry.check_counterparts(
    "invariant", INVARIANTS, "conformance/invariants.py", INVARIANT_CHECKS, "conformance/judge/invariants/"
)
