"""Why a program cannot be moved in time. It is a fact about the program and this machine, never a failure of either."""


class CannotShift(Exception):
    """The shifted clock does not reach a program: what was looked at does not apply to it. The text says why."""
