"""Each requirement is judged by a rule of the model, or a reason says why a history cannot show it."""

from conformance.model import RULES
from conformance.model.not_on_the_wire import NOT_ON_THE_WIRE
from conformance.requirements.catalogue import catalogue

JUDGED = {row for rule in RULES.values() for row in rule.requirements}


def test_each_requirement_has_a_rule_or_a_reason() -> None:
    rows = set(catalogue().ids)
    assert rows - JUDGED - NOT_ON_THE_WIRE.keys() == set()
    assert (JUDGED | NOT_ON_THE_WIRE.keys()) - rows == set()
    assert [row for row, reason in NOT_ON_THE_WIRE.items() if not reason.strip()] == []


def test_no_requirement_has_both() -> None:
    assert JUDGED
    assert NOT_ON_THE_WIRE
    assert JUDGED & NOT_ON_THE_WIRE.keys() == set()
