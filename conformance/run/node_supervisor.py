"""Starts, stops and reconfigures one node, and records each of these in the history.

A *node* is one running server under test: usually one process tree, and two processes on one queue after the step
`start-another`. The steps of a scenario call the supervisor, and so does the drain at its end.

The caller holds the supervisor's `lock` while it changes the node's state. A method that needs a running node, or one that is
down, first calls `_require`, which raises WrongNodeState for the other. Methods raise NodeError when the node fails to do what is
asked. Changes of the configuration are *unread* from when a step makes them while the node is down until its next start.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from conformance.history.events import Configured, Inspected, NodeEvent
from conformance.history.recorder import Recorder
from conformance.nodes.contract import CannotRestart, ConfigurationRefused, Node, NodeError, Unsupported, WrongNodeState
from conformance.run.configuration_changes import ConfigurationChanges
from conformance.shortage import ResourceMonitor, exceeded_own_limit

Render = Callable[[ConfigurationChanges], dict[str, Any]]
"""What the scenario has changed so far -> the node's configuration as of now."""


@dataclass(frozen=True, slots=True)
class _Another:
    """The second process of a server: its node, what makes its configuration, and what has the links to the server dial it."""

    node: Node
    render: Render
    dial: Callable[[], None]


class NodeSupervisor:
    """Controls one node.

    Methods raise NodeError when the node does not do its part, and WrongNodeState when it is not running, or is, contrary to
    what the step needs. Steps of the scenario and actions at a moment of the protocol may come at the same time: the caller
    holds `lock` while it changes the state of the node. `node.failure` says why the node ended on its own, None if it did not.
    `_first` is the process that was started first; `node` is the second one once that has taken over.
    `_changes` are the changes so far, from which `render` makes its configuration; `_unread` are those that were made while it was
    down: it has not read them yet.
    """

    def __init__(self, node: Node, render: Render, recorder: Recorder, resources: ResourceMonitor) -> None:
        self.node = node
        self.lock = asyncio.Lock()
        self.is_running = False
        self.is_paused = False
        self.cannot_restart = False
        """Whether it failed to start again on its own queue; starting it is not tried again."""
        self._has_run = False
        """Whether it has run on the data that it has."""
        self._first = node
        self._another: _Another | None = None
        """The second process on the queue, if one was started; it may have ended on its own."""
        self._render = render
        self._recorder = recorder
        self._resources = resources
        self._changes = ConfigurationChanges()
        self._unread = ConfigurationChanges()

    async def start(self) -> None:
        """Start the node on the data that it has, wait until it is ready, and record that.

        Unread changes are recorded before (`Configured`), each parameter with its last value, since the node reads them now. If the
        start fails, the next one offers them again, except unknown keys. Raises ConfigurationRefused, and NodeError when the node
        does not start: both are recorded. A failure is CannotRestart when the node has run on that data before; then
        `cannot_restart` is set. Unsupported is raised and not recorded.
        """
        self._require(running=False, stage="start")
        unread, self._unread = self._unread, self._unread.without_unknown()
        if changes := unread.recorded():
            self._recorder.record(Configured, node=self.node.name, changes=changes)
        self._record("started")
        try:
            await self.node.start(self._render(replace(self._changes, unknown=unread.unknown)))
        except ConfigurationRefused as error:
            self._record("refused", error.reason)
            raise
        except Unsupported:  # the cell is not applicable to the candidate: no failure of the node
            raise
        except NodeError as error:
            self._record("failed", error.reason)
            self._record_shortage(error.reason)
            if not self._has_run:
                raise
            self.cannot_restart = True
            raise CannotRestart(self.node.name, "start", error.reason, "on its own queue") from error
        self._unread = ConfigurationChanges()
        self.is_running = self._has_run = True
        self._record("ready")

    async def start_another(self, make: Callable[[], tuple[Node, Render]], dial: Callable[[], None]) -> str:
        """Start another process of the server on the queue of the running one; return in words whether it runs.

        `make` makes its node, not started, and what makes its configuration; `dial` is called when it takes over. A server may
        refuse to run twice on one queue: any NodeError but Unsupported is taken for that and raises nothing. Raises WrongNodeState,
        before `make` is called, while a process of an earlier call runs. Records nothing; the step records the returned words.
        """
        self._require(running=True, stage="start-another")
        if self.has_another or self.node is not self._first:  # there is one directory for second processes
            raise WrongNodeState(self.node.name, "start-another", "the process of an earlier start-another still runs")
        node, render = make()
        try:
            await node.start(render(self._changes))
        except Unsupported:  # the cell is not applicable to the candidate
            raise
        except NodeError as error:
            return f"it refuses to run twice: {error.reason}"
        self._another = _Another(node, render, dial)
        return "two processes run"

    @property
    def has_another(self) -> bool:
        """Whether a second process of the server runs: it was started, and has not ended on its own, been killed or taken over."""
        return self._running_another is not None

    @property
    def _running_another(self) -> _Another | None:
        """The second process of the server, None if there is none that runs."""
        return self._another if self._another is not None and self._another.node.failure is None else None

    async def kill_one(self) -> str:
        """Kill the process that was started first, and return in words what runs now.

        The process of `start_another` goes on, and is `self.node` from now on. If there is none, the only process is killed and
        started again. Either is recorded.
        """
        self._require(running=True, stage="kill-one")
        another = self._running_another
        if another is None:
            await self.kill()
            await self.start()
            return "started again"
        self._record("killed", "one of two processes")
        await self.node.kill()
        self._take_over(another)
        return "the other process goes on"

    def _take_over(self, another: _Another) -> None:
        """Let the second process be the node from now on, with its own configuration; have the links dial it, and record that."""
        self.node, self._render, self._another = another.node, another.render, None
        self.is_running = True
        self.is_paused = False  # a pause reached the first process only
        another.dial()
        self._record("ready", "the other process")

    async def stop(self) -> None:
        """Kill a second process, if any; stop the node in an orderly way, wait for its end, and record its exit code."""
        self._require(running=True, stage="stop")
        await self._kill_another()
        code = await self.node.stop()
        self.is_running = self.is_paused = False
        self._record("stopped", f"exit code {code}")

    async def kill(self, detail: str = "") -> None:
        """Kill the node, and a second process of it; `detail` is the event's.

        The kill is recorded before it is done: what the links record of the node afterwards was sent before the kill.
        """
        self._require(running=True, stage="kill")
        self._record("killed", detail)
        self.is_running = False
        self.is_paused = False
        await self._kill_another()
        await self.node.kill()

    async def _kill_another(self) -> None:
        """Kill the second process, if there is one that has not ended on its own."""
        another, self._another = self._running_another, None
        if another is not None:
            await another.node.kill()

    async def wipe(self) -> None:
        """Destroy the queue database of the node, which must not be running, and record that.

        The next start is one on new data: a failure of it is not CannotRestart.
        """
        self._require(running=False, stage="wipe")
        await self.node.wipe()
        self._has_run = self.cannot_restart = False
        self._record("wiped")

    async def pause(self) -> None:
        """Freeze the processes of the node and record that; a paused node counts as running."""
        self._require(running=True, stage="pause")
        await self.node.pause()
        self.is_paused = True
        self._record("paused")

    async def resume(self) -> None:
        """Let the frozen processes of the node run again and record that."""
        self._require(running=True, stage="resume")
        await self.node.resume()
        self.is_paused = False
        self._record("resumed")

    async def reconfigure(self, changes: ConfigurationChanges) -> bool:
        """Change the node's configuration, and have it reload if it is running; return whether it has read the changes.

        A node that is down reads them when it starts: they are unread until then. Changes are part of every later configuration,
        but for `unknown` keys, which are sent once only. A reload is recorded (`reloaded`); the caller records the changes
        themselves. Raises ConfigurationRefused when the node refuses them: then nothing is kept. A second process reloads after
        the first; if it alone refuses, the first has read them all the same.
        """
        self.record_failure()
        after = self._changes.followed_by(changes)
        if self.is_running:
            await self.node.reload(self._render(after))
            if (another := self._running_another) is not None:
                await another.node.reload(another.render(after))
            self._record("reloaded")
        else:
            self._unread = self._unread.followed_by(changes)
        self._changes = after.without_unknown()
        return self.is_running

    async def inspect(self) -> None:
        """Run the node's command `inspect` and record what it prints. Raises NodeError when it fails."""
        state = await self.node.command("inspect")
        self._recorder.record(Inspected, node=self.node.name, state=state)

    def record_failure(self) -> None:
        """Record that the node ended on its own, if it did and that is not recorded yet; it counts as down from then on.

        Record a shortage of the machine too, if that may be the cause. A second process that still runs takes over.
        """
        if self.is_running and self.node.failure is not None:
            self.is_running = self.is_paused = False
            self._record("exited", self.node.failure)
            self._record_shortage(self.node.failure)
            if (another := self._running_another) is not None:
                self._take_over(another)

    @property
    def may_be_short_of_memory(self) -> bool:
        """Whether the kernel may have killed a process of the node because the machine, not the node, had no memory left.

        True also where the number of such kills (`oom_kills`) is not known; False if the node's failure says that it was over a
        limit of its own.
        """
        return self.node.oom_kills != 0 and not exceeded_own_limit(self.node.failure or "")

    def _record_shortage(self, failure: str) -> None:
        """Record that the machine ran out of a resource, if that may be the cause of a failure of the node.

        `failure` is the text that says how the node failed.
        """
        if explanation := self._resources.explanation_of(failure, kills=self.may_be_short_of_memory):
            self._record("starved", explanation)

    def _require(self, *, running: bool, stage: str) -> None:
        """Raise WrongNodeState unless the node is in the state `running`; `stage` is what was to be done, for the error's text.

        If the node has ended on its own and that is not recorded yet, record it first.
        """
        self.record_failure()
        if self.is_running is not running:
            reason = self.node.failure or f"the node is {'running' if self.is_running else 'not running'}"
            raise WrongNodeState(self.node.name, stage, reason)

    def _record(self, action: str, detail: str = "") -> None:
        """Record a change of the node's state."""
        self._recorder.record(NodeEvent, node=self.node.name, action=action, detail=detail)
