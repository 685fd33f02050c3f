"""Reads files that other programs wrote: regular files only, without blocking, and up to a maximum size.

Opening a FIFO without a writer blocks for ever, and a device has no end. Here both, like a directory, are an OSError.
"""

import errno
import os
import stat
from pathlib import Path

MAX_OCTETS = 2**29
"""The largest file of a run directory that is read, in octets: 512 MiB, thirty times the longest history of the corpus."""


def read_regular(path: Path, max_octets: int = MAX_OCTETS) -> bytes:
    """Return the content of a regular file. Raises OSError when it is missing, not regular, larger than `max_octets`."""
    with open(path, "rb", opener=open_regular) as file:
        octets = file.read(max_octets + 1)
    if len(octets) > max_octets:
        raise OSError(errno.EFBIG, f"the file is too large: at most {max_octets} octets are read", str(path))
    return octets


def open_regular(path: str, flags: int) -> int:
    """Open a regular file without blocking and return its descriptor; an `opener` for `open`, which passes `flags`.

    Raises OSError for anything that is not a regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor
