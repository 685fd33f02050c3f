"""What a supervisor knows of a node: whether it is paused, and whether a second process can take over, and with which ports."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.lookup import find_candidate
from conformance.history.events import Delivered, NodeEvent, StepEvent
from conformance.history.recorder import Recorder
from conformance.judge.incremental import IncrementalJudge
from conformance.nodes.contract import NodeError, WrongNodeState
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.configuration_changes import ConfigurationChanges
from conformance.run.node_supervisor import NodeSupervisor
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_corpus
from conformance.shortage import ResourceMonitor


class FakeNode:
    """A node without a process. `failure` says why it ended on its own; `refusal` why it does not start; `read` its configurations."""

    name = "mbx1"
    oom_kills = 0

    def __init__(self, refusal: str = "") -> None:
        self.failure: str | None = None
        self.refusal = refusal
        self.was_paused = self.was_killed = False
        self.read: list[object] = []

    async def start(self, configuration: object) -> None:
        self.read.append(configuration)
        if self.refusal:
            raise NodeError(self.name, "start", self.refusal)

    async def stop(self) -> int:
        return 0

    async def pause(self) -> None:
        self.was_paused = True

    async def reload(self, configuration: object) -> None:
        self.read.append(configuration)

    async def kill(self) -> None:
        self.was_killed = True


class Processes:
    """The supervisor of `first`, in which `start_another` starts other nodes; what is recorded, and how often links were turned."""

    def __init__(self, first: FakeNode, directory: Path) -> None:
        self.turns = 0
        untyped: Any = first
        self._recorder = Recorder(SimpleNamespace(elapsed=lambda: 0.0))
        render: Any = lambda changes: {"port of": "first", **changes.transport}  # noqa: E731
        self.supervisor = NodeSupervisor(untyped, render, self._recorder, ResourceMonitor(directory))

    async def start_another(self, node: FakeNode) -> str:
        untyped: Any = node
        make = untyped, lambda changes: {"port of": "another", **changes.transport}
        return await self.supervisor.start_another(lambda: make, self._turn)

    def _turn(self) -> None:
        self.turns += 1

    @property
    def actions(self) -> list[str]:
        return [event.action for event in self._recorder.events if isinstance(event, NodeEvent)]


def supervisor_of(node: FakeNode, directory: Path) -> NodeSupervisor:
    return Processes(node, directory).supervisor


@pytest.mark.parametrize("end", ["stop", "kill", "on its own"])
def test_a_paused_node_that_ended_is_not_paused_any_more(end: str, tmp_path: Path) -> None:
    async def scene() -> None:
        node = FakeNode()
        supervisor = supervisor_of(node, tmp_path)
        await supervisor.start()
        await supervisor.pause()
        assert supervisor.is_paused
        if end == "on its own":
            node.failure = "exited with code 3"
            supervisor.record_failure()
        else:
            await (supervisor.stop() if end == "stop" else supervisor.kill())
        assert (supervisor.is_running, supervisor.is_paused) == (False, False)

    asyncio.run(scene())


def test_the_process_that_takes_over_is_not_paused_with_the_first(tmp_path: Path) -> None:
    async def scene() -> None:
        processes = Processes(first := FakeNode(), tmp_path)
        supervisor = processes.supervisor
        await supervisor.start()
        other: Any = FakeNode()
        await processes.start_another(other)
        await supervisor.pause()
        assert (supervisor.is_paused, first.was_paused, other.was_paused) == (True, True, False)
        assert await supervisor.kill_one() == "the other process goes on"
        assert (supervisor.node is other, supervisor.is_running, supervisor.is_paused) == (True, True, False)
        assert (first.was_killed, processes.turns) == (True, 1)

    asyncio.run(scene())


def test_a_second_process_that_was_refused_cannot_take_over(tmp_path: Path) -> None:
    async def scene() -> None:
        first: Any = FakeNode()
        processes = Processes(first, tmp_path)
        supervisor = processes.supervisor
        await supervisor.start()
        assert "the queue is locked" in await processes.start_another(FakeNode(refusal="the queue is locked"))
        assert not supervisor.has_another
        assert await supervisor.kill_one() == "started again"
        assert (supervisor.node, processes.turns) == (first, 0)
        other: Any = FakeNode()
        await processes.start_another(other)
        assert supervisor.has_another
        await supervisor.kill_one()
        assert (supervisor.node, supervisor.has_another) == (other, False)

    asyncio.run(scene())


def test_the_process_that_took_over_is_started_and_configured_with_its_own_ports(tmp_path: Path) -> None:
    async def scene() -> None:
        processes = Processes(FakeNode(), tmp_path)
        supervisor = processes.supervisor
        await supervisor.start()
        await processes.start_another(other := FakeNode())
        await supervisor.kill_one()
        await supervisor.reconfigure(ConfigurationChanges({"A": 1}))
        await supervisor.kill()
        await supervisor.start()
        assert other.read[1:] == [{"port of": "another", "A": 1}] * 2

    asyncio.run(scene())


@pytest.mark.parametrize("has_taken_over", [False, True])
def test_a_second_process_is_not_started_while_an_earlier_one_runs(has_taken_over: bool, tmp_path: Path) -> None:
    async def scene() -> None:
        processes = Processes(FakeNode(), tmp_path)
        supervisor = processes.supervisor
        await supervisor.start()
        await processes.start_another(other := FakeNode())
        if has_taken_over:
            await supervisor.kill_one()
        with pytest.raises(WrongNodeState, match="the process of an earlier start-another still runs"):
            await supervisor.start_another(lambda: pytest.fail("it was made"), lambda: None)
        await supervisor.kill()
        assert other.was_killed

    asyncio.run(scene())


def test_both_processes_read_a_changed_configuration_each_with_its_own_ports(tmp_path: Path) -> None:
    async def scene() -> None:
        processes = Processes(first := FakeNode(), tmp_path)
        await processes.supervisor.start()
        await processes.start_another(other := FakeNode())
        assert await processes.supervisor.reconfigure(ConfigurationChanges({"A": 1}))
        assert (first.read[1:], other.read[1:]) == (
            [{"port of": "first", "A": 1}],
            [{"port of": "another", "A": 1}],
        )
        other.failure = "exited with code 3"
        assert await processes.supervisor.reconfigure(ConfigurationChanges({"A": 2}))
        assert (len(first.read), len(other.read)) == (3, 2)
        assert processes.actions == ["started", "ready", "reloaded", "reloaded"]

    asyncio.run(scene())


def test_the_second_process_takes_over_when_the_first_ends_on_its_own(tmp_path: Path) -> None:
    async def scene() -> None:
        processes = Processes(first := FakeNode(), tmp_path)
        supervisor = processes.supervisor
        await supervisor.start()
        other: Any = FakeNode()
        await processes.start_another(other)
        first.failure = "exited with code 3"
        for refused in (supervisor.wipe(), supervisor.start()):
            with pytest.raises(WrongNodeState, match="the node is running"):
                await refused
        assert (supervisor.node is other, supervisor.is_running, processes.turns) == (True, True, 1)
        assert processes.actions == ["started", "ready", "exited", "ready"]
        other.failure = "exited with code 4"
        supervisor.record_failure()
        assert (supervisor.is_running, processes.actions[4:]) == (False, ["exited"])

    asyncio.run(scene())


def test_a_second_process_that_has_ended_on_its_own_does_not_take_over(tmp_path: Path) -> None:
    async def scene() -> None:
        first: Any = FakeNode()
        processes = Processes(first, tmp_path)
        await processes.supervisor.start()
        await processes.start_another(other := FakeNode())
        other.failure = "it found a lock"
        assert await processes.supervisor.kill_one() == "started again"
        assert (processes.supervisor.node, processes.turns, len(first.read)) == (first, 0, 2)
        await processes.start_another(FakeNode())
        assert processes.supervisor.has_another

    asyncio.run(scene())


SCENARIO = """\
id: taken-over
title: The process that took over is started again
requirements: [RL-SHQ-02]
needs: [relay, queue]
topology: relay
drain: 30m
steps:
  - start-another: mta1
  - STEP: mta1
  - kill: mta1
  - start: mta1
  - send: {as: m, to: victor@outside.test, via: mta1}
"""


def run_cell(step: str, directory: Path) -> RecordedRun:
    """Run a cell in which this step follows `start-another`, with a server that lets two processes run."""
    (directory / "taken.scenario.yaml").write_text(SCENARIO.replace("STEP", step), "utf-8")
    (cell,) = read_corpus([directory / "taken.scenario.yaml"], paths.fixtures())[0].cells("smoke")
    assignment = Assignment(find_candidate("reference+runs-twice-on-one-queue", Path()))
    runner = CellRunner(cell, assignment, Settings(clock="virtual"), directory / "cell", IncrementalJudge())
    return run_without_loop(runner.run(OWN_LOOP))


def test_links_reach_a_server_that_was_started_again_after_a_takeover(tmp_path: Path) -> None:
    done = run_cell("kill-one", tmp_path)
    assert (done.problem, done.wrong_state) == ("", "")
    details = [event.detail for event in done.events if isinstance(event, StepEvent) and event.phase == "ended"]
    assert details[:2] == ["two processes run", "the other process goes on"]
    assert any(isinstance(event, Delivered) for event in done.events)


def test_a_scenario_that_starts_three_processes_finds_the_server_in_a_wrong_state(tmp_path: Path) -> None:
    done = run_cell("start-another", tmp_path)
    assert done.complete
    assert done.wrong_state == "mta1: start-another: the process of an earlier start-another still runs"
