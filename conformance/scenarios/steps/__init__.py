"""The models of steps, one for each verb; `ACTIONS` has all of them. `conformance.run.steps` implements them."""

import sys

from conformance import registry
from conformance.scenarios.steps.action import ACTIONS

__all__ = ["ACTIONS"]

registry.import_submodules(sys.modules[__name__])
