"""Steps that wait: for background sends, and for time to pass."""

from conformance.scenarios.name_types import MessageOrConversation
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import Duration


@step("await")
class Await(Action):
    """Wait until the background sends of these messages, or a background `talk`, have ended."""

    short = "of"
    of: MessageOrConversation


@step("advance")
class Advance(Action):
    """Let time pass."""

    short = "by"
    by: Duration
