"""What a supervisor knows of a node: whether it is paused, and whether a second process can take over."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.history.recorder import Recorder
from conformance.nodes.contract import NodeError
from conformance.run.node_supervisor import NodeSupervisor
from conformance.shortage import ResourceMonitor


class FakeNode:
    """A node without a process. `failure` says why it ended on its own; `refusal` why it does not start."""

    name = "mbx1"
    oom_kills = 0

    def __init__(self, refusal: str = "") -> None:
        self.failure: str | None = None
        self.refusal = refusal
        self.was_paused = False

    async def start(self, configuration: object) -> None:
        if self.refusal:
            raise NodeError(self.name, "start", self.refusal)

    async def stop(self) -> int:
        return 0

    async def pause(self) -> None:
        self.was_paused = True

    async def kill(self) -> None: ...


def supervisor_of(node: FakeNode, directory: Path) -> NodeSupervisor:
    recorder: Any = Recorder(SimpleNamespace(elapsed=lambda: 0.0))  # type: ignore[arg-type]
    untyped: Any = node
    return NodeSupervisor(untyped, lambda *changes: {}, recorder, ResourceMonitor(directory))


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
        supervisor = supervisor_of(first := FakeNode(), tmp_path)
        await supervisor.start()
        other: Any = FakeNode()
        await supervisor.start_another(other, lambda *changes: {})
        await supervisor.pause()
        assert (supervisor.is_paused, first.was_paused, other.was_paused) == (True, True, False)
        assert await supervisor.kill_one() == "the other process goes on"
        assert (supervisor.node is other, supervisor.is_running, supervisor.is_paused) == (True, True, False)

    asyncio.run(scene())


def test_a_second_process_that_was_refused_cannot_take_over(tmp_path: Path) -> None:
    async def scene() -> None:
        supervisor = supervisor_of(first := FakeNode(), tmp_path)
        await supervisor.start()
        refused: Any = FakeNode(refusal="the queue is locked")
        assert "the queue is locked" in await supervisor.start_another(refused, lambda *changes: {})
        assert not supervisor.has_another
        assert await supervisor.kill_one() == "started again"
        assert supervisor.node is first
        other: Any = FakeNode()
        await supervisor.start_another(other, lambda *changes: {})
        assert supervisor.has_another
        await supervisor.kill_one()
        assert (supervisor.node, supervisor.has_another) == (other, False)

    asyncio.run(scene())
