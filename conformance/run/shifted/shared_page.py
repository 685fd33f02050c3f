"""The memory that the harness shares with the programs of a node; `shim/shim.h` has the same layout in C.

The harness writes the offset of the clock, each jump with its moment, and the epoch: a number that it increments to ask
every thread whether it has found nothing to do since. A program's threads write slots: until when they wait, and the last
epoch in which they had nothing to do. The *shim* is the C library that is preloaded into the programs and adds the offset to
their clocks.
"""

import mmap
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NEVER = 2**63 - 1
"""The deadline of a wait without a time limit, nanoseconds."""

_HEADER_OCTETS = 64
_MAX_SLOTS = 256
_MAX_JUMPS = 65536
_OFFSET = struct.Struct("q")
_EPOCH = struct.Struct("Q")
_UNSHIFTED = struct.Struct("Q")
_JUMP_COUNT = struct.Struct("Q")
_SLOT = struct.Struct("iiQqQ")
_JUMP = struct.Struct("qq")

_AT_EPOCH = _OFFSET.size
_AT_UNSHIFTED = _AT_EPOCH + _EPOCH.size
_AT_JUMP_COUNT = _AT_UNSHIFTED + _UNSHIFTED.size
_AT_JUMPS = _HEADER_OCTETS + _MAX_SLOTS * _SLOT.size

_TICK_POLL_S = 0.0005
"""Real seconds between two checks whether the clock has ticked."""

_FILE_CLOCK = 5
"""CLOCK_REALTIME_COARSE, with which the kernel stamps files (time(7))."""

UNSHIFTED_WAITS = (
    "a time limit on reading a socket (SO_RCVTIMEO)",
    "a time limit on writing to a socket (SO_SNDTIMEO)",
    "a time limit of TCP (TCP_USER_TIMEOUT)",
    "a time limit on taking a mutex",
    "a time limit on a set of semaphores",
    "a time limit on a message queue",
    "a time limit on a read-write lock",
)
"""What the shim cannot shift, in the order of the bits with which `shim/unshifted.c` reports it."""


def wait_for_tick() -> int:
    """Block until the next tick of the clock that stamps files, and return its time, nanoseconds.

    That takes up to 4 ms (a kernel of 250 Hz). Files made right before a jump have other times than files made right after it
    only when there is a tick in between.
    """
    before = now = time.clock_gettime_ns(_FILE_CLOCK)
    while now == before:
        time.sleep(_TICK_POLL_S)
        now = time.clock_gettime_ns(_FILE_CLOCK)
    return now


class Slot(NamedTuple):
    """The state of a thread as it writes it: `waits` is 1 while it waits in a call that the shim knows.

    `seen` is the last epoch in which the thread had nothing to do, `deadline` until when it waits (nanoseconds of the
    shifted monotonic clock, or NEVER), and `woken` how often a wait of it has ended. `tid` is its id in its own namespace.
    """

    tid: int
    waits: int
    seen: int
    deadline: int
    woken: int


class SharedPage:
    """A page of shared memory in a file that every user may map: servers change users after they have started."""

    def __init__(self, path: Path) -> None:
        """Create the file, or empty an existing one, and map it: the offset is 0, and no thread has a slot."""
        self.path = path
        size = _AT_JUMPS + _MAX_JUMPS * _JUMP.size
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            os.fchmod(descriptor, 0o666)
            os.ftruncate(descriptor, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self._epoch = self._jumps = 0

    def close(self) -> None:
        """Unmap the page in the harness; programs keep their mappings, and the file stays."""
        self._map.close()

    def set_offset(self, nanoseconds: int, since: int) -> None:
        """Set what the shim adds to the machine's clocks, and add it to the page's list of jumps, for the times of files.

        To the time of a file the shim adds the offset that was in force when the kernel stamped it. `since` is the time of
        the last tick of the clock that stamps files, nanoseconds. When the list is full (_MAX_JUMPS), the new jump takes the place
        of the last.
        """
        index = min(self._jumps, _MAX_JUMPS - 1)
        self._jumps = index + 1
        _JUMP.pack_into(self._map, _AT_JUMPS + index * _JUMP.size, since, nanoseconds)
        _JUMP_COUNT.pack_into(self._map, _AT_JUMP_COUNT, self._jumps)
        _OFFSET.pack_into(self._map, 0, nanoseconds)

    @property
    def unshifted_waits(self) -> str:
        """What the programs have asked for that the shim cannot shift, separated by commas; "" when nothing."""
        bits: int = _UNSHIFTED.unpack_from(self._map, _AT_UNSHIFTED)[0]
        return ", ".join(name for bit, name in enumerate(UNSHIFTED_WAITS) if bits >> bit & 1)

    def begin_epoch(self) -> int:
        """Begin a new epoch and return its number.

        Each waiting thread writes it to its slot once it has found that it has nothing to do.
        """
        self._epoch += 1
        _EPOCH.pack_into(self._map, _AT_EPOCH, self._epoch)
        return self._epoch

    def slots(self) -> Iterator[Slot]:
        """Yield the slots in use; some may belong to threads that were killed."""
        for fields in _SLOT.iter_unpack(self._map[_HEADER_OCTETS:_AT_JUMPS]):
            if fields[0]:
                yield Slot._make(fields)
