"""What the machine has run out of, so that nothing that follows from it is held against a server.

A full disk, a limit on processes, open files or memory strikes the harness and the servers alike; the kernel kills what
takes too much memory. None of it is a server's own fault.
What is said when the harness itself breaks names it, or the place.
"""

import errno
import os
import traceback
from pathlib import Path

SHORTAGES = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EROFS: "the file system is read-only",
    errno.EDQUOT: "the disk quota is used up",
    errno.ENOMEM: "no memory is left",
    errno.ENOBUFS: "no buffers are left",
    errno.EAGAIN: "no more processes can be started",
    errno.EMFILE: "this process may open no more files",
    errno.ENFILE: "the machine can open no more files",
}
"""The errors by which a system call says that something has run out."""

KILLED_EXTERNALLY = "it was killed by SIGKILL, which the harness did not send: the machine may have run out of memory"
"""Why a node ended whose processes somebody else killed."""

_OWN_LIMIT = "killed: it"
"""How a guard says that a node was beyond a limit of its description: that is the node's own fault."""

_SAID_BY_NODES = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM))
_ENOUGH = 64 * 1024
"""Octets: a disk with less than this left is full."""

_OF_MEMORY = "the kernel has killed a process for want of memory"
_COUNTERS = {
    Path("/proc/vmstat"): ("oom_kill", _OF_MEMORY),
    Path("/sys/fs/cgroup/memory.events"): ("oom_kill", _OF_MEMORY),
    Path("/sys/fs/cgroup/pids.events"): ("max", "the limit on processes was reached"),
}
"""Where the kernel counts what it had to refuse, the counter's name, and what it means when it has grown.

What it killed is counted for the whole machine: a process of another run beyond a limit of its own counts as well.
"""


def shortage_of(error: BaseException) -> str:
    """Return what has run out, by an error that the harness met; '' when it is about something else.

    Of a group of exceptions the first that is about a shortage counts; of one that was raised on account of another, that.
    """
    if isinstance(error, BaseExceptionGroup):
        return next((words for one in error.exceptions if (words := shortage_of(one))), "")
    if isinstance(error, OSError):
        return SHORTAGES.get(error.errno or 0, "")
    if isinstance(error, MemoryError):
        return "no memory is left"
    before = error.__cause__ or error.__context__
    return shortage_of(before) if before is not None else ""


def system_error_in(text: str) -> OSError | None:
    """Return the error of the system that another program tells in its words (Java: `No space left on device`), or None."""
    number = next((number for number in SHORTAGES if os.strerror(number) in text), None)
    return OSError(number, os.strerror(number)) if number is not None else None


def is_sigkill(code: int | None) -> bool:
    """Whether an exit code (of a guard, a container, or a process) is that of SIGKILL."""
    return code in (137, -9)


class ResourceMonitor:
    """What the machine has run out of since this was made."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._before = {path: _counter(path) for path in _COUNTERS}

    def shortage(self, *, kills: bool = True) -> str:
        """Return what has run out; '' while there is enough of everything.

        Without `kills` it does not matter what the kernel has killed for want of memory: it was none of those who ask.
        """
        disk = os.statvfs(self._directory)
        if disk.f_bavail * disk.f_frsize < _ENOUGH or (disk.f_files and not disk.f_favail):
            return f"{SHORTAGES[errno.ENOSPC]} of {self._directory}"
        grown = (_COUNTERS[path][1] for path, before in self._before.items() if _counter(path) > before)
        return next((words for words in grown if kills or words != _OF_MEMORY), "")

    def explanation_of(self, why: str, *, kills: bool = True) -> str:
        """Return what has run out, where that may be why a node ended with these words; '' where it is not."""
        if exceeded_own_limit(why):
            return ""
        if why.startswith(KILLED_EXTERNALLY):
            return KILLED_EXTERNALLY
        said = next((words for words in _SAID_BY_NODES if words in why), "")
        return self.shortage(kills=kills) or said


def exceeded_own_limit(why: str) -> bool:
    """Whether a node ended, with these words, since it was beyond a limit of its description."""
    return _OWN_LIMIT in why


def read_counter(file: Path, name: str) -> int | None:
    """Return one of the kernel's counters in a file of lines `name value`; None where the file or the name is not there."""
    try:
        values = dict(line.split()[:2] for line in file.read_text("ascii").splitlines() if " " in line)
    except OSError:  # no such controller here
        return None
    return int(values[name]) if name in values else None


def _counter(path: Path) -> int:
    return read_counter(path, _COUNTERS[path][0]) or 0


_HERE = Path(__file__).parent


def describe_harness_error(error: BaseException) -> str:
    """Return a sentence on an exception that nobody expected: what it says, and where the harness raised it."""
    said = " ".join(traceback.format_exception_only(error)[-1].split())
    if words := shortage_of(error):
        return f"the machine ran out of something: {words} ({said})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(_HERE)] or frames
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name})" if own else ""
    return f"the harness itself broke: {said}{place}"
