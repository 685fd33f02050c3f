"""Numbers of copies, as expectations ask for them."""

from conformance.scenarios.expectations import Copies


def within(copies: Copies, number: int) -> bool:
    """Whether a number is what was asked for."""
    return copies.min <= number and (copies.max is None or number <= copies.max)


def asked(copies: Copies) -> str:
    """Say how many were asked for."""
    if copies.max == copies.min:
        return str(copies.min)
    return f"at least {copies.min}" if copies.max is None else f"{copies.min} to {copies.max}"


def times(number: int) -> str:
    """Say how often: `once`, `3 times`."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")
