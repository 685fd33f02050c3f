"""The handlers of all step verbs (`HANDLERS`), in a module for each module of `conformance.scenarios.steps`."""

import sys

from conformance import registry
from conformance.run.steps.handlers import HANDLERS
from conformance.scenarios.steps import ACTIONS

__all__ = ["HANDLERS"]

registry.import_submodules(sys.modules[__name__])
registry.check_counterparts("step", ACTIONS, "conformance/scenarios/steps/", HANDLERS, "conformance/run/steps/")
