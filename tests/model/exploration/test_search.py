"""The search visits every state once, and messages share servers and faults only."""

import pytest

from conformance.model.exploration.causes import outcome_of
from conformance.model.exploration.scope import Scope
from conformance.model.exploration.search import Model
from conformance.model.exploration.state import Copy, Sender
from tests.model.exploration.reachable import can_reach, mailbox_scope, reachable


def test_the_size_is_the_number_of_states_that_a_plain_search_finds():
    model = Model(mailbox_scope("mailbox", crashes=1, replies=1))
    after = reachable(model)
    assert model.size().states == len(after)
    assert model.size().moves == sum(map(len, after.values()))


@pytest.mark.parametrize(
    "scope",
    [
        mailbox_scope("outside"),
        mailbox_scope("mailbox", servers=3),
        Scope("test", "test", "ex2010", 3, ("outside",), next_hops=((1, 2), (), ())),
    ],
    ids=["outside", "mailbox", "hubs"],
)
def test_without_faults_a_message_arrives_once_and_every_state_can_come_to_that(scope: Scope):
    model = Model(scope)
    after = reachable(model)
    arrived = {s for s in after if (m := model.messages(s)[0]).arrived and m.sender == Sender.ANSWERED}
    assert can_reach(after, arrived) == set(after)
    assert all(model.messages(state)[0].arrived < 2 for state in after)


@pytest.mark.long
def test_a_second_message_adds_no_state_to_the_first():
    faults = {"crashes": 1, "databases": 1, "replies": 1}
    one, two = (Model(mailbox_scope(*messages, **faults)) for messages in (["outside"], ["outside", "outside"]))
    alone = {one.messages(state)[0] for state in reachable(one)}
    for position in (0, 1):
        assert {two.messages(state)[position] for state in reachable(two)} == alone


@pytest.mark.parametrize(
    ("scope", "copies"),
    [
        (mailbox_scope("mailbox", crashes=1, replies=1), {Copy.RECEIVED}),
        (
            Scope("test", "test", "ex2010", 2, ("outside",), crashes=1, replies=1, next_hops=((1,), ())),
            {Copy.RECEIVED, Copy.HANDED_ON},
        ),
    ],
    ids=["mailbox-servers", "edge-and-hub"],
)
def test_exactly_one_custody_waits_for_the_answer_to_a_waiting_sender(scope: Scope, copies: set[Copy]):
    model = Model(scope)
    seen: set[tuple[Sender, Copy]] = set()
    for state in reachable(model):
        message = model.messages(state)[0]
        waiting = [c.copy for c in message.custodies if c.copy in (Copy.RECEIVED, Copy.HANDED_ON)]
        assert len(waiting) == (message.sender in (Sender.WAITS, Sender.WAITS_AGAIN))
        seen |= {(message.sender, copy) for copy in waiting}
    assert seen == {(sender, copy) for sender in (Sender.WAITS, Sender.WAITS_AGAIN) for copy in copies}


@pytest.mark.parametrize(
    "scope",
    [
        mailbox_scope("outside", crashes=2, databases=2),
        mailbox_scope("mailbox", crashes=1, databases=1, cuts=1),
        mailbox_scope("mailbox", failovers=1),
        Scope("test", "test", "ex2010", 2, ("outside",), crashes=2, databases=2, next_hops=((1,), ())),
    ],
    ids=["two-disks", "one-disk", "failover", "edge-and-hub"],
)
def test_lost_means_that_no_continuation_delivers_it(scope: Scope):
    model = Model(scope)
    after = reachable(model)
    arrived = {state for state in after if model.messages(state)[0].arrived}
    hopeful = can_reach(after, arrived)
    lost = {state for state in after if outcome_of(model.messages(state)[0]) == "lost"}
    assert lost
    assert not lost & hopeful
    acknowledged = {s for s in after if model.messages(s)[0].sender == Sender.ANSWERED}
    assert can_reach(after, arrived | lost) >= acknowledged
