"""The `remote` kind: a server at fixed addresses, maybe on another machine, controlled by commands of its description.

With a `start` command the harness starts it for each cell, after its `wipe`, and ends it afterwards. Without one the
server must be running already, and it is left running. A step whose command the description lacks raises Unsupported, and one
whose command fails NodeError.
"""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

from conformance.candidates.availability import Availability
from conformance.candidates.description import Candidate
from conformance.candidates.kinds.remote import RemoteFields
from conformance.nodes.commands import command_template, parse_output, run_command
from conformance.nodes.configuration import Address
from conformance.nodes.contract import CommandFailed, NodeConfiguration, NodeError, Unsupported
from conformance.nodes.kinds import NodeBase, NodeContext
from conformance.nodes.node_directory import NodeDirectory
from conformance.nodes.places import LOOPBACK, Place, PortLeases, addresses_by_listener
from conformance.nodes.readiness import reload_by_command, wait_ready
from conformance.topology import Server


class RemoteNode(NodeBase, kind="remote"):
    """One node at the addresses of its description; `directory` holds the description's files and the log of its commands.

    `_up`: the harness has started it, or found it running, and has not ended it since.
    """

    failure: str | None = None
    """Always None: the end of a server elsewhere is not seen; what it fails to do shows on the wire."""

    guard_pid: int | None = None
    """Always None: its processes may be another machine's."""

    oom_kills: int | None = 0
    """Always 0: what this machine's kernel kills is not the node's."""

    def __init__(self, name: str, candidate: Candidate, directory: Path) -> None:
        self.name = name
        self._candidate = candidate
        self._files = NodeDirectory(name, candidate, directory, Availability())  # nothing of it is installed here
        self._up = False
        self._never_started = True

    @classmethod
    async def find_place(
        cls, server: Server, candidate: Candidate, directory: Path, leases: PortLeases, exit_stack: AsyncExitStack
    ) -> Place:
        """Return the addresses of the description; no port is leased here."""
        fields = RemoteFields.of(candidate)
        opened: dict[str, Address] = {listener: address.at for listener, address in fields.addresses.items()}
        addresses = addresses_by_listener(server.role, opened)
        return Place(
            listen_addresses=addresses, dial_addresses=dict(addresses), link_address=partial(_link_address, fields)
        )

    @classmethod
    def create(cls, context: NodeContext) -> Self:
        """Return a node that the harness has not started yet."""
        return cls(context.name, context.candidate, context.directory)

    @property
    def log(self) -> Path:
        """The file of what `start`, `stop`, `wipe` and the like printed; the server's own log stays where the server is."""
        return self._files.log_path

    async def start(self, configuration: NodeConfiguration) -> None:
        """Write the files, run `start` (before the first time `wipe`), and wait until every listener has greeted.

        Without a `start` command the first start only waits for the server, and each later one raises Unsupported.
        """
        self._files.write(configuration)
        if "start" in self._candidate.commands:
            if self._never_started and "wipe" in self._candidate.commands:
                await self._run("wipe")
            await self._run("start")
        elif not self._never_started:
            raise Unsupported(self.name, "start", "the candidate's description has no such command")
        self._never_started = False
        self._up = True
        listeners = [(name, at["host"], at["port"]) for name, at in configuration["listeners"].items()]
        # The event is never set, since the end of the server's process is not seen here.
        await wait_ready(self.name, listeners, self._candidate.ready_within, asyncio.Event())

    async def stop(self) -> int:
        """Run the description's `stop` command and return 0: the server's exit code is not known here."""
        await self._run("stop")
        self._up = False
        return 0

    async def kill(self) -> None:
        """Run the description's `kill` command."""
        await self._run("kill")
        self._up = False

    async def wipe(self) -> None:
        """Run the description's `wipe` command for a server that is down. Raises NodeError when it is up."""
        if self._up:
            raise NodeError(self.name, "wipe", "the node is running", "stop or kill it first")
        await self._run("wipe")

    async def pause(self) -> None:
        """Run the description's `pause` command."""
        await self._run("pause")

    async def resume(self) -> None:
        """Run the description's `resume` command."""
        await self._run("resume")

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Write the files and run `reload`, whose exit code says whether the server applied them.

        Raises ConfigurationRefused for exit code 2.
        """
        self._files.write(configuration)
        await reload_by_command(self.name, self._run)

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run a command of the description and return what it printed.

        For a command of the node contract (such as `inspect`) that is parsed JSON, or None if it printed nothing; else the text.
        Raises Unsupported when the description has no such command, NodeError when it fails or its JSON cannot be read.
        """
        argv = self._files.fill(command_template(self._candidate, self.name, name), arguments)
        text = await run_command(
            self.name, name, argv, within=self._candidate.command_within, environment=self._environment()
        )
        return parse_output(self.name, name, text)

    async def close(self) -> None:
        """End a server that the harness started and that is up, by `kill` or else `stop`, and release the directory."""
        try:
            if self._up and "start" in self._candidate.commands:
                await self._run("kill" if "kill" in self._candidate.commands else "stop")
        finally:
            self._files.close()
        self._up = False

    async def _run(self, name: str) -> None:
        """Run a command with its output in the log; wait for its end, but not for that of processes that it leaves running.

        A command that takes too long is killed with its process group. Raises Unsupported when the description has no
        such command, NodeError when it cannot be started or takes too long, CommandFailed when its exit code is not 0.
        """
        argv = self._files.fill(command_template(self._candidate, self.name, name))
        limit = self._candidate.command_within
        log = self._files.log.descriptor
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=DEVNULL, stdout=log, stderr=log, env=self._environment(), start_new_session=True
            )
        except OSError as error:
            raise NodeError(self.name, name, f"{argv[0]}: {error.strerror}") from error
        try:
            async with asyncio.timeout(limit):
                code = await process.wait()
        except TimeoutError:
            raise NodeError(self.name, name, f"{argv[0]} had not ended after {limit:g} s") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if code:
            raise CommandFailed(self.name, name, code, self._files.log.failure_excerpt())

    def _environment(self) -> dict[str, str]:
        """Return the environment of the commands: that of the harness, with the description's variables."""
        return {**os.environ, **self._candidate.environment}


def _link_address(fields: RemoteFields, party: str, listener: str) -> Address:
    """Return the address at which the description says that the server dials a party: a sink, or a listener of another server.

    It is in `next-hops` under the party's name, for the listener `delivery` under `SERVER.delivery`. Where the description has none:
    any free port of this machine.
    """
    key = f"{party}.{listener}" if listener == "delivery" else party
    next_hop = fields.next_hops.get(key)
    return LOOPBACK if next_hop is None else next_hop.at
