"""The page that the harness shares with the programs it moves in time; the layout is that of `shim/shim.h`."""

import mmap
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NEVER = 2**63 - 1
"""The deadline of whoever waits without one, nanoseconds."""

_HEADER = 64
_SLOTS = 256
_OFFSET = struct.Struct("q")
_EPOCH = struct.Struct("Q")
_UNMOVED = struct.Struct("Q")
_JUMPED = struct.Struct("Q")
_SLOT = struct.Struct("iiQqQ")
_JUMP = struct.Struct("qq")
_JUMPS = 65536

_TICK = 0.0005
"""Real seconds between two looks whether the kernel's clock has ticked."""

_OF_FILES = 5
"""CLOCK_REALTIME_COARSE: what the kernel stamps files with (time(7))."""

UNMOVED = (
    "a time limit on reading a socket (SO_RCVTIMEO)",
    "a time limit on writing to a socket (SO_SNDTIMEO)",
    "a time limit of TCP (TCP_USER_TIMEOUT)",
    "a time limit on taking a mutex",
    "a time limit on a set of semaphores",
    "a time limit on a message queue",
)
"""What the shim cannot move, by the bits of the page."""


_AT_UNMOVED = _OFFSET.size + _EPOCH.size
_AT_JUMPED = _AT_UNMOVED + _UNMOVED.size
_TABLE = _HEADER + _SLOTS * _SLOT.size


def wait_for_tick() -> int:
    """Wait for the next tick of the clock that the kernel stamps files with (4 ms at most, where it is 250 Hz), and
    return its time, nanoseconds: what was made right before a jump is told from what is made right after it only when
    there is a tick between."""
    before = moment = time.clock_gettime_ns(_OF_FILES)
    while moment == before:
        time.sleep(_TICK)
        moment = time.clock_gettime_ns(_OF_FILES)
    return moment


class Slot(NamedTuple):
    """What a thread says of itself: whether it waits, the last epoch that found it with nothing to do, until when, and
    how often a wait of it has ended.

    `deadline` is in nanoseconds of the shifted monotonic clock.
    """

    tid: int
    waits: int
    seen: int
    deadline: int
    woken: int


class SharedPage:
    """A page in a file of its own, which every user may map: servers change users after they have begun."""

    def __init__(self, path: Path) -> None:
        self.path = path
        size = _TABLE + _JUMPS * _JUMP.size
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            os.fchmod(handle, 0o666)
            os.ftruncate(handle, size)
            self._map = mmap.mmap(handle, size)
        finally:
            os.close(handle)
        self._epoch = self._jumps = 0

    def close(self) -> None:
        """Unmap it; programs keep theirs."""
        self._map.close()

    def set_offset(self, nanoseconds: int, moment: int) -> None:
        """Set what is added to the machine's clocks, and note since when, for the times of files: since the `moment` of
        the last tick, nanoseconds.

        Of more jumps than the page has room for, the last takes the place of the one before.
        """
        place = min(self._jumps, _JUMPS - 1)
        self._jumps = place + 1
        _JUMP.pack_into(self._map, _TABLE + place * _JUMP.size, moment, nanoseconds)
        _JUMPED.pack_into(self._map, _AT_JUMPED, self._jumps)
        _OFFSET.pack_into(self._map, 0, nanoseconds)

    @property
    def unmoved(self) -> str:
        """What a program asked for that is not moved, in words; '' when all was."""
        bits: int = _UNMOVED.unpack_from(self._map, _AT_UNMOVED)[0]
        return ", ".join(words for place, words in enumerate(UNMOVED) if bits >> place & 1)

    def ask(self) -> int:
        """Begin a new epoch and return it: every waiting thread notes when it has seen it with nothing to do."""
        self._epoch += 1
        _EPOCH.pack_into(self._map, _OFFSET.size, self._epoch)
        return self._epoch

    def slots(self) -> Iterator[Slot]:
        """Yield the slots in use; some may be of threads that are gone."""
        for fields in _SLOT.iter_unpack(self._map[_HEADER:_TABLE]):
            if fields[0]:
                yield Slot._make(fields)
