"""The guard: a small process between the harness and a node's process tree, so that no process outlives a run.

Theory of operation. The guard is a subreaper (prctl(2)): a process that loses its parent becomes the guard's child, so
the guard finds what has daemonised itself, and reaps it. Where the harness has a cgroup for the node, the command is
started in it. The guard itself is not in the cgroup, and the harness kills the cgroup once more when the guard has
ended, in whatever way. Where there is none, the guard may have a second guard as its parent (`--twice`): when the node
kills one of the two, the other kills the node.

When the command has ended, the guard kills what it left running. After SIGTERM the rest gets MAX_REST_S to finish its
work first: a server that forks for each delivery leaves some amid one.

Twice a second at most the guard looks at the node's limits. It kills a node that is over one, and writes which one as the last
line of the log.

Run as a program: `python guard.py OPTIONS COMMAND...` (see `Options`). The harness holds the other end of its standard
input and writes one octet to have the tree signalled: `T` SIGTERM to the command, `H` SIGHUP to it, `K` SIGKILL to the
whole tree, `S`/`C` SIGSTOP/SIGCONT to the whole tree. When the harness ends, in whatever way, so does the input, and the
guard kills the tree. What the tree prints is copied to the guard's standard output, up to a limit. The guard exits with
the command's exit code (128 + n after signal n). It imports the standard library only, since it must start at once.
"""

import ctypes
import os
import pwd
import resource
import select
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":  # run as a file by an interpreter that does not know the package
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.nodes.processes import descendants, kill_tree, memory_of, reap, signal_tree, threads_of
from conformance.untrusted.tree import disk_usage

_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNS_NEWPID = 0x00020000 | 0x20000000
"""The flags of unshare(2) for new namespaces of mounts and process ids."""
_COMMAND_SIGNALS = {b"T": signal.SIGTERM, b"H": signal.SIGHUP}
_TREE_SIGNALS = {b"S": signal.SIGSTOP, b"C": signal.SIGCONT}
_CHUNK = 65536
_LIMIT_INTERVAL_S = 0.5
"""Seconds between two looks at the limits; ten times as long as a look took, where that is more."""

_MAX_LOG_S = 2.0
"""Seconds for which the rest of the log of a killed tree is copied at most."""

MAX_REST_S = 1.0
"""Seconds for which the processes that a stopped command leaves may go on, as in `private_root`."""

OVER_LIMIT = 120
"""Exit code of a guard that killed its tree because the tree was over a limit."""


@dataclass(slots=True)
class Options:
    """The guard's options; the words after them are the command.

    `--user NAME` (of the command), `--namespaces` (new ones of process ids and mounts for the command), `--log-limit
    OCTETS`, `--directory DIR --directory-limit OCTETS`, `--processes N` (with their threads), `--memory OCTETS`, `--cgroup
    DIR` (may be repeated), `--twice` (a second guard above this one). 1 << 62 stands for no limit.
    """

    command: list[str]
    user: str = ""
    namespaces: bool = False
    log_limit: int = 1 << 62
    directory: str = ""
    directory_limit: int = 1 << 62
    processes: int = 1 << 62
    memory: int = 1 << 62
    cgroups: list[str] = field(default_factory=list)
    twice: bool = False

    @property
    def has_limits(self) -> bool:
        """Whether there is a limit that the guard itself must watch."""
        return bool(self.directory) or self.processes < 1 << 62 or self.memory < 1 << 62


def parse_options(argv: list[str]) -> Options:
    """Parse the arguments; the first that is not an option begins the command. Raises SystemExit for an unknown option."""
    options = Options([])
    words = list(argv)
    while words and words[0].startswith("--"):
        match words.pop(0):
            case "--namespaces":
                options.namespaces = True
            case "--user":
                options.user = words.pop(0)
            case "--log-limit":
                options.log_limit = int(words.pop(0))
            case "--directory":
                options.directory = words.pop(0)
            case "--directory-limit":
                options.directory_limit = int(words.pop(0))
            case "--processes":
                options.processes = int(words.pop(0))
            case "--memory":
                options.memory = int(words.pop(0))
            case "--cgroup":
                options.cgroups.append(words.pop(0))
            case "--twice":
                options.twice = True
            case unknown:
                raise SystemExit(f"guard: no option {unknown}")
    options.command = words
    return options


class LogCopier:
    """Copies what the tree prints to stdout, up to a limit; reads and drops the rest, so that no writer blocks.

    `_left` is how many octets may still be copied; `_noted`: the line that says that the limit is reached was written.
    """

    def __init__(self, source: int, limit: int) -> None:
        os.set_blocking(source, False)
        self._source = source
        self._left = limit
        self._noted = False

    def copy_chunk(self) -> bool:
        """Copy what can be read now without blocking; return False at the end of the input."""
        try:
            chunk = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return True
        kept = chunk[: self._left]
        self._left -= len(kept)
        _write_all(1, kept)
        if len(kept) < len(chunk) and not self._noted:
            self._noted = True
            _write_all(1, b"\n[the log is at its limit; what follows was dropped]\n")
        return bool(chunk)

    def copy_rest(self) -> None:
        """Copy what is left until the end of the input, which comes when every process that can write to it has ended.

        Blocks for `_MAX_LOG_S` seconds at most: a process outside of the tree, or one that could not be killed, may keep it open.
        """
        deadline = time.monotonic() + _MAX_LOG_S
        while (left := deadline - time.monotonic()) > 0 and select.select([self._source], [], [], left)[0]:
            if not self.copy_chunk():
                return


class Guard:
    """Starts the command in its constructor; `run` handles what its processes, its log, its limits and the harness's octets ask for.

    `_code` is the command's exit code (-n after signal n), None while it runs; `_rest_until` is when what it left running is
    killed. `_reading` is the pipe of what the tree prints, `_waking` a pipe that becomes readable when a child ends.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        if options.namespaces and ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS_NEWPID) != 0:
            raise SystemExit(f"guard: namespaces of its own: {os.strerror(ctypes.get_errno())}")
        self._selector = selectors.DefaultSelector()
        reading, writing = os.pipe()
        waking, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._command = self._start(writing)
        self._code: int | None = None
        self._asked_to_end = False
        self._rest_until = 0.0
        os.close(writing)
        self._log = LogCopier(reading, options.log_limit)
        self._selector.register(0, selectors.EVENT_READ, "harness")
        self._selector.register(reading, selectors.EVENT_READ, "log")
        self._selector.register(waking, selectors.EVENT_READ, "child")
        if options.twice:
            self._selector.register(os.pidfd_open(os.getppid()), selectors.EVENT_READ, "other guard")
        self._reading, self._waking = reading, waking

    def _start(self, output: int) -> subprocess.Popen[bytes]:
        """Start the command as its user, with its stdout and stderr to `output`, in its cgroups, and return its process.

        For that the guard itself enters the cgroups, since a process starts in those of its parent, and leaves them afterwards.
        No single file of the command can outgrow the directory's limit.
        """
        options = self._options
        account = pwd.getpwnam(options.user) if options.user else None
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        if options.directory:  # the command inherits it: no single file outgrows the limit between two looks
            resource.setrlimit(resource.RLIMIT_FSIZE, (options.directory_limit, hard))
        for group in options.cgroups:
            _enter(group)
        try:
            return subprocess.Popen(  # noqa: S603  # the description's own command
                options.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                restore_signals=True,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
            )
        finally:
            for group in options.cgroups:
                _enter(os.path.dirname(group))  # noqa: PTH120  # where the guard was before
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def run(self) -> int:
        """Block until the command ends, is over a limit, or the harness ends or asks for SIGKILL; kill the tree.

        After SIGTERM what the command left has MAX_REST_S to end by itself. With two guards the end of the other one ends
        this one too. Return the exit code of the guard: the command's, 120 for a limit, 137 when the tree was killed.
        """
        due = time.monotonic() + _LIMIT_INTERVAL_S
        while True:
            ready = {key.data for key, _ in self._selector.select(self._longest_wait(due))}
            if "log" in ready and not self._log.copy_chunk():
                self._selector.unregister(self._reading)
            if "child" in ready:
                os.read(self._waking, _CHUNK)
                self._reap()
            if "other guard" in ready:
                return self._kill()
            if "harness" in ready and (code := self._handle_octet(os.read(0, 1))) is not None:
                return code
            if self._code is not None and self._is_rest_over():
                return self._finish()
            if self._options.has_limits and time.monotonic() >= due:
                began = time.monotonic()
                if reason := self._exceeded_limit():
                    return self._kill_over_limit(reason)
                due = time.monotonic() + max(_LIMIT_INTERVAL_S, 10 * (time.monotonic() - began))

    def _longest_wait(self, due: float) -> float | None:
        """Return for how many seconds nothing has to be done; None for ever. `due` is the time of the next look at the limits."""
        times = [due] if self._options.has_limits else []
        times += [self._rest_until] if self._code is not None else []
        return max(min(times) - time.monotonic(), 0) if times else None

    def _reap(self) -> None:
        """Reap the children that have ended; when the command is one of them, note its exit code and how long the rest may go on."""
        codes = dict(reap())
        if self._code is None and (code := codes.get(self._command.pid)) is not None:
            self._code = code
            self._rest_until = time.monotonic() + (MAX_REST_S if self._asked_to_end else 0)

    def _is_rest_over(self) -> bool:
        """Return whether nothing that the command left runs any more, or its time is over."""
        return time.monotonic() >= self._rest_until or not any(descendants(os.getpid()))

    def _handle_octet(self, octet: bytes) -> int | None:
        """Send the signal that an octet of the harness asks for, and return None.

        For `K` or an unknown octet, and at the end of the input (b""), kill the tree and return the exit code of the guard.
        """
        if octet in _COMMAND_SIGNALS:
            self._asked_to_end = self._asked_to_end or octet == b"T"
            if self._code is None:  # not reaped yet, so no other process has its id
                os.kill(self._command.pid, _COMMAND_SIGNALS[octet])
        elif octet in _TREE_SIGNALS:
            signal_tree(_TREE_SIGNALS[octet])
        else:
            return self._kill()
        return None

    def _kill(self) -> int:
        """Kill the tree, copy the rest of its log, and return the exit code of a process ended by SIGKILL."""
        kill_tree(self._options.cgroups)
        self._log.copy_rest()
        return 128 + signal.SIGKILL

    def _finish(self) -> int:
        """Kill what the command left running, and return its exit code; OVER_LIMIT when the kernel killed it at a limit."""
        code = self._code or 0
        reason = _kernel_refusal(self._options) if code == -signal.SIGKILL else ""
        if reason:
            return self._kill_over_limit(reason)
        self._kill()
        return code if code >= 0 else 128 - code

    def _exceeded_limit(self) -> str:
        """Return, in words for the log, the first limit that the tree is over; '' for none."""
        options = self._options
        if disk_usage(options.directory) > options.directory_limit:
            return f"its directory grew beyond {options.directory_limit} octets"
        if reason := _kernel_refusal(options):
            return reason
        below = list(descendants(os.getpid()))
        if sum(len(threads_of(pid)) for pid in below) > options.processes:
            return f"it had more than {options.processes} processes and threads"
        if sum(map(memory_of, below)) > options.memory:
            return f"it used more than {options.memory} octets of memory"
        return ""

    def _kill_over_limit(self, reason: str) -> int:
        """Kill the tree, write the reason as the last line of the log, and return the guard's exit code."""
        self._kill()
        _write_all(1, f"\nkilled: {reason}\n".encode())
        return OVER_LIMIT


def _enter(group: str) -> None:
    """Move this process into a cgroup. Raises OSError."""
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as procs:  # noqa: PTH123
        procs.write("0")


def _kernel_refusal(options: Options) -> str:
    """Return, in words for the log, at which limit the kernel refused or killed something; '' for none, or without cgroups.

    It is read from the counters of the node's cgroups. A process killed because the machine lacked memory does not count.
    """
    for group in options.cgroups:
        if _counter(f"{group}/pids.events", "max"):
            return f"it had more than {options.processes} processes and threads"
        # Of cgroups of version 2 and 1; a file of the other version does not exist and counts 0.
        killed = _counter(f"{group}/memory.events", "oom_kill") or _counter(f"{group}/memory.oom_control", "oom_kill")
        if killed and _reached_memory_limit(group):  # else the machine lacked memory
            return f"it used more than {options.memory} octets of memory"
    return ""


def _reached_memory_limit(group: str) -> bool:
    """Whether a cgroup has ever reached its own limit on memory."""
    if _counter(f"{group}/memory.events", "oom"):
        return True
    try:
        with open(f"{group}/memory.failcnt", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read()) > 0
    except OSError:  # version 2, or no such controller here
        return False


def _counter(path: str, name: str) -> int:
    """Return a counter from a file of lines `name value`; 0 when the file or the name does not exist."""
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123
            return int(dict(line.split() for line in file).get(name, 0))
    except OSError:  # no such controller here
        return 0


def fork_lower_guard() -> int | None:
    """Fork. Return None in the child, which becomes the guard proper; the parent waits for it and returns its exit code.

    When the child ends in whatever way, even killed by the node, the parent kills what it left.
    """
    child = os.fork()
    if child == 0:
        return None
    _, status = os.waitpid(child, 0)
    kill_tree()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main(argv: list[str]) -> int:
    """Run the command under the guard until one of them or the harness ends; return the exit code."""
    options = parse_options(argv)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Ctrl-C is handled by the harness, which then ends the input. SIG_IGN would be inherited by the command.
        signal.signal(number, lambda number, frame: None)
    if options.twice:
        if (code := fork_lower_guard()) is not None:
            return code
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # a child does not inherit it
    try:
        return Guard(options).run()
    finally:
        kill_tree(options.cgroups)


def _write_all(handle: int, data: bytes) -> None:
    """Write all octets to a descriptor; drop the rest when the disk is full, since the node must be guarded all the same."""
    try:
        while data:
            data = data[os.write(handle, data) :]
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
