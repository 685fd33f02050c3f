"""The checks of every cell: a function for each invariant, in a module for each subject; `CHECKS` has them all."""

import sys

from conformance import counterparts
from conformance.invariants import INVARIANTS
from conformance.judge.invariants.check import CHECKS

__all__ = ["CHECKS"]

counterparts.load(sys.modules[__name__])
counterparts.match("invariant", INVARIANTS, "conformance/invariants.py", CHECKS, "conformance/judge/invariants/")
