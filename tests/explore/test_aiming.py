"""Faults are aimed at moments at which a fault can be armed."""

import random

import pytest

from conformance.explore import grammar
from conformance.explore.aiming import Aim
from conformance.explore.scenes import Scene
from conformance.scenarios.steps.breaking import Fault, Partition
from conformance.scenarios.steps.nodes import Kill, Moment
from conformance.topology import Topology
from tests.judge.history import History, Mail


@pytest.mark.parametrize("aimed", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_no_fault_is_aimed_at_a_session_before_the_first_step_but_at_one_after_it(before: bool, aimed: bool) -> None:
    servers = [{"name": name, "site": "NewYork"} for name in ("mbx1", "mbx2")]
    topology = Topology.model_validate({"name": "two", "servers": servers})
    history = History(topology)
    if before:
        history.close(history.connect("mbx2", "mbx1"))
    history.t = 60.0  # of a slow start
    history.step("began", "1", "send")
    if not before:
        history.close(history.connect("mbx2", "mbx1"))
    history.add_message(Mail("m"))
    history.transmit("mbx1", "mbx2", "m", shadow="s1")
    history.final("mbx1", "mbx2", 250)
    history.step("ended", "1", "send")
    scene = Scene(topology, (), 60.0, frozenset(grammar.FEATURES))
    links, cuts = set(), set()
    for seed in range(60):
        aim = Aim(random.Random(seed), scene, history.events, grammar.Bias(aimed=aimed))  # noqa: S311
        actions = [insertion.action for one in aim.draw(["f1", "f2"]) for insertion in one.insertions]
        aims = [action.at if isinstance(action, Kill) else action for action in actions]
        links |= {(one.sender, one.to) for one in aims if isinstance(one, Fault | Moment)}
        cuts |= {tuple(end for (end,) in one.between) for one in aims if isinstance(one, Partition)}
    assert links == cuts == {("mbx1", "mbx2")} | (set() if before else {("mbx2", "mbx1")})
