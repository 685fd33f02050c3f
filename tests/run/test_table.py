"""Every verb of the language has somebody who does it."""

from conformance.run.steps.table import HANDLERS
from conformance.scenarios.steps.table import ACTIONS


def test_every_plain_verb_has_a_handler():
    assert set(HANDLERS) == set(ACTIONS.values())
