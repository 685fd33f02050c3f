"""Finds out whether the machine has run out of something, so that no server is blamed for what follows from that.

A full disk and limits on processes, open files or memory affect the harness and the servers alike, and the kernel kills
processes when memory is short. None of that is a server's fault. The sentence for an unexpected exception of the harness
names the shortage too, or else the place in the code.
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
"""The errors of system calls that mean that something has run out, in words."""

KILLED_EXTERNALLY = "it was killed by SIGKILL, which the harness did not send: the machine may have run out of memory"
"""Why a node ended when a process other than the harness sent it SIGKILL."""

_OWN_LIMIT = "killed: it"
"""How a guard's message begins when a node was over a limit of its description, which is the node's own fault."""

_IN_NODE_LOGS = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM))
_MIN_FREE = 64 * 1024
"""A disk with fewer free octets is full."""

_OUT_OF_MEMORY = "the kernel has killed a process for lack of memory"
_COUNTERS = {
    Path("/proc/vmstat"): ("oom_kill", _OUT_OF_MEMORY),
    Path("/sys/fs/cgroup/memory.events"): ("oom_kill", _OUT_OF_MEMORY),
    Path("/sys/fs/cgroup/pids.events"): ("max", "the limit on processes was reached"),
}
"""Files in which the kernel counts what it refused or killed -> (name of the counter, what it means that it has grown).

The counter of kills is one for the whole machine: a process of another run that is over its own limit counts too.
"""


def shortage_of(error: BaseException) -> str:
    """Return in words what has run out, if that is what an exception of the harness is about; else ''.

    In a group the first exception about a shortage decides. In a chain of causes or contexts, from the exception itself on, the
    first OSError or MemoryError decides, also if it is about something else.
    """
    if isinstance(error, BaseExceptionGroup):
        return next((shortage for one in error.exceptions if (shortage := shortage_of(one))), "")
    if isinstance(error, OSError):
        return SHORTAGES.get(error.errno or 0, "")
    if isinstance(error, MemoryError):
        return "no memory is left"
    cause = error.__cause__ or error.__context__
    return shortage_of(cause) if cause is not None else ""


def system_error_in(text: str) -> OSError | None:
    """Return an OSError for the shortage that another program's message quotes; None when it quotes none.

    Java, for one, quotes the text of errno: `No space left on device`.
    """
    number = next((number for number in SHORTAGES if os.strerror(number) in text), None)
    return OSError(number, os.strerror(number)) if number is not None else None


def is_sigkill(code: int | None) -> bool:
    """Whether an exit code means an end by SIGKILL: 128 + 9 of a guard or container, -9 of a process."""
    return code in (137, -9)


class ResourceMonitor:
    """Notices what the machine has run out of since the monitor was made; `directory` is on the disk that it watches."""

    def __init__(self, directory: Path) -> None:
        """Note the present values of the kernel's counters."""
        self._directory = directory
        self._counts_before = {path: _count(path) for path in _COUNTERS}

    def shortage(self, *, kills: bool = True) -> str:
        """Return in words what has run out: space on the disk, or what the kernel has counted since; '' when nothing has.

        With `kills` False the kernel's kills for lack of memory are ignored, for callers who know that none hit their own
        processes.
        """
        disk = os.statvfs(self._directory)
        if disk.f_bavail * disk.f_frsize < _MIN_FREE or (disk.f_files and not disk.f_favail):
            return f"{SHORTAGES[errno.ENOSPC]} of {self._directory}"
        grown = (_COUNTERS[path][1] for path, before in self._counts_before.items() if _count(path) > before)
        return next((meaning for meaning in grown if kills or meaning != _OUT_OF_MEMORY), "")

    def explanation_of(self, failure: str, *, kills: bool = True) -> str:
        """Return in words the shortage that may be why a node ended with this failure message; '' when there is none.

        That is a SIGKILL from outside, what the machine has run out of, or what the message quotes. A node that was over a limit
        of its own description has no excuse. With `kills` False the kernel's kills for lack of memory are ignored.
        """
        if exceeded_own_limit(failure):
            return ""
        if failure.startswith(KILLED_EXTERNALLY):
            return KILLED_EXTERNALLY
        quoted = next((text for text in _IN_NODE_LOGS if text in failure), "")
        return self.shortage(kills=kills) or quoted


def exceeded_own_limit(failure: str) -> bool:
    """Whether a node's failure message says that it was killed for being over a limit of its description."""
    return _OWN_LIMIT in failure


def read_counter(file: Path, name: str) -> int | None:
    """Return a counter of the kernel from a file of lines `name value`; None when the file or the name does not exist."""
    try:
        values = dict(line.split()[:2] for line in file.read_text("ascii").splitlines() if " " in line)
    except OSError:  # the kernel has no such controller here
        return None
    return int(values[name]) if name in values else None


def _count(path: Path) -> int:
    """Return the present value of one of `_COUNTERS`; 0 where the kernel does not have it."""
    return read_counter(path, _COUNTERS[path][0]) or 0


_PACKAGE = Path(__file__).parent


def describe_harness_error(error: BaseException) -> str:
    """Return a sentence about an exception that the harness did not expect: its message, and the shortage or the place.

    The place is the innermost frame in this package, or without one the innermost of all.
    """
    message = " ".join(traceback.format_exception_only(error)[-1].split())
    if shortage := shortage_of(error):
        return f"the machine ran out of something: {shortage} ({message})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)] or frames
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name})" if own else ""
    return f"the harness itself broke: {message}{place}"
