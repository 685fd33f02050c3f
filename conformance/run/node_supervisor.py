"""The supervisor of one node: what it was told last, whether it is up, and its life in the history."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from conformance.history.events import Inspected, NodeEvent
from conformance.history.recorder import Recorder
from conformance.nodes.contract import CannotRestart, ConfigurationRefused, Node, NodeError, Unsupported, WrongNodeState
from conformance.shortage import ResourceMonitor, exceeded_own_limit

Render = Callable[[Mapping[str, Any], Mapping[str, Mapping[str, Any]], Mapping[str, Any]], dict[str, Any]]
"""(transport changes, listener changes, unknown keys) -> the node's configuration as of now."""


class NodeSupervisor:
    """Starts and ends a node, and records it.

    Raises NodeError when the node does not do its part, WrongNodeState when it is not up (or down) as a step needs it.
    Whoever does something to it that takes time holds `busy` meanwhile: what happens at a moment of the protocol and
    the steps of the scenario come one after another.
    """

    def __init__(self, node: Node, render: Render, recorder: Recorder, machine: ResourceMonitor) -> None:
        self.node = node
        self.lost = False
        """Whether it did not start again on its own queue: nothing brings it back."""
        self._machine = machine
        self._has_run = False
        self.busy = asyncio.Lock()
        self.up = False
        self.frozen = False
        self._render = render
        self._recorder = recorder
        self._transport: dict[str, Any] = {}
        self._listeners: dict[str, dict[str, Any]] = {}

    async def start(self) -> None:
        """Start on the data that is there and wait until it is ready.

        Raises CannotRestart when it has run on that data before, and does not start on it any more.
        """
        self._must_be(up=False, stage="start")
        self._note("started")
        try:
            await self.node.start(self._render(self._transport, self._listeners, {}))
        except ConfigurationRefused as error:
            self._note("refused", error.reason)
            raise
        except Unsupported:
            raise
        except NodeError as error:
            self._note("failed", error.reason)
            self._note_shortage(error.reason)
            if not self._has_run:
                raise
            self.lost = True
            raise CannotRestart(self.node.name, "start", error.reason, "on its own queue") from error
        self.up = self._has_run = True
        self._note("ready")

    async def stop(self) -> None:
        """Stop in an orderly way."""
        self._must_be(up=True, stage="stop")
        code = await self.node.stop()
        self.up = False
        self._note("stopped", f"exit code {code}")

    async def kill(self, detail: str = "") -> None:
        """Kill; recorded first, since what the node sends after its death was sent before it."""
        self._must_be(up=True, stage="kill")
        self._note("killed", detail)
        self.up = False
        self.frozen = False
        await self.node.kill()

    async def wipe(self) -> None:
        """Destroy the queue database."""
        self._must_be(up=False, stage="wipe")
        await self.node.wipe()
        self._has_run = self.lost = False
        self._note("wiped")

    async def pause(self) -> None:
        """Freeze."""
        self._must_be(up=True, stage="pause")
        await self.node.pause()
        self.frozen = True
        self._note("paused")

    async def resume(self) -> None:
        """Thaw."""
        self._must_be(up=True, stage="resume")
        await self.node.resume()
        self.frozen = False
        self._note("resumed")

    async def reconfigure(
        self,
        transport: Mapping[str, Any],
        listeners: Mapping[str, Mapping[str, Any]],
        unknown: Mapping[str, Any],
    ) -> None:
        """Offer changes; what was refused is not kept. A node that is down gets them when it starts."""
        new_transport = {**self._transport, **transport}
        doors = {*self._listeners, *listeners}
        new_listeners = {door: {**self._listeners.get(door, {}), **listeners.get(door, {})} for door in sorted(doors)}
        if self.up:
            await self.node.reload(self._render(new_transport, new_listeners, unknown))
            self._note("reloaded")
        self._transport, self._listeners = new_transport, new_listeners

    async def inspect(self) -> None:
        """Record what the node's `inspect` prints."""
        state = await self.node.command("inspect")
        self._recorder.record(Inspected, node=self.node.name, state=state)

    def note_failure(self) -> None:
        """Record that the node ended on its own, once."""
        if self.up and self.node.failure is not None:
            self.up = False
            self._note("exited", self.node.failure)
            self._note_shortage(self.node.failure)

    @property
    def may_be_short_of_memory(self) -> bool:
        """Whether the kernel may have killed a process of the node since the machine, not the node, had no memory left."""
        return self.node.oom_kills != 0 and not exceeded_own_limit(self.node.failure or "")

    def _note_shortage(self, why: str) -> None:
        """Record that the machine ran out of something, where that may be why the node ended."""
        if words := self._machine.explanation_of(why, kills=self.may_be_short_of_memory):
            self._note("starved", words)

    def _must_be(self, *, up: bool, stage: str) -> None:
        self.note_failure()
        if self.up is not up:
            why = self.node.failure or f"the node is {'running' if self.up else 'not running'}"
            raise WrongNodeState(self.node.name, stage, why)

    def _note(self, action: str, detail: str = "") -> None:
        self._recorder.record(NodeEvent, node=self.node.name, action=action, detail=detail)
