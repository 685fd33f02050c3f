"""The drain of a random plan lasts long enough for each combination of its parameters."""

from conformance.explore.peace import drain_bound
from conformance.explore.sweep import as_step
from conformance.scenarios.steps.nodes import Configure
from conformance.topology import Topology


def bound(*changes: dict[str, object]) -> float:
    """Return the bound of a plan that changes parameters one after the other."""
    topology = Topology.model_validate({"name": "one", "servers": [{"name": "mbx1", "site": "NewYork"}]})
    steps = (as_step(Configure.model_validate({"node": "mbx1", "transport": transport})) for transport in changes)
    return drain_bound(topology, tuple(steps))


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
