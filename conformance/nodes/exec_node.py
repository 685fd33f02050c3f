"""The `exec` kind: a program on this machine, its whole process tree guarded."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from conformance.candidates.description import Candidate
from conformance.candidates.kinds.local import ExecFields
from conformance.nodes import cgroups, guard, private_root
from conformance.nodes.commands import command_template, parse_output, run_command
from conformance.nodes.contract import REFUSED, ConfigurationRefused, NodeConfiguration, NodeError
from conformance.nodes.disks.node_disk import NodeDisk
from conformance.nodes.flushing import flush_every, interval
from conformance.nodes.kinds import NodeBase, NodeContext, ProcessClock
from conformance.nodes.node_directory import NodeDirectory
from conformance.nodes.processes import KILLING, descendants
from conformance.nodes.readiness import reload, wait_ready
from conformance.shortage import KILLED, is_sigkill

_SLOW_START = "PYTHONDONTWRITEBYTECODE"
"""With it, a server in Python would compile its whole source at every start."""

_GUARD_ENDS = KILLING + 5.0
"""Seconds that a guard has to kill the tree and to end."""

_FORCING = 2
"""How often that long is waited for a guard that has not ended: once before and once after it was helped."""

_PYTHON = (sys.executable, "-S", "-E")


class ExecNode(NodeBase, kind="exec"):
    """One node as a process; `directory` holds its data, its files and its log, `disk` is one that may fail.

    `clock` moves the clock of its processes; what it raises passes through `start`, and so does UnobservedDisk of the disk.
    """

    def __init__(
        self,
        name: str,
        candidate: Candidate,
        directory: Path,
        *,
        disk: NodeDisk | None = None,
        clock: ProcessClock | None = None,
    ) -> None:
        self._clock = clock
        self.name = name
        self._disk = disk
        self._candidate = candidate
        self._own = ExecFields.of(candidate)
        self._availability = candidate.check_availability()
        self._shop = NodeDirectory(name, candidate, directory, self._availability, user=candidate.user)
        self._process: Process | None = None
        self._group: cgroups.Cgroup | None = None
        self._killed: int | None = 0
        self._ended = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._asked_to_end = False
        self._failure: str | None = None

    @classmethod
    def create(cls, context: NodeContext) -> Self:
        """See NodeBase."""
        clock = context.clock.shifted_program(context.directory / "clock")
        return cls(context.name, context.candidate, context.directory, clock=clock, disk=context.disk)

    @property
    def log(self) -> Path:
        """What the node wrote to stdout and stderr."""
        return self._shop.log_file

    @property
    def guard(self) -> int | None:
        """The guard of its processes, while it runs."""
        return None if self._process is None else self._process.pid

    @property
    def oom_kills(self) -> int | None:
        """How many of its processes the kernel has killed for want of memory, in all its lives; None without a cgroup."""
        now = self._group.oom_kills() if self._group is not None else 0
        return None if now is None or self._killed is None else self._killed + now

    @property
    def failure(self) -> str | None:
        """Why the process ended without being asked to, or None."""
        return self._failure

    async def start(self, configuration: NodeConfiguration) -> None:
        """Render the files, start the command under its guard, wait for the greetings."""
        if self._availability.missing:
            raise NodeError(self.name, "start", self._availability.missing)
        await asyncio.to_thread(self._shop.write, configuration)  # other cells may be on this loop
        if self._disk is not None:
            if self._availability.private_root is None:
                self._disk.check_program(self._shop.filled(self._candidate.argv)[0])
            await self._disk.mount()
        self._ended.clear()
        self._asked_to_end = False
        self._failure = None
        self._shop.log.begin()
        limits = cgroups.Limits(self._own.process_limit, self._own.memory_limit)
        self._group = await asyncio.to_thread(cgroups.make, limits)
        if self._group is None:
            self._killed = None
        log = self._shop.log.handle
        self._process = await asyncio.create_subprocess_exec(
            *self._guarded(), stdin=PIPE, stdout=log, stderr=log, start_new_session=True, env=self._environment()
        )
        if self._clock is not None:
            self._clock.on_started(self._process.pid)
        self._watch = asyncio.create_task(self._wait(self._process), name=f"watch {self.name}")
        listeners = [(door, at["host"], at["port"]) for door, at in configuration["listeners"].items()]
        try:
            await wait_ready(self.name, listeners, self._candidate.ready_within, self._ended)
        except NodeError as error:
            code = self._process.returncode
            await self._end()
            if code == REFUSED:
                raise ConfigurationRefused(self.name, "start", self._shop.log.failure_excerpt()) from error
            if code is not None:
                raise NodeError(self.name, "start", self._end_of(code, "it left")) from error
            raise
        if self._clock is not None:
            try:
                self._clock.on_ready()
            except BaseException:
                await self._end()
                raise
        if self._candidate.flush_to_retry and (every := interval(configuration["transport"])) is not None:
            self._flushing = asyncio.create_task(self._flush_every(every), name=f"flush {self.name}")

    async def stop(self) -> int:
        """SIGTERM, or the `stop` command, and wait for the end; what does not leave is killed and told as an error."""
        process = self._running("stop")
        await self._flush_no_more()
        self._asked_to_end = True
        if self._clock is not None:
            self._clock.on_ending()
        if template := self._candidate.commands.get("stop"):
            await self._run("stop", template)
        else:
            self._tell(b"T")
        try:
            async with asyncio.timeout(self._candidate.stop_within):
                await self._ended.wait()
        except TimeoutError:
            await self._end()
            bound = self._candidate.stop_within
            raise NodeError(self.name, "stop", f"it did not leave within {bound:g} s of SIGTERM") from None
        await self._end()
        code = process.returncode or 0
        return 0 if code in self._candidate.exit_codes else code

    async def kill(self) -> None:
        """SIGKILL the whole tree."""
        self._running("kill")
        await self._end()

    async def wipe(self) -> None:
        """Run the `wipe` command, or delete what is in the data directory."""
        if self._process is not None:
            raise NodeError(self.name, "wipe", "the node is running", "stop or kill it first")
        if template := self._candidate.commands.get("wipe"):
            await self._run("wipe", template)
        else:
            self._shop.wipe()
        if self._disk is not None:
            await self._disk.wipe()

    async def pause(self) -> None:
        """SIGSTOP the whole tree."""
        self._running("pause")
        self._tell(b"S")

    async def resume(self) -> None:
        """SIGCONT the whole tree."""
        self._running("resume")
        self._tell(b"C")

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Write the files anew, send SIGHUP (or run the `reload` command), and wait for the node's answer."""
        self._running("reload")

        async def signal() -> None:
            self._tell(b"H")

        await reload(self._shop, self._candidate, configuration, self.command, signal)

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run the description's command of that name and read its JSON; the text, of one that is not the contract's."""
        text = await self._run(name, command_template(self._candidate, self.name, name), arguments)
        return parse_output(self.name, name, text)

    async def close(self) -> None:
        """End the node however it is."""
        try:
            await self._end()
            if self._disk is not None:
                await self._disk.close()
        finally:
            self._shop.close()

    def _guarded(self) -> list[str]:
        """Return the node's command, in its private root where it has one, under the guard."""
        candidate, directory = self._candidate, self._shop.directory
        defect = ("--defect", candidate.defect) if candidate.defect else ()
        words = [*self._on_disk, *_PYTHON, guard.__file__, "--log-limit", str(candidate.log_limit)]
        words += ["--directory", str(directory), "--directory-limit", str(candidate.directory_limit)]
        words += ["--processes", str(self._own.process_limit), "--memory", str(self._own.memory_limit)]
        if self._group is not None:
            words += [word for group in self._group.all for word in ("--cgroup", group)]
        elif self._clock is None and self._availability.private_root is None:
            words += ["--twice"]  # a moved clock follows one guard only; a namespace of its own dies with it
        if candidate.user is not None and os.geteuid() == 0:
            words += ["--user", candidate.user]
        if self._availability.private_root is not None:
            root = str(self._availability.private_root)
            words += ["--namespaces", *_PYTHON, private_root.__file__, root, str(directory), self.name]
            words += ["--preload", str(self._preload), "--"] if self._preload else ["--"]
        return [*words, *self._moved(self._shop.filled(candidate.argv)), *defect]

    def _moved(self, argv: list[str]) -> list[str]:
        """Return a command of the node with its clock moved, where it is."""
        return argv if self._clock is None else [*self._clock.command_prefix(argv[0], self._environment()), *argv]

    async def _run(self, name: str, template: Sequence[str], arguments: Sequence[str] = ()) -> str:
        argv = self._moved(self._shop.filled(template, arguments))
        if self._availability.private_root is not None:
            argv = ["nsenter", "-t", str(self._init()), "-p", "-m", "-r", "-w", *argv]
        else:
            argv = [*self._on_disk, *argv]
        if self._group is not None and name != "stop":  # which goes on when the node has ended
            argv = [*self._group.joining, *argv]
        return await run_command(
            self.name, name, argv, within=self._candidate.command_within, environment=self._environment()
        )

    def _init(self) -> int:
        """Return the process id of the private root's init: the guard's only child."""
        process = self._running("command")
        try:
            return next(iter(descendants(process.pid)))
        except StopIteration:
            raise NodeError(self.name, "command", "the node's private root is gone") from None

    async def _flush_every(self, seconds: float) -> None:
        """Ask for another attempt as often as the node is to make one, until the node is gone."""

        async def flush() -> None:
            await self._run("flush", self._candidate.commands["flush"])

        await flush_every(seconds, flush, lambda: self._process is None or self._ended.is_set(), self._shop.log.note)

    async def _flush_no_more(self) -> None:
        task, self._flushing = self._flushing, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _wait(self, process: Process) -> None:
        code = await process.wait()
        await self._end_group()
        if not self._asked_to_end:
            self._failure = self._end_of(code, "it left by itself")
        self._ended.set()

    def _end_of(self, code: int, how: str) -> str:
        """Return why the node ended that nobody had asked to."""
        if is_sigkill(code):
            return f"{KILLED}; its log ends: {self._shop.log.failure_excerpt()}"
        return f"{how} with exit code {code}: {self._shop.log.failure_excerpt()}"

    async def _end(self) -> None:
        """Kill whatever is left of the tree and reap the guard."""
        await self._flush_no_more()
        process, watch = self._process, self._watch
        self._process = self._watch = None
        self._asked_to_end = True
        if process is not None and process.returncode is None:
            self._tell(b"K", process)
        if self._clock is not None:
            self._clock.on_ending()
        if process is not None and process.returncode is None:
            await self._force(process)
        if watch is not None:
            await watch
        if self._clock is not None:
            self._clock.on_ended()
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def _force(self, process: Process) -> None:
        """Wait for the end of a guard that was told to kill.

        The node may have frozen it: then what is below the process that was started is killed from here, and last that
        process itself. Of two guards the upper one, which waits for the lower, ends what the lower has left.
        """
        for _ in range(_FORCING):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GUARD_ENDS):
                    await process.wait()
            if process.returncode is not None:
                return
            for pid in list(descendants(process.pid)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            process.send_signal(signal.SIGCONT)
        process.kill()

    async def _end_group(self) -> None:
        """Kill what is left of the node where no guard sees it."""
        self._killed, group, self._group = self.oom_kills, self._group, None
        if group is not None and (left := await asyncio.to_thread(group.end)):
            self._shop.log.note(f"not all of the server's processes could be ended: {left} is left")

    def _tell(self, word: bytes, process: Process | None = None) -> None:
        process = process or self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(word)
            if self._clock is not None:
                self._clock.on_signal()

    def _running(self, stage: str) -> Process:
        if self._process is None:
            raise NodeError(self.name, stage, "the node is not running")
        return self._process

    @property
    def _on_disk(self) -> list[str]:
        return [] if self._disk is None else self._disk.prefix

    @property
    def _preload(self) -> Path | None:
        return None if self._disk is None else self._disk.preload

    def _environment(self) -> dict[str, str]:
        own_root = self._availability.private_root is not None  # all its programs preload it without being told
        layer = {"LD_PRELOAD": str(self._preload)} if self._preload and not own_root else {}
        inherited = {name: value for name, value in os.environ.items() if name != _SLOW_START}
        return {**inherited, **self._candidate.environment, **layer}
