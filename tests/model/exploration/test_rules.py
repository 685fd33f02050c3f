"""Each rule matters: without it the number of states or the ways to lose or duplicate a message are different."""

from functools import cache

import pytest

from conformance.model.exploration.causes import find_ways, outcome_of
from conformance.model.exploration.failures import essential_causes
from conformance.model.exploration.rules import RULES
from conformance.model.exploration.scope import Scope
from conformance.model.exploration.search import Model
from conformance.model.exploration.server_rules import SERVER_RULES
from conformance.model.exploration.state import Sender
from conformance.requirements.catalogue import catalogue
from tests.model.exploration.reachable import can_reach, mailbox_scope, reachable

SCOPES = (
    Scope("replies", "", "ex2013", 2, ("outside",), crashes=1, databases=1, replies=1),
    Scope("refusals", "", "ex2013", 2, ("outside",), crashes=1, databases=1, refusals=1, mandatory=True),
    Scope("cuts", "", "ex2013", 2, ("outside",), crashes=1, databases=1, cuts=1),
    Scope("failover", "", "ex2013", 2, ("mailbox",), crashes=1, failovers=1),
    Scope("hubs", "", "ex2010", 3, ("outside",), crashes=1, databases=1, next_hops=((1, 2), (), ())),
    Scope("edge", "", "ex2010", 2, ("mailbox",), crashes=1, databases=1, replies=1, next_hops=((1,), ())),
)


@cache
def found(scope: Scope, without: str = "") -> tuple[int, frozenset[tuple[str, frozenset[str]]]]:
    """Return the number of states and the ways, without one rule."""
    model = Model(scope, frozenset({without}))
    return model.size().states, frozenset((way.outcome, essential_causes(way.causes)) for way in find_ways(model))


@pytest.mark.long
@pytest.mark.parametrize("name", [*RULES, *SERVER_RULES])
def test_without_a_rule_something_else_is_found(name: str):
    generations = RULES[name].generations if name in RULES else ("ex2010", "ex2013")
    assert any(found(scope, name) != found(scope) for scope in SCOPES if scope.generation in generations)


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("promote_for_new_database", mailbox_scope("outside", crashes=1, databases=1)),
        ("resubmit_for_new_database", SCOPES[-1]),
        ("restart", mailbox_scope("outside", crashes=2)),
        ("deliver", mailbox_scope("outside")),
    ],
)
def test_without_a_rule_that_protects_an_acknowledged_message_waits_for_ever(name: str, scope: Scope):
    assert not waiting_for_ever(scope)
    assert waiting_for_ever(scope, name)


def waiting_for_ever(scope: Scope, without: str = "") -> set[int]:
    """Return the states in which an acknowledged message cannot arrive any more, and is not lost."""
    model = Model(scope, frozenset({without}))
    after = reachable(model)
    decided = {s for s in after if model.messages(s)[0].arrived or outcome_of(model.messages(s)[0]) == "lost"}
    acknowledged = {s for s in after if model.messages(s)[0].sender == Sender.ANSWERED}
    return acknowledged - can_reach(after, decided)


def test_no_row_is_named_that_the_catalogue_does_not_have():
    named = {row for entry in RULES.values() for row in entry.rows} | {
        r for rows, _ in SERVER_RULES.values() for r in rows
    }
    assert set() < named <= {row.id for row in catalogue().requirements}
