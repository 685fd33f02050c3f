"""The guard: a small process between the harness and a node's process tree, so that nothing outlives a run.

Run as a program: `python guard.py OPTIONS COMMAND...` (see `Options`). The harness holds the other end of its standard
input and writes one octet to have the tree signalled: `T` SIGTERM to the command, `H` SIGHUP to it, `K` SIGKILL to the
whole tree, `S`/`C` SIGSTOP/SIGCONT to the whole tree. When the harness is gone, however it went, the input ends and the
tree is killed. As the tree's subreaper the guard also finds what has daemonised itself. What the tree prints goes
through the guard to its standard output, as far as the limit lets it; a tree whose directory outgrows its limit is
killed. It leaves with the command's exit code (128 + n after signal n). Only the standard library is imported: it must
start at once.
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
from collections.abc import Iterator
from dataclasses import dataclass

_PR_SET_CHILD_SUBREAPER = 36
_NEW_NAMESPACES = 0x00020000 | 0x20000000
"""CLONE_NEWNS | CLONE_NEWPID"""
_TO_COMMAND = {b"T": signal.SIGTERM, b"H": signal.SIGHUP}
_TO_TREE = {b"S": signal.SIGSTOP, b"C": signal.SIGCONT}
_CHUNK = 65536
_LOOK = 0.5
"""Seconds between two looks at how large the directory has become."""

TOO_LARGE = 120
"""Exit code of a guard that killed its tree because the directory outgrew its limit."""


@dataclass(slots=True)
class Options:
    """`--user NAME`, `--namespaces` (of PIDs and mounts, for the command and all below), `--log-limit OCTETS`,
    `--directory DIR --directory-limit OCTETS`; what follows is the command.
    """

    command: list[str]
    user: str = ""
    namespaces: bool = False
    log_limit: int = 1 << 62
    directory: str = ""
    directory_limit: int = 1 << 62


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
            case unknown:
                raise SystemExit(f"guard: no option {unknown}")
    options.command = words
    return options


def descendants(pid: int) -> Iterator[int]:
    """Yield the process ids below `pid`, parents first; a child belongs to the thread that forked it."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  # no pathlib: this runs in a loop while killing
    except OSError:
        return
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:  # noqa: PTH123
                below = [int(child) for child in children.read().split()]
        except OSError:
            continue
        for child in below:
            yield child
            yield from descendants(child)


def signal_tree(number: signal.Signals) -> None:
    """Signal everything below the guard; what has gone meanwhile needs none."""
    for pid in list(descendants(os.getpid())):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def kill_tree() -> None:
    """Kill everything below the guard, and what it forks while being killed, and reap it all."""
    while list(descendants(os.getpid())):
        signal_tree(signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def size_of(directory: str) -> int:
    """Return the octets on disk of all files below a directory; what is gone before it is looked at has none."""
    total = 0
    for where, _, files in os.walk(directory):
        for file in files:
            try:
                total += os.lstat(os.path.join(where, file)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue
    return total


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
        _write_all(1, kept)
        if len(kept) < len(chunk) and not self._cut:
            self._cut = True
            _write_all(1, b"\n[the log is at its limit; what follows was dropped]\n")
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
        reading, writing = os.pipe()
        account = pwd.getpwnam(options.user) if options.user else None
        most, allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
        if options.directory:
            resource.setrlimit(resource.RLIMIT_FSIZE, (options.directory_limit, allowed))
        self._command = subprocess.Popen(  # noqa: S603  # the description's own command
            options.command,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
            restore_signals=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, allowed))
        os.close(writing)
        self._log = Log(reading, options.log_limit)
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ, "input")
        self._selector.register(reading, selectors.EVENT_READ, "log")
        self._selector.register(os.pidfd_open(self._command.pid), selectors.EVENT_READ, "ended")
        self._reading = reading

    def watch(self) -> int:
        """Watch until the command ends, the harness is gone or says so; return the exit code."""
        looked = time.monotonic()
        while True:
            ready = {key.data for key, _ in self._selector.select(_LOOK if self._options.directory else None)}
            if "log" in ready and not self._log.pump():
                self._selector.unregister(self._reading)
            if "ended" in ready:
                return self._finish(self._command.wait())
            if "input" in ready and (code := self._obey(os.read(0, 1))) is not None:
                return code
            if self._options.directory and time.monotonic() - looked >= _LOOK:
                looked = time.monotonic()
                if size_of(self._options.directory) > self._options.directory_limit:
                    return self._too_large()

    def _obey(self, word: bytes) -> int | None:
        if word in _TO_COMMAND:
            self._command.send_signal(_TO_COMMAND[word])
        elif word in _TO_TREE:
            signal_tree(_TO_TREE[word])
        else:
            kill_tree()
            self._log.drain()
            return 128 + signal.SIGKILL
        return None

    def _finish(self, code: int) -> int:
        kill_tree()
        self._log.drain()
        return code if code >= 0 else 128 - code

    def _too_large(self) -> int:
        kill_tree()
        self._log.drain()
        _write_all(1, f"\nkilled: its directory outgrew {self._options.directory_limit} octets\n".encode())
        return TOO_LARGE


def main(argv: list[str]) -> int:
    """Guard the command until it ends or the harness is gone; return the exit code."""
    options = parse(argv)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Ctrl-C is the harness's to handle; it tells us by the input. Ignored would be ignored by the command too.
        signal.signal(number, lambda number, frame: None)
    return Guard(options).watch()


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
