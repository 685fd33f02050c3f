"""Memory in place of a disk, for the data of nodes that live in this process: they cannot outlive it.

A node syncs its queue database before each acknowledgement, and most of a cell's time in a disk's queue would prove
nothing: only a process of its own can be killed and find on disk what it had synced.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import stat
import tempfile
from pathlib import Path

SHARED = Path("/dev/shm")  # noqa: S108  # memory that has names, on every Linux


def make_directory(prefix: str, fallback: Path) -> Path:
    """Make a new directory in memory, or below `fallback` where there is none. Whoever asked removes it.

    A process that is killed leaves its directories; the next one that asks removes them.
    """
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_own() or fallback))


@functools.cache
def _own() -> Path | None:
    """Return this process's directory, locked for as long as it lives; None without memory to use."""
    home = SHARED / f"conformance-{os.getuid()}"
    door = _opened(home)
    if door is None:
        return None
    fcntl.flock(door, fcntl.LOCK_EX)  # so that no directory is taken for left that is being made
    for left in home.iterdir():
        if (lock := _locked(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
    own = Path(tempfile.mkdtemp(dir=home))
    assert _locked(own) is not None  # until the process ends
    os.close(door)
    atexit.register(_remove, own, os.getpid())
    return own


def _opened(home: Path) -> int | None:
    """Open the directory in memory that only this user can enter, and make it where it is not there.

    Return None where there is no such memory, or where another user has taken the name: then the data lie on the disk,
    and nobody can keep us waiting at a lock.
    """
    try:
        with contextlib.suppress(FileExistsError):
            home.mkdir(mode=0o700)
        handle = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    found = os.fstat(handle)
    if found.st_uid == os.getuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return handle
    os.close(handle)
    return None


def _locked(directory: Path) -> int | None:
    """Lock a directory and return its descriptor, or None when another process holds it, or has just removed it: each
    removes its own as it ends, whoever looks for what is left meanwhile."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _remove(own: Path, pid: int) -> None:
    if os.getpid() == pid:  # not in a child that was forked
        shutil.rmtree(own, ignore_errors=True)
