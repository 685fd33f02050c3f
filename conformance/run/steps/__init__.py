"""What each step verb does: a function for each verb, in a module for each family; `HANDLERS` has them all."""

from conformance.registry import complete
from conformance.run.steps.doing import HANDLERS
from conformance.scenarios.steps import ACTIONS

__all__ = ["HANDLERS"]

complete(HANDLERS, __name__, ACTIONS)
