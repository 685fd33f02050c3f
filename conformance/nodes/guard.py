"""The guard: a small process between the harness and a node's process tree, so that nothing outlives a run.

Theory of operation. The guard is a subreaper (prctl(2)): what loses its parent becomes its child, so it finds what has
daemonised itself, and it reaps while the node runs. Where the harness has a cgroup for the node, the command is started in
it; the guard itself is not in it, and the harness kills it once more when the guard has ended, however that went. Where
there is none, the guard has a second one above it: when the node kills one of the two, the other kills the node.

Twice a second it looks at the node's limits. A node that is beyond one is killed, and the last line of the log says why.

Run as a program: `python guard.py OPTIONS COMMAND...` (see `Options`). The harness holds the other end of its standard
input and writes one octet to have the tree signalled: `T` SIGTERM to the command, `H` SIGHUP to it, `K` SIGKILL to the
whole tree, `S`/`C` SIGSTOP/SIGCONT to the whole tree. When the harness is gone, however it went, the input ends and the
tree is killed. What the tree prints goes through the guard to its standard output, as far as the limit lets it. It leaves
with the command's exit code (128 + n after signal n). Only the standard library is imported: it must start at once.
"""

import ctypes
import os
import pwd
import resource
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":  # it is run as a file, by an interpreter that knows no package
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.nodes.processes import descendants, kill_tree, memory_of, reap, signal_tree, threads_of
from conformance.untrusted.tree import disk_usage

_PR_SET_CHILD_SUBREAPER = 36
_NEW_NAMESPACES = 0x00020000 | 0x20000000
"""CLONE_NEWNS | CLONE_NEWPID"""
_TO_COMMAND = {b"T": signal.SIGTERM, b"H": signal.SIGHUP}
_TO_TREE = {b"S": signal.SIGSTOP, b"C": signal.SIGCONT}
_CHUNK = 65536
_LOOK = 0.5
"""Seconds between two looks at the limits; more where a look takes longer than a tenth of that."""

OVER_LIMIT = 120
"""Exit code of a guard that killed its tree because it was beyond a limit."""


@dataclass(slots=True)
class Options:
    """`--user NAME`, `--namespaces` (of PIDs and mounts, for the command and all below), `--log-limit OCTETS`,
    `--directory DIR --directory-limit OCTETS`, `--processes N`, `--memory OCTETS`, `--cgroup DIR` (may be repeated),
    `--twice` (a second guard above this one); what follows is the command.
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
        """Whether there is anything to look at."""
        return bool(self.directory) or self.processes < 1 << 62 or self.memory < 1 << 62


def parse(argv: list[str]) -> Options:
    """Read the arguments; the first that is no option begins the command."""
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


class Log:
    """Passes on what the tree prints, up to its limit; what is beyond is read and dropped, so that nobody blocks."""

    def __init__(self, source: int, limit: int) -> None:
        os.set_blocking(source, False)
        self._source = source
        self._left = limit
        self._cut = False

    def pump(self) -> bool:
        """Pass on what is there now; return False at the end."""
        try:
            chunk = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return True
        kept = chunk[: self._left]
        self._left -= len(kept)
        write_all(1, kept)
        if len(kept) < len(chunk) and not self._cut:
            self._cut = True
            write_all(1, b"\n[the log is at its limit; what follows was dropped]\n")
        return bool(chunk)

    def drain(self) -> None:
        """Pass on what is left of a tree that is gone; nobody holds the other end any more."""
        os.set_blocking(self._source, True)
        while self.pump():
            continue


class Guard:
    """The command, its log, and the loop that waits for whatever comes first."""

    def __init__(self, options: Options) -> None:
        self._options = options
        if options.namespaces and ctypes.CDLL(None, use_errno=True).unshare(_NEW_NAMESPACES) != 0:
            raise SystemExit(f"guard: namespaces of its own: {os.strerror(ctypes.get_errno())}")
        self._selector = selectors.DefaultSelector()
        reading, writing = os.pipe()
        waking, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._command = self._start(writing)
        self._code: int | None = None
        os.close(writing)
        self._log = Log(reading, options.log_limit)
        self._selector.register(0, selectors.EVENT_READ, "input")
        self._selector.register(reading, selectors.EVENT_READ, "log")
        self._selector.register(waking, selectors.EVENT_READ, "child")
        if options.twice:
            self._selector.register(os.pidfd_open(os.getppid()), selectors.EVENT_READ, "alone")
        self._reading, self._waking = reading, waking

    def _start(self, output: int) -> subprocess.Popen[bytes]:
        """Start the command: in its cgroups, which the guard enters for that moment only."""
        options = self._options
        account = pwd.getpwnam(options.user) if options.user else None
        most, allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
        if options.directory:
            resource.setrlimit(resource.RLIMIT_FSIZE, (options.directory_limit, allowed))
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
                _enter(os.path.dirname(group))  # noqa: PTH120
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, allowed))

    def watch(self) -> int:
        """Watch until the command ends, the harness is gone or says so; return the exit code."""
        due = time.monotonic() + _LOOK
        while True:
            wait = max(due - time.monotonic(), 0) if self._options.has_limits else None
            ready = {key.data for key, _ in self._selector.select(wait)}
            if "log" in ready and not self._log.pump():
                self._selector.unregister(self._reading)
            if "child" in ready:
                os.read(self._waking, _CHUNK)
                self._note(dict(reap()))
                if self._code is not None:
                    return self._finish()
            if "alone" in ready:
                return self._kill()
            if "input" in ready and (code := self._obey(os.read(0, 1))) is not None:
                return code
            if self._options.has_limits and time.monotonic() >= due:
                began = time.monotonic()
                if over := self._over():
                    return self._end_over(over)
                due = time.monotonic() + max(_LOOK, 10 * (time.monotonic() - began))

    def _note(self, codes: dict[int, int]) -> None:
        """Take the command's exit code out of those of children that have ended."""
        self._code = codes.get(self._command.pid, self._code)

    def _obey(self, word: bytes) -> int | None:
        if word in _TO_COMMAND:
            os.kill(self._command.pid, _TO_COMMAND[word])  # it is not reaped: the number is still its own
        elif word in _TO_TREE:
            signal_tree(_TO_TREE[word])
        else:
            return self._kill()
        return None

    def _kill(self) -> int:
        kill_tree(self._options.cgroups)
        self._log.drain()
        return 128 + signal.SIGKILL

    def _finish(self) -> int:
        code = self._code or 0
        over = _refused(self._options) if code == -signal.SIGKILL else ""
        if over:
            return self._end_over(over)
        self._kill()
        return code if code >= 0 else 128 - code

    def _over(self) -> str:
        """Return which limit the tree is beyond, '' when none."""
        options = self._options
        if disk_usage(options.directory) > options.directory_limit:
            return f"its directory outgrew {options.directory_limit} octets"
        if over := _refused(options):
            return over
        below = list(descendants(os.getpid()))
        if sum(len(threads_of(pid)) for pid in below) > options.processes:
            return f"it had more than {options.processes} processes and threads"
        if sum(map(memory_of, below)) > options.memory:
            return f"it took more than {options.memory} octets of memory"
        return ""

    def _end_over(self, why: str) -> int:
        self._kill()
        write_all(1, f"\nkilled: {why}\n".encode())
        return OVER_LIMIT


def _enter(group: str) -> None:
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as procs:  # noqa: PTH123
        procs.write("0")


def _refused(options: Options) -> str:
    """Return what the kernel has refused a node, by the counters of its cgroups; '' when nothing."""
    for group in options.cgroups:
        if _counter(f"{group}/pids.events", "max"):
            return f"it had more than {options.processes} processes and threads"
        killed = _counter(f"{group}/memory.events", "oom_kill") or _counter(f"{group}/memory.oom_control", "oom_kill")
        if killed and _reached(group):  # else it was the machine that had no memory left
            return f"it took more than {options.memory} octets of memory"
    return ""


def _reached(group: str) -> bool:
    """Whether a group has reached its own limit of memory."""
    if _counter(f"{group}/memory.events", "oom"):
        return True
    try:
        with open(f"{group}/memory.failcnt", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read()) > 0
    except OSError:  # version 2, or no such controller here
        return False


def _counter(path: str, name: str) -> int:
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123
            return int(dict(line.split() for line in file).get(name, 0))
    except OSError:  # no such controller here
        return 0


def watch_above() -> int | None:
    """Fork: the parent stays as a second guard above this one, and returns the exit code; the child returns None.

    When the first guard is killed, the second kills what it has left.
    """
    below = os.fork()
    if below == 0:
        return None
    _, status = os.waitpid(below, 0)
    kill_tree()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main(argv: list[str]) -> int:
    """Guard the command until it ends or the harness is gone; return the exit code."""
    options = parse(argv)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Ctrl-C is the harness's to handle; it tells us by the input. Ignored would be ignored by the command too.
        signal.signal(number, lambda number, frame: None)
    if options.twice:
        if (code := watch_above()) is not None:
            return code
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # a child does not inherit it
    try:
        return Guard(options).watch()
    finally:
        kill_tree(options.cgroups)


def write_all(handle: int, data: bytes) -> None:
    """Write as far as there is room: where the disk is full, the rest is dropped, and the node guarded all the same."""
    try:
        while data:
            data = data[os.write(handle, data) :]
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
