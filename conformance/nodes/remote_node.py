"""The `remote` kind: a server that runs already, somewhere, with the user's own commands for its life.

With a `start` command the harness starts it for each cell, after its `wipe`, and ends it after; without, it is there.
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
    """One node at addresses of its own; `directory` takes the files of its description and the log of its commands."""

    failure: str | None = None
    """Nobody sees it end: what it does not do is seen on the wire."""

    guard: int | None = None
    """Its processes are another machine's."""

    oom_kills: int | None = 0
    """What this machine's kernel kills is none of its."""

    def __init__(self, name: str, candidate: Candidate, directory: Path) -> None:
        self.name = name
        self._candidate = candidate
        self._shop = NodeDirectory(name, candidate, directory, Availability())
        self._up = False
        self._fresh = True

    @classmethod
    async def find_place(
        cls, server: Server, candidate: Candidate, directory: Path, leases: PortLeases, leaving: AsyncExitStack
    ) -> Place:
        """See NodeBase; where it is."""
        addresses = RemoteFields.of(candidate).addresses
        doors = addresses_by_listener(server.role, {door: address.at for door, address in addresses.items()})
        return Place(doors, dict(doors), partial(_set_up, candidate))

    @classmethod
    def create(cls, context: NodeContext) -> Self:
        """See NodeBase."""
        return cls(context.name, context.candidate, context.directory)

    @property
    def log(self) -> Path:
        """What the commands wrote; the server's own log is its own."""
        return self._shop.log_file

    async def start(self, configuration: NodeConfiguration) -> None:
        """Have it started, where the description can, and wait for the greetings."""
        self._shop.write(configuration)
        if "start" in self._candidate.commands:
            if self._fresh and "wipe" in self._candidate.commands:
                await self._do("wipe")
            await self._do("start")
        elif not self._fresh:
            raise Unsupported(self.name, "start", "the candidate's description has no such command")
        self._fresh = False
        self._up = True
        listeners = [(door, at["host"], at["port"]) for door, at in configuration["listeners"].items()]
        await wait_ready(self.name, listeners, self._candidate.ready_within, asyncio.Event())

    async def stop(self) -> int:
        """Have it stopped in an orderly way."""
        await self._do("stop")
        self._up = False
        return 0

    async def kill(self) -> None:
        """Have it killed."""
        await self._do("kill")
        self._up = False

    async def wipe(self) -> None:
        """Have its queue destroyed."""
        if self._up:
            raise NodeError(self.name, "wipe", "the node is running", "stop or kill it first")
        await self._do("wipe")

    async def pause(self) -> None:
        """Have it frozen."""
        await self._do("pause")

    async def resume(self) -> None:
        """Have it thawed."""
        await self._do("resume")

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Write the files anew and have them read. What it would not take its command has to tell, by its exit code."""
        self._shop.write(configuration)
        await reload_by_command(self.name, self._do)

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run the description's command of that name and read its JSON; the text, of one that is not the contract's."""
        argv = self._shop.filled(command_template(self._candidate, self.name, name), arguments)
        text = await run_command(
            self.name, name, argv, within=self._candidate.command_within, environment=self._environment()
        )
        return parse_output(self.name, name, text)

    async def close(self) -> None:
        """End what we started; leave what was there."""
        try:
            if self._up and "start" in self._candidate.commands:
                await self._do("kill" if "kill" in self._candidate.commands else "stop")
        finally:
            self._shop.close()
        self._up = False

    async def _do(self, name: str) -> None:
        """Run a command and wait for its end, not for that of what it leaves running. Raises NodeError."""
        argv = self._shop.filled(command_template(self._candidate, self.name, name))
        bound = self._candidate.command_within
        log = self._shop.log.handle
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=DEVNULL, stdout=log, stderr=log, env=self._environment(), start_new_session=True
            )
        except OSError as error:
            raise NodeError(self.name, name, f"{argv[0]}: {error.strerror}") from error
        try:
            async with asyncio.timeout(bound):
                code = await process.wait()
        except TimeoutError:
            raise NodeError(self.name, name, f"{argv[0]} had not ended after {bound:g} s") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if code:
            raise CommandFailed(self.name, name, code, self._shop.log.failure_excerpt())

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self._candidate.environment}


def _set_up(candidate: Candidate, party: str, listener: str) -> Address:
    """Return where a server was set up to dial a door of a party; one that it does not know may be anywhere."""
    next_hops = RemoteFields.of(candidate).next_hops
    known = next_hops.get(f"{party}.{listener}" if listener == "delivery" else party)
    return LOOPBACK if known is None else known.at
