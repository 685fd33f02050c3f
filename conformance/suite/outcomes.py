"""How a verdict ends a test: only a violation is an assertion's failure; what could not be judged is something else."""

import pytest

from conformance.verdicts import Outcome


class ConformanceFailure(AssertionError):
    """A requirement is violated. The text is the whole failure, written for a stranger."""


class InconclusiveCell(Exception):
    """The cell could not be judged."""


class BrokenCell(Exception):
    """The harness, or the scenario itself, is at fault."""


def raise_for(outcome: Outcome, text: str) -> None:
    """End a test as its cell ended; returns only for a pass."""
    match outcome:
        case Outcome.FAIL:
            raise ConformanceFailure(text)
        case Outcome.INCONCLUSIVE:
            raise InconclusiveCell(text)
        case Outcome.ERROR:
            raise BrokenCell(text)
        case Outcome.NOT_APPLICABLE:
            pytest.skip(text)
        case Outcome.PASS:
            return
