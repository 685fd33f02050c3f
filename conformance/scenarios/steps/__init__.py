"""What a scenario can do: one closed model for each step verb, in the module of its kind; `ACTIONS` has them all.

`conformance.run.steps` does them, in modules of like names.
"""

import sys

from conformance import registry
from conformance.scenarios.steps.action import ACTIONS

__all__ = ["ACTIONS"]

registry.import_submodules(sys.modules[__name__])
