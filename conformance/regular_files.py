"""Reads files that others wrote: regular ones only, without waiting, and no more octets than a bound.

A FIFO without a writer blocks for ever, a device has no end, a directory is none of these: each is an OSError here.
"""

import errno
import os
import stat
from pathlib import Path

MAX_OCTETS = 2**29
"""Octets of a file of a run directory that are read: 512 MiB, thirty times the longest history of the corpus."""


def read_regular(path: Path, most: int = MAX_OCTETS) -> bytes:
    """Return the content of a regular file. Raises OSError: no such file, no regular one, or more than `most` octets."""
    with open(path, "rb", opener=open_regular) as file:
        octets = file.read(most + 1)
    if len(octets) > most:
        raise OSError(errno.EFBIG, f"the file is too large: at most {most} octets are read", str(path))
    return octets


def open_regular(path: str, flags: int) -> int:
    """Open a file without waiting for a writer. Raises OSError where it is not a regular file."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor
