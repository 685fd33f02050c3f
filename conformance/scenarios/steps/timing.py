"""Steps that wait: for background sends, and for time to pass.

A class has the fields of one verb (`action`). `conformance.run.steps` has the function that does the step; the classes'
docstrings are published in docs/writing-scenarios.md.
"""

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
