"""A configuration that is offered to a node that is down is recorded when the node reads it, at its next start."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.lookup import find_candidate
from conformance.history.events import AnyEvent, Configured, NodeEvent, StepEvent
from conformance.history.recorder import Recorder
from conformance.judge.incremental import IncrementalJudge
from conformance.model.parameter_changes import ParameterChanges
from conformance.nodes.contract import ConfigurationRefused, NodeError
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.configuration_changes import ConfigurationChanges
from conformance.run.node_supervisor import NodeSupervisor
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_corpus
from conformance.shortage import ResourceMonitor
from conformance.trace.context import CheckContext
from conformance.trace.trace import Trace


def _as_read(changes: ConfigurationChanges) -> tuple[Any, ...]:
    """Return what a configuration is made from."""
    return changes.transport, changes.listeners, changes.unknown


class Supervised:
    """A supervised node without a program; `read` are the configurations that it was started with or reloaded."""

    def __init__(self, directory: Path) -> None:
        self.read: list[tuple[Any, ...]] = []
        self.start_error: NodeError | None = None
        self.recorder = Recorder(SimpleNamespace(elapsed=lambda: 0.0))
        node: Any = SimpleNamespace(
            name="mbx1", failure=None, oom_kills=0, start=self._start, reload=self._reload, kill=self._kill
        )
        self.supervisor = NodeSupervisor(node, _as_read, self.recorder, ResourceMonitor(directory))  # type: ignore[arg-type]

    @property
    def recorded(self) -> list[Any]:
        """What was recorded: an action of the node, or the changes of a configuration."""
        return [
            event.changes if isinstance(event, Configured) else event.action
            for event in self.recorder.events
            if isinstance(event, Configured | NodeEvent)
        ]

    async def _start(self, configuration: Any) -> None:
        self.read.append(configuration)
        if self.start_error is not None:
            raise self.start_error

    async def _reload(self, configuration: Any) -> None:
        self.read.append(configuration)

    async def _kill(self) -> None:
        pass


def test_what_a_node_reads_at_its_start_is_recorded_then_and_without_what_it_never_read(tmp_path: Path):
    async def steps() -> Supervised:
        it = Supervised(tmp_path)
        await it.supervisor.start()
        await it.supervisor.kill()
        await it.supervisor.reconfigure(
            ConfigurationChanges({"A": 1, "B": 1}, {"frontend": {"x": 1}}, unknown={"even": 1})
        )
        await it.supervisor.reconfigure(ConfigurationChanges({"A": 2}, {"frontend": {"y": 2}}, unknown={"odd": True}))
        assert it.recorded == ["started", "ready", "killed"]
        await it.supervisor.start()
        await it.supervisor.kill()
        await it.supervisor.start()
        return it

    it = asyncio.run(steps())
    unknown = {"even": 1, "odd": True}
    offered = {"A": 2, "B": 1, "listeners.frontend": {"x": 1, "y": 2}, **unknown}
    assert it.recorded == ["started", "ready", "killed", offered, "started", "ready", "killed", "started", "ready"]
    transport, listeners = {"A": 2, "B": 1}, {"frontend": {"x": 1, "y": 2}}
    assert it.read[1:] == [(transport, listeners, unknown), (transport, listeners, {})]


@pytest.mark.parametrize("error", [ConfigurationRefused, NodeError])
def test_parameters_that_a_start_did_not_take_are_offered_again_at_the_next_and_unknown_keys_are_not(
    tmp_path: Path, error: type[NodeError]
):
    async def steps() -> Supervised:
        it = Supervised(tmp_path)
        await it.supervisor.reconfigure(ConfigurationChanges({"A": 1}, {"frontend": {"x": 1}}, unknown={"odd": True}))
        it.start_error = error("mbx1", "start", "no")
        with pytest.raises(error):
            await it.supervisor.start()
        it.start_error = None
        await it.supervisor.start()
        return it

    it = asyncio.run(steps())
    ended = "refused" if error is ConfigurationRefused else "failed"
    offered, listeners = {"A": 1, "listeners.frontend": {"x": 1}}, {"frontend": {"x": 1}}
    assert it.recorded == [{**offered, "odd": True}, "started", ended, offered, "started", "ready"]
    assert it.read == [({"A": 1}, listeners, {"odd": True}), ({"A": 1}, listeners, {})]


def test_a_node_that_ended_on_its_own_is_down_and_reads_the_configuration_at_its_next_start(tmp_path: Path):
    async def steps() -> Supervised:
        it = Supervised(tmp_path)
        await it.supervisor.start()
        assert await it.supervisor.reconfigure(ConfigurationChanges({"A": 1})), "it runs, and reads it at once"
        it.supervisor.node.failure = "it exited"  # type: ignore[misc]
        assert not await it.supervisor.reconfigure(ConfigurationChanges({"A": 2}))
        assert (it.recorded, len(it.read)) == (["started", "ready", "reloaded", "exited"], 2)
        assert not it.supervisor.is_running
        it.supervisor.node.failure = None  # type: ignore[misc]
        await it.supervisor.start()
        return it

    it = asyncio.run(steps())
    assert it.recorded[4:] == [{"A": 2}, "started", "ready"]
    assert it.read == [({}, {}, {}), ({"A": 1}, {}, {}), ({"A": 2}, {}, {})]


SCENARIO = """\
id: configured-while-down
title: A server that is down reads its configuration when it starts
requirements: [SR-CFG-03]
needs: [shadow-2013]
topology: two-servers-one-dag
drain: 1m
steps:
  - configure: {node: mbx1, transport: {ShadowHeartbeatFrequency: 100}}
  - kill: mbx1
  - configure: {node: mbx1, transport: {ShadowRedundancyEnabled: no, ShadowHeartbeatFrequency: 200}}
  - configure: {node: all, transport: {ShadowRedundancyEnabled: yes}}
  - advance: {by: 1m}
  - start: mbx1
  - configure: {node: mbx2, transport: {ShadowHeartbeatFrequency: 300}}
"""


def test_a_parameter_has_its_new_value_from_the_start_on(tmp_path: Path):
    (tmp_path / "down.scenario.yaml").write_text(SCENARIO, "utf-8")
    (cell,) = read_corpus([tmp_path / "down.scenario.yaml"], paths.fixtures())[0].cells("smoke")
    assignment = Assignment(find_candidate("reference", Path()))
    runner = CellRunner(cell, assignment, Settings(clock="virtual"), tmp_path / "cell", IncrementalJudge())
    done = run_without_loop(runner.run(OWN_LOOP))
    assert (done.problem, done.wrong_state) == ("", "")
    events: list[AnyEvent] = [e for e in done.events if getattr(e, "node", "mbx1") == "mbx1"]
    offers = [event for event in events if isinstance(event, Configured)]
    assert [offer.changes for offer in offers] == [
        {"ShadowHeartbeatFrequency": 100},
        {"ShadowHeartbeatFrequency": 200, "ShadowRedundancyEnabled": True},
    ]
    started = next(event for event in events if event.n > offers[1].n)
    assert isinstance(started, NodeEvent)
    assert started.action == "started"
    details = [e.detail for e in events if isinstance(e, StepEvent) and (e.verb, e.phase) == ("configure", "ended")]
    assert details == ["", "mbx1 reads it when it starts", "mbx1 reads it when it starts", ""]

    changes = ParameterChanges(CheckContext(cell, Trace(done.events)))
    down = next(event.n for event in events if isinstance(event, NodeEvent) and event.action == "killed")
    assert changes.possible_values("mbx1", "ShadowHeartbeatFrequency", down, offers[1].n - 1) == [100]
    assert changes.possible_values("mbx1", "ShadowHeartbeatFrequency", offers[1].n + 1, done.events[-1].n) == [200]
    assert changes.possible_values("mbx1", "ShadowRedundancyEnabled", -1, done.events[-1].n) == [True, True]
