"""The checks of every cell: a function for each invariant, in a module for each subject; `CHECKS` has them all."""

import sys

from conformance import registry
from conformance.invariants import INVARIANTS
from conformance.judge.invariants.check import CHECKS

__all__ = ["CHECKS"]

registry.import_submodules(sys.modules[__name__])
registry.check_counterparts(
    "invariant", INVARIANTS, "conformance/invariants.py", CHECKS, "conformance/judge/invariants/"
)
