"""Dials that faults held back."""

from conformance import paths
from conformance.history.events import FaultFired
from conformance.scenarios.fixtures import load_topology
from conformance.trace.dials import ends_and_held_dials, find_dials
from conformance.trace.trace import Trace
from tests.judge.history import History

TOPOLOGY = load_topology(paths.fixtures() / "topologies" / "two-servers-one-dag.yaml")


def test_a_held_connection_is_a_dial_and_the_trouble_of_a_disk_is_none() -> None:
    history = History(TOPOLOGY)
    held = history.add(FaultFired, fault="f", action="stall", client="mbx1", server="mbx2", detail="")
    within = {"session": "s1", "client": "mbx1", "server": "mbx2"}
    history.add(FaultFired, fault="f", action="stall", **within, detail="a session that is open already")
    history.add(FaultFired, fault="d", action="disk-full", client="mbx1", server="mbx1", detail="a write failed")
    trace = Trace(history.events)
    assert find_dials(trace).without_end == (held,)
    assert {pair: dials for pair, (_, dials) in ends_and_held_dials(trace).items()} == {("mbx1", "mbx2"): [held]}
