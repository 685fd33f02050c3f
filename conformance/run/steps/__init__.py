"""What each step verb does: a function for each verb, in a module for each family; `HANDLERS` has them all."""

import sys

from conformance import registry
from conformance.run.steps.handlers import HANDLERS
from conformance.scenarios.steps import ACTIONS

__all__ = ["HANDLERS"]

registry.import_submodules(sys.modules[__name__])
registry.check_counterparts("step", ACTIONS, "conformance/scenarios/steps/", HANDLERS, "conformance/run/steps/")
