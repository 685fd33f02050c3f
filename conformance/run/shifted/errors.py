"""Why a program cannot be moved in time. It is a fact about the program and this machine, never a failure of either."""

from conformance.run.virtual.errors import ClockError


class CannotShift(Exception):
    """The shifted clock does not reach a program: what was looked at does not apply to it. The text says why."""


class Awake(ClockError):
    """Time could not jump for a minute, since programs never came to rest. The text says which."""


class Unmoved(ClockError):
    """A program that runs has asked for something that the shifted clock does not move. The text says for what."""
