"""Memory in place of a disk, for the data of nodes that live in this process: they cannot outlive it.

A node syncs its queue database before each acknowledgement, and most of a cell's time in a disk's queue would prove
nothing: only a process of its own can be killed and find on disk what it had synced.
"""

import atexit
import fcntl
import functools
import os
import shutil
import tempfile
from pathlib import Path

SHARED = Path("/dev/shm")  # noqa: S108  # memory that has names, on every Linux
_PREFIX = f"conformance-{os.getuid()}-"


def make_directory(prefix: str, fallback: Path) -> Path:
    """Make a new directory in memory, or below `fallback` where there is none. Whoever asked removes it.

    A process that is killed leaves its directories; the next one that asks removes them.
    """
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_own() or fallback))


@functools.cache
def _own() -> Path | None:
    """Return this process's directory, locked for as long as it lives; None without memory to use."""
    if not os.access(SHARED, os.W_OK):
        return None
    with (SHARED / f"{_PREFIX}lock").open("w") as door:  # so that nobody takes a directory for left that is being made
        fcntl.flock(door, fcntl.LOCK_EX)
        for left in SHARED.glob(f"{_PREFIX}*/"):
            if (lock := _locked(left)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)
        own = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=SHARED))
        assert _locked(own) is not None  # until the process ends
    atexit.register(_remove, own, os.getpid())
    return own


def _locked(directory: Path) -> int | None:
    """Lock a directory and return its descriptor, or None when another process holds it."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _remove(own: Path, pid: int) -> None:
    if os.getpid() == pid:  # not in a child that was forked
        shutil.rmtree(own, ignore_errors=True)
