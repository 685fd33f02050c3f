"""What the kinds `exec` and `docker` have in common: the harness starts the node's program, signals it, and sees its end.

A node is *down* before its first start, and after it was stopped or killed from here. A node whose program has ended by
itself counts as running until then. Timings such as `stop-within` are fields of the candidate's description, in real
seconds.
"""

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from conformance.candidates.description import Candidate
from conformance.nodes.commands import command_template, parse_output
from conformance.nodes.contract import REFUSED, ConfigurationRefused, NodeConfiguration, NodeError
from conformance.nodes.kinds import NodeBase
from conformance.nodes.node_directory import NodeDirectory
from conformance.nodes.readiness import reload
from conformance.shortage import KILLED_EXTERNALLY, is_sigkill


class ManagedNode(NodeBase, ABC, kind=None):
    """A node whose program the harness runs; a subclass says how it is started, signalled and killed.

    The subclass sets `_ended` and `_exit_code` when the program has ended, and `_failure` too unless `_asked_to_end`,
    which `stop` and `_terminate` set before they end the program. It sets `_for_any_user` when the program may run as a
    user whom the harness does not know: then every user of the machine gets access to the node's files. `_candidate` is
    the candidate's description, whose limits are in real seconds; `_files` is the node's directory, with its log.
    """

    def __init__(self, candidate: Candidate, files: NodeDirectory) -> None:
        self.name = files.name
        self._candidate = candidate
        self._files = files
        self._for_any_user = False
        self._ended = asyncio.Event()
        self._exit_code: int | None = None
        self._asked_to_end = False
        self._failure: str | None = None

    @property
    def log(self) -> Path:
        """The file of what the node's processes wrote to stdout and stderr."""
        return self._files.log_path

    @property
    def failure(self) -> str | None:
        """Why the program ended without being asked to, until the next start; None if it has not."""
        return self._failure

    async def stop(self) -> int:
        """Run the `stop` command, or send SIGTERM; wait for the program's end and return its exit code.

        0 stands for each of the description's `exit-codes`, and for an exit code that is not known.
        Raises NodeError when the node is down, the command fails, or the program has not ended within `stop-within`; in
        the last case it is killed.
        """
        self._require_running("stop")
        await self._before_stop()
        self._asked_to_end = True
        request = "SIGTERM"
        if template := self._candidate.commands.get("stop"):
            request = "its stop command"
            await self._run("stop", template)
        else:
            await self._send_signal("stop", signal.SIGTERM)
        limit = self._candidate.stop_within
        try:
            async with asyncio.timeout(limit):
                await self._ended.wait()
        except TimeoutError:
            await self._terminate()
            raise NodeError(self.name, "stop", f"it did not exit within {limit:g} s of {request}") from None
        await self._terminate()
        code = self._exit_code or 0
        return 0 if code in self._candidate.exit_codes else code

    async def kill(self) -> None:
        """SIGKILL all processes of the node and wait for their end. Raises NodeError when the node is down."""
        self._require_running("kill")
        await self._terminate()

    async def wipe(self) -> None:
        """Empty the data directory of a node that is down. Raises NodeError when it is running."""
        if self._is_running:
            raise NodeError(self.name, "wipe", "the node is running", "stop or kill it first")
        self._files.wipe()

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Write the files, send SIGHUP (or run the `reload` command), and wait for the node's answer, if it can give one.

        Raises ConfigurationRefused when the node refuses them, NodeError when it is down or does not answer in time.
        """
        self._require_running("reload")
        send_sighup = partial(self._send_signal, "reload", signal.SIGHUP)
        await reload(
            self._files,
            self._candidate,
            configuration,
            self.command,
            send_sighup,
            for_any_user=self._for_any_user,
        )

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run a command of the description and return what it printed.

        For a command of the node contract (such as `inspect`) that is parsed JSON, or None if it printed nothing; else the text.
        Raises Unsupported when the description has no such command, NodeError when it fails or its JSON cannot be read.
        """
        text = await self._run(name, command_template(self._candidate, self.name, name), arguments)
        return parse_output(self.name, name, text)

    async def close(self) -> None:
        """Kill the node if it runs, and release its directory."""
        try:
            await self._terminate()
        finally:
            self._files.close()

    def _reset(self) -> None:
        """Forget how the program ended last; excerpts of the log in errors begin here from now on."""
        self._ended.clear()
        self._exit_code, self._failure, self._asked_to_end = None, None, False
        self._files.log.mark_start()

    def _require_running(self, stage: str) -> None:
        """Raise NodeError, naming the stage, when the node is down."""
        if not self._is_running:
            raise NodeError(self.name, stage, "the node is not running")

    def _start_error(self, code: int) -> NodeError:
        """Return the error for a program that ended with this exit code before the node was ready.

        Exit code 2 is a refusal of the configuration; its reason is an excerpt of the log.
        """
        if code == REFUSED:
            return ConfigurationRefused(self.name, "start", self._files.log.failure_excerpt())
        return NodeError(self.name, "start", self._describe_exit(code, "it exited"))

    def _describe_exit(self, code: int, how: str) -> str:
        """Return why the program ended: `how` with its exit code, or that SIGKILL came from elsewhere; then an excerpt of its log.

        The expectation `left` finds the exit code in this text.
        """
        excerpt = self._files.log.failure_excerpt()
        if is_sigkill(code):
            return f"{KILLED_EXTERNALLY}; its log ends: {excerpt}"
        return f"{how} with exit code {code}: {excerpt}"

    @property
    @abstractmethod
    def _is_running(self) -> bool:
        """Whether the node was started and not yet ended from here, even if its program has ended meanwhile."""

    async def _before_stop(self) -> None:
        """Do what must come before the node is asked to end; by default nothing."""

    @abstractmethod
    async def _send_signal(self, stage: str, number: signal.Signals) -> None:
        """Send a signal to the node's program. Raises NodeError naming the stage."""

    @abstractmethod
    async def _run(self, name: str, template: Sequence[str], arguments: Sequence[str] = ()) -> str:
        """Run a command of the description where the node's program runs, and return what it printed. Raises NodeError."""

    @abstractmethod
    async def _terminate(self) -> None:
        """Kill what is left of the node, if anything, and wait for its end; then the node is down."""
