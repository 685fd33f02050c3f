"""The `exec` kind: a program on this machine, with its whole process tree.

The program runs below a guard (`conformance.nodes.guard`), a small process that signals and kills the tree when the
harness writes an octet to its standard input. Around that the program may have a private root, a disk that fails, a
shifted clock, and, where the machine allows it, a cgroup of its own. A *private root* is a file system that only this server
sees, in namespaces of its own, with an init process as the guard's only child. A *shifted clock* lets time jump for the node's
processes; the `on_...` calls say when it must not. The node is *down* before `start` and after `_terminate`.
"""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from conformance.candidates.description import Candidate
from conformance.candidates.kinds.local import ExecFields
from conformance.nodes import cgroups, guard, private_root
from conformance.nodes.commands import NEW_NAMESPACES, run_command
from conformance.nodes.contract import NodeConfiguration, NodeError
from conformance.nodes.disks.node_disk import NodeDisk
from conformance.nodes.kinds import NodeContext, ProcessClock
from conformance.nodes.managed import ManagedNode
from conformance.nodes.node_directory import NodeDirectory
from conformance.nodes.processes import MAX_KILL_S, descendants
from conformance.nodes.readiness import wait_ready

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Not passed on to nodes: with it, a server in Python would compile its whole source at every start."""

_MAX_GUARD_EXIT_S = MAX_KILL_S + 5.0
"""Seconds that a guard has to kill the tree and to exit."""

_GUARD_WAITS = 2
"""How often that long is waited for a guard: once before and once after the harness itself kills the tree."""

_PYTHON = (sys.executable, "-S", "-E")

_COMMANDS_THAT_WAIT = frozenset({"redirect-messages"})
"""Those that end when the node's queues are drained, which may take documented time. Others are done at once."""

_GUARD_WORDS = {
    signal.SIGTERM: b"T",
    signal.SIGHUP: b"H",
    signal.SIGSTOP: b"S",
    signal.SIGCONT: b"C",
    signal.SIGKILL: b"K",
}
"""The octet that has a guard send each signal."""

_MAX_RETRY_INTERVAL_S = 3650 * 86400
"""No scenario has a longer duration."""


class ExecNode(ManagedNode, kind="exec"):
    """One node as a process tree.

    `directory` holds its data, its files and its log; `disk` is one that the scenario makes fail, None for none;
    `clock` shifts the clock of its processes, None for the machine's time. What these two raise (UnobservedDisk,
    CannotShift) passes through `start`.

    `_shares` is the data directory of the server's first process, for a second one; None for any other node.
    `_availability` says where the candidate's programs are installed; `_fields` are those of the description for this kind.
    `_process` is the guard, None while the node is down; `_group` its cgroup, None where the machine allows none;
    `_watch` the task that waits for the guard's end; `_flushing` the one that runs the `flush` command.
    `_earlier_oom_kills` counts those of earlier starts, None once a start had no cgroup to count them.
    """

    def __init__(
        self,
        name: str,
        candidate: Candidate,
        directory: Path,
        *,
        disk: NodeDisk | None = None,
        clock: ProcessClock | None = None,
        shares: Path | None = None,
    ) -> None:
        self._availability = candidate.check_availability()
        files = NodeDirectory(name, candidate, directory, self._availability, user=candidate.user, shares=shares)
        super().__init__(candidate, files)
        self._clock = clock
        self._disk = disk
        self._shares = shares
        self._fields = ExecFields.of(candidate)
        self._process: Process | None = None
        self._group: cgroups.Cgroup | None = None
        self._earlier_oom_kills: int | None = 0
        self._watch: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None

    @classmethod
    def create(cls, context: NodeContext) -> Self:
        """Return a node that is down, with the cell's clock for processes and its failing disk."""
        clock = context.clock.shifted_program(context.directory / "clock")
        return cls(
            context.name, context.candidate, context.directory, clock=clock, disk=context.disk, shares=context.shares
        )

    @property
    def guard_pid(self) -> int | None:
        """The process id of the guard; None while the node is down."""
        return None if self._process is None else self._process.pid

    @property
    def oom_kills(self) -> int | None:
        """How many of the node's processes the kernel killed for lack of memory, in all its starts; None where it does not count.

        It counts only in a cgroup that has a controller of memory. One start without a cgroup makes this None for good.
        """
        now = self._group.oom_kills() if self._group is not None else 0
        return None if now is None or self._earlier_oom_kills is None else self._earlier_oom_kills + now

    async def start(self, configuration: NodeConfiguration) -> None:
        """Write the files, start the program under its guard, and wait until every listener has greeted.

        A server's second process gets the data directory of the first as its own.
        With `flush-to-retry` also begin to run the `flush` command at each retry interval. Raises NodeError when the
        program is not installed, ends or does not greet in time (ConfigurationRefused for exit code 2); no process of
        it is left then.
        """
        if self._availability.missing:
            raise NodeError(self.name, "start", self._availability.missing)
        await asyncio.to_thread(self._files.write, configuration)  # other cells may be on this loop
        if self._disk is not None:
            if self._availability.private_root is None:  # in a private root the program has another path than here
                self._disk.check_program(self._files.fill(self._candidate.argv)[0])
            await self._disk.mount()
        self._reset()
        limits = cgroups.Limits(self._fields.process_limit, self._fields.memory_limit)
        self._group = await asyncio.to_thread(cgroups.make_cgroup, limits)
        if self._group is None:
            self._earlier_oom_kills = None
        log = self._files.log.descriptor
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._guard_argv(), stdin=PIPE, stdout=log, stderr=log, start_new_session=True, env=self._environment()
            )
        except BaseException:
            await self._end_cgroup()  # no guard will end
            raise
        if self._clock is not None:
            self._clock.on_started(self._process.pid)
        self._watch = asyncio.create_task(self._watch_guard(self._process), name=f"watch {self.name}")
        listeners = [(name, at["host"], at["port"]) for name, at in configuration["listeners"].items()]
        try:
            await wait_ready(self.name, listeners, self._candidate.ready_within, self._ended)
        except NodeError as error:
            code = self._process.returncode
            await self._terminate()
            if code is not None:
                raise self._start_error(code) from error
            raise
        if self._clock is not None:
            try:
                self._clock.on_ready()
            except BaseException:
                await self._terminate()
                raise
        # `flush-to-retry`: the server's interval between retries cannot be set, so `flush` makes it retry.
        if self._candidate.flush_to_retry and (seconds := _retry_interval(configuration["transport"])) is not None:
            self._flushing = asyncio.create_task(self._flush_regularly(seconds), name=f"flush {self.name}")

    async def wipe(self) -> None:
        """Run the `wipe` command of a node that is down, or without one empty its data directory; also wipe a failing disk.

        Raises NodeError when the node is running.
        """
        if not self._is_running and (template := self._candidate.commands.get("wipe")):
            await self._run("wipe", template)
        else:
            await super().wipe()  # raises NodeError for a node that runs
        if self._disk is not None:
            await self._disk.wipe()

    async def pause(self) -> None:
        """Have the guard send SIGSTOP to the whole tree; does not wait. Raises NodeError when the node is down."""
        await self._send_signal("pause", signal.SIGSTOP)

    async def resume(self) -> None:
        """Have the guard send SIGCONT to the whole tree; does not wait. Raises NodeError when the node is down."""
        await self._send_signal("resume", signal.SIGCONT)

    async def close(self) -> None:
        """Kill the node if it runs, and release its disk and its directory."""
        try:
            await self._terminate()
            if self._disk is not None:
                await self._disk.close()
        finally:
            self._files.close()

    def _guard_argv(self) -> list[str]:
        """Return the argv that starts the node: its disk's prefix, the guard with its options, a private root, the command."""
        candidate, directory = self._candidate, self._files.directory
        defect = ("--defect", candidate.defect) if candidate.defect else ()
        words = [*self._disk_prefix, *_PYTHON, guard.__file__, "--log-limit", str(candidate.log_limit)]
        words += ["--directory", str(directory), "--directory-limit", str(candidate.directory_limit)]
        words += ["--processes", str(self._fields.process_limit), "--memory", str(self._fields.memory_limit)]
        if self._group is not None:
            words += [word for path in self._group.paths for word in ("--cgroup", path)]
        elif self._clock is None and self._availability.private_root is None:
            words += ["--twice"]  # a shifted clock follows one guard only; a namespace of its own dies with it
        if candidate.user is not None and os.geteuid() == 0:
            words += ["--user", candidate.user]
        if self._availability.private_root is not None:
            words += ["--namespaces", *self._private_root_words()]
        return [*words, *self._with_shifted_clock(self._files.fill(candidate.argv)), *defect]

    def _private_root_words(self) -> list[str]:
        """Return the words before a command that make the node's private root, in new namespaces, and run the command in it."""
        words = [*_PYTHON, private_root.__file__, str(self._availability.private_root)]
        words += [str(self._files.directory), self.name]
        words += ["--share", str(self._shares)] if self._shares is not None else []
        return [*words, *(["--preload", str(self._preload)] if self._preload else []), "--"]

    def _with_shifted_clock(self, argv: list[str]) -> list[str]:
        """Return a command of the node, after the words that shift its clock if the cell's clock is shifted. Raises CannotShift."""
        return argv if self._clock is None else [*self._clock.command_prefix(argv[0], self._environment()), *argv]

    async def _run(self, name: str, template: Sequence[str], arguments: Sequence[str] = ()) -> str:
        """Run a command of the description in the node's namespaces and (but `stop`) its cgroup; return what it printed.

        A node with a private root has its commands run in it, by nsenter. `wipe` is run when the node is down and its root is
        gone: it gets a new private root, with the same installed files and the same directory. Raises NodeError.
        """
        argv = self._with_shifted_clock(self._files.fill(template, arguments))
        if self._availability.private_root is not None and name == "wipe":
            argv = [*self._disk_prefix, *NEW_NAMESPACES, *self._private_root_words(), *argv]
        elif self._availability.private_root is not None:
            argv = ["nsenter", "-t", str(self._private_root_pid()), "-p", "-m", "-r", "-w", *argv]
        else:
            argv = [*self._disk_prefix, *argv]
        if self._group is not None and name != "stop":  # `stop` outlives the node, whose group is killed with it
            argv = [*self._group.join_prefix, *argv]
        follow: Callable[[int], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
        if self._clock is not None and name in _COMMANDS_THAT_WAIT:
            follow = self._clock.follow_command
        return await run_command(
            self.name,
            name,
            argv,
            within=self._candidate.command_within,
            environment=self._environment(),
            while_it_runs=follow,
        )

    def _private_root_pid(self) -> int:
        """Return the process id of the private root's init, the guard's only child. Raises NodeError when it has ended."""
        try:
            return next(iter(descendants(self._running_process("command").pid)))
        except StopIteration:
            raise NodeError(self.name, "command", "the node's private root has ended") from None

    async def _flush_regularly(self, seconds: float) -> None:
        """Run the `flush` command every `seconds` seconds of real time until cancelled, so that the node retries deliveries.

        A failure of the command is noted in the node's log. A failure after the end of the node ends this without a note.
        """
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + seconds, loop.time())
            await asyncio.sleep(due - loop.time())
            try:
                await self._run("flush", self._candidate.commands["flush"])
            except NodeError as error:
                if self._process is None or self._ended.is_set():
                    return
                self._files.log.add_note(f"flush: {error.reason}")

    async def _stop_flushing(self) -> None:
        """Cancel the task that runs the `flush` command, if any, and wait for its end."""
        task, self._flushing = self._flushing, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch_guard(self, process: Process) -> None:
        """Wait for the guard's end, remove the cgroup, note the exit code and (unless asked to end) the failure, set `_ended`."""
        code = await process.wait()
        await self._end_cgroup()
        self._exit_code = code
        if not self._asked_to_end:
            self._failure = self._describe_exit(code, "it exited on its own")
        self._ended.set()

    async def _before_stop(self) -> None:
        """Stop flushing, and keep the shifted clock from jumping while the node ends."""
        await self._stop_flushing()
        if self._clock is not None:
            self._clock.on_ending()

    async def _terminate(self) -> None:
        """Kill what is left of the tree, if anything, wait for the guard's end, and forget the process.

        The shifted clock does not jump meanwhile.
        """
        await self._stop_flushing()
        process, watch = self._process, self._watch
        self._process = self._watch = None
        self._asked_to_end = True
        if process is not None and process.returncode is None:
            self._write_to_guard(signal.SIGKILL, process)
        if self._clock is not None:
            self._clock.on_ending()
        if process is not None and process.returncode is None:
            await self._wait_for_guard(process)
        if watch is not None:
            await watch
        if self._clock is not None:
            self._clock.on_ended()
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def _wait_for_guard(self, process: Process) -> None:
        """Wait for the end of a guard that was asked to kill its tree, for 15 s twice at most, and kill it if it does not end.

        The node may have frozen its guard: then everything below the process that was started is killed from here, and at
        last that process itself. Of two guards the upper one, which waits for the lower, kills what the lower left.
        """
        for _ in range(_GUARD_WAITS):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_MAX_GUARD_EXIT_S):
                    await process.wait()
            if process.returncode is not None:
                return
            for pid in list(descendants(process.pid)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            process.send_signal(signal.SIGCONT)
        process.kill()

    async def _end_cgroup(self) -> None:
        """Kill what is left in the node's cgroup, where no guard sees it, count its kills for memory, and remove it.

        A group that cannot be removed is noted in the node's log.
        """
        self._earlier_oom_kills, group, self._group = self.oom_kills, self._group, None
        if group is not None and (left := await asyncio.to_thread(group.kill_and_remove)):
            self._files.log.add_note(f"not all of the server's processes could be ended: {left} is left")

    async def _send_signal(self, stage: str, number: signal.Signals) -> None:
        """Have the guard send a signal: SIGTERM and SIGHUP to the program, others to the whole tree.

        Does not wait for the signal. Raises NodeError, naming the stage, when the node is down.
        """
        self._write_to_guard(number, self._running_process(stage))

    def _write_to_guard(self, number: signal.Signals, process: Process) -> None:
        """Write the octet that has the guard send a signal, and have the clock note it; nothing if the guard's input is closed.

        Does not wait for the signal.
        """
        if process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(_GUARD_WORDS[number])
            if self._clock is not None:
                self._clock.on_signal()

    def _running_process(self, stage: str) -> Process:
        """Return the process of the guard. Raises NodeError, naming the stage, when the node is down."""
        self._require_running(stage)
        assert self._process is not None
        return self._process

    @property
    def _is_running(self) -> bool:
        """Whether there is a guard that `_terminate` has not ended yet."""
        return self._process is not None

    @property
    def _disk_prefix(self) -> list[str]:
        """The words before a command that have it see the failing disk; none when no disk fails."""
        return [] if self._disk is None else self._disk.prefix

    @property
    def _preload(self) -> Path | None:
        """The library that every program of the node must preload for its failing disk; None when it needs none."""
        return None if self._disk is None else self._disk.preload

    def _environment(self) -> dict[str, str]:
        """Return the environment of the node's programs: the harness's without `_NO_BYTECODE`, the description's, and LD_PRELOAD.

        LD_PRELOAD names the library of a failing disk; in a private root a file does that.
        """
        own_root = self._availability.private_root is not None
        layer = {"LD_PRELOAD": str(self._preload)} if self._preload and not own_root else {}
        inherited = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
        return {**inherited, **self._candidate.environment, **layer}


def _retry_interval(transport: Mapping[str, Any]) -> float | None:
    """Return MessageRetryInterval of a node's configuration, real seconds; None when it is missing or not a possible duration.

    A scenario may configure anything, even a word or a negative number: it is the server that must refuse that.
    """
    value = transport.get("MessageRetryInterval")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MAX_RETRY_INTERVAL_S:
        return None
    return float(value)
