"""The drain of a random plan lasts long enough for each combination of its parameters."""

import random
from collections.abc import Mapping

import pytest

from conformance.explore.grammar import MOST_ROUNDS, Bias
from conformance.explore.peace import drain_bound, most_rounds
from conformance.explore.random_plans import draw_affordable_scene
from conformance.explore.scenes import Scene, draw_scene
from conformance.explore.sweep import as_step
from conformance.scenarios.steps.action import Step
from conformance.scenarios.steps.nodes import Configure
from conformance.topology import Topology

TOPOLOGY = Topology.model_validate({"name": "one", "servers": [{"name": "mbx1", "site": "NewYork"}]})


def bound(*changes: Mapping[str, object]) -> float:
    """Return the bound of a plan that changes parameters one after the other."""
    return drain_bound(TOPOLOGY, steps_of(*changes))


def steps_of(*changes: Mapping[str, object]) -> tuple[Step, ...]:
    """Return steps that change parameters one after the other."""
    return tuple(as_step(Configure.model_validate({"node": "mbx1", "transport": transport})) for transport in changes)


def rounds_in(scene: Scene) -> float:
    """Return how often a server may do the same in a plan of this scene."""
    return most_rounds(scene.topology, tuple(as_step(action) for _, action in scene.actions), scene.end)


def test_changes_of_several_steps_count_together() -> None:
    timeout, retries = {"ShadowHeartbeatTimeoutInterval": "2h"}, {"ShadowHeartbeatRetryCount": 100}
    assert bound(timeout, retries) == bound({**timeout, **retries}) > 2 * 7200 * 100
    assert bound(timeout, {"ShadowHeartbeatTimeoutInterval": "1s"}) == bound(timeout) > bound()
    span, heartbeat, retry = (
        {"ShadowResubmitTimeSpan": "9d"},
        {"ShadowHeartbeatFrequency": "2d"},
        {"MessageRetryInterval": "1d"},
    )
    more = bound(span, heartbeat, retry) - bound(span)
    assert more == bound({**span, **heartbeat, **retry}) - bound(span)
    assert more == bound(span, heartbeat) - bound(span) + bound(span, retry) - bound(span)
    assert bound(span, heartbeat) > bound(span) > bound()
    assert bound(span, retry) > bound(span)


@pytest.mark.parametrize("name", ["ShadowHeartbeatFrequency", "ShadowResubmitTimeSpan", "MessageRetryInterval"])
def test_the_shortest_interval_that_ever_holds_decides_how_often_a_server_does_the_same(name: str) -> None:
    short, long = {name: "7s"}, {name: "9d"}
    for changes in ([short], [short, long], [long, short]):
        assert most_rounds(TOPOLOGY, steps_of(*changes), 700) == (700 + bound(*changes)) / 7
    assert most_rounds(TOPOLOGY, (), 0) == bound() / 60, "MessageRetryInterval is the shortest by default"


def test_scenes_in_which_a_server_may_do_the_same_too_often_are_drawn_anew_and_the_others_kept() -> None:
    replaced = 0
    for number in range(100):
        first = draw_scene(random.Random(number), Bias())
        scene = draw_affordable_scene(random.Random(number), Bias())
        assert rounds_in(scene) <= MOST_ROUNDS
        if rounds_in(first) <= MOST_ROUNDS:
            assert scene == first
        else:
            replaced += 1
    assert replaced, "no scene of these seeds had to be drawn anew"
