"""Time that passes, and what is waited for."""

from conformance.scenarios.steps.action import Action
from conformance.scenarios.values import Duration


class Await(Action):
    """Wait until the background sends of these messages have ended."""

    short = "of"
    of: str


class Advance(Action):
    """Let time pass."""

    short = "by"
    by: Duration
