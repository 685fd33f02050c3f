"""The program in this process: what a failed reload leads to."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from conformance.nodes.configuration import Wiring, render
from conformance.nodes.places import PortLeases
from conformance.reference.config import ConfigurationError
from conformance.reference.main import _serve
from conformance.reference.node import Node, create
from conformance.reference.storage.database import DatabaseError
from conformance.reference.timers import SystemClock
from conformance.scenarios.fixtures import load_topology
from tests.reference.hosts import NO_LISTENER, TOPOLOGIES


@pytest.mark.parametrize(("error", "code"), [(DatabaseError("could not commit"), 1), (ConfigurationError("wrong"), 0)])
def test_a_reload_that_fails_ends_the_node_and_one_that_is_refused_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
):
    topology = load_topology(TOPOLOGIES / "single-server.yaml")
    leases = PortLeases()
    wiring = Wiring(listen=lambda server, door: ("127.0.0.1", leases.lease()), dial=lambda *pair: NO_LISTENER)
    path = tmp_path / "node.json"
    path.write_text(
        json.dumps(render(topology, topology.servers[0], wiring, data_dir=tmp_path / "data", seed=1)), "utf-8"
    )

    at_first = signal.getsignal(signal.SIGHUP)  # SIG_IGN under nohup
    terminated: list[int] = []

    def terminate() -> None:
        terminated.append(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    async def fail(node: Node) -> None:
        if code == 0:  # the node goes on, so something else has to end it
            asyncio.get_running_loop().call_later(0.2, terminate)
        raise error

    async def serve() -> int:
        serving = asyncio.create_task(_serve(create(path, SystemClock())))
        while signal.getsignal(signal.SIGHUP) == at_first:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGHUP)
        return await serving

    monkeypatch.setattr(Node, "reload", fail)
    try:
        assert asyncio.run(serve()) == code
        assert terminated == ([signal.SIGTERM] if code == 0 else [])
    finally:
        leases.release()
        signal.signal(signal.SIGHUP, at_first)
