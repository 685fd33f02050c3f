"""Directories in memory (/dev/shm) for the data of nodes that live in this process.

A node syncs its queue database before each acknowledgement. For a node in this process a disk would prove nothing, since it
cannot outlive the process, and would take most of a cell's time.

Each process has a directory of its own, which it locks and removes at its end. A process that was killed leaves its
directory: the next one that makes a directory removes those that are not locked.
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

SHARED = Path("/dev/shm")  # noqa: S108  # a file system in memory, on every Linux


def make_directory(prefix: str, fallback: Path) -> Path:
    """Make a new directory in memory, or in `fallback` where memory cannot be used, and return it; the caller removes it.

    Its name begins with `prefix`.
    """
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_process_directory() or fallback))


@functools.cache
def _process_directory() -> Path | None:
    """Make and return the directory of this process, locked until its end, and remove those of processes that are gone.

    Return None when there is no memory that can be used. Later calls return the same, without blocking. The directory is removed at
    the end of the process. The first call blocks while another process makes or removes directories.
    """
    home = SHARED / f"conformance-{os.getuid()}"
    home_lock = _open_home(home)
    if home_lock is None:
        return None
    fcntl.flock(home_lock, fcntl.LOCK_EX)  # no other process may remove the new directory before it is locked
    for directory in home.iterdir():
        if (lock := _lock(directory)) is not None:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)
    own = Path(tempfile.mkdtemp(dir=home))
    assert _lock(own) is not None  # never closed: the lock is held until the process ends
    os.close(home_lock)
    atexit.register(_remove, own, os.getpid())
    return own


def _open_home(home: Path) -> int | None:
    """Open `home`, the directory that has those of all processes of this user, make it if needed, and return its descriptor.

    Return None where there is no such memory, and where another user has made a directory of that name or can enter it:
    then data are put on the disk, and no other user can block this process by a lock.
    """
    try:
        with contextlib.suppress(FileExistsError):
            home.mkdir(mode=0o700)
        descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if status.st_uid == os.getuid() and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return descriptor
    os.close(descriptor)
    return None


def _lock(directory: Path) -> int | None:
    """Lock a directory and return the open descriptor, which holds the lock until it is closed.

    Return None when another process has locked the directory, or has just removed it.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _remove(directory: Path, pid: int) -> None:
    """Remove a directory when the process with this id ends, but not when a child that it has forked does."""
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)
