"""Time that passes, and what is waited for."""

from conformance.scenarios.name_types import MessageOrConversation
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import Duration


@step("await")
class Await(Action):
    """Wait until the background sends of these messages have ended."""

    short = "of"
    of: MessageOrConversation


@step("advance")
class Advance(Action):
    """Let time pass."""

    short = "by"
    by: Duration
