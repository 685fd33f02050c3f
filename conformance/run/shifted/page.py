"""The page that the harness shares with the programs it moves in time; the layout is that of `shim.c`."""

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NEVER = 2**63 - 1
"""The deadline of whoever waits without one, nanoseconds."""

_HEADER = 64
_SLOTS = 256
_OFFSET = struct.Struct("q")
_EPOCH = struct.Struct("Q")
_SLOT = struct.Struct("iiQqq")


class Slot(NamedTuple):
    """What a thread says of itself: whether it waits, the last epoch that found it with nothing to do, and until when.

    `deadline` is in nanoseconds of the shifted monotonic clock.
    """

    tid: int
    waits: int
    seen: int
    deadline: int
    spare: int


class Page:
    """A page in a file of its own, which every user may map: servers change users after they have begun."""

    def __init__(self, path: Path) -> None:
        self.path = path
        size = _HEADER + _SLOTS * _SLOT.size
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            os.fchmod(handle, 0o666)
            os.ftruncate(handle, size)
            self._map = mmap.mmap(handle, size)
        finally:
            os.close(handle)
        self._epoch = 0

    def close(self) -> None:
        """Unmap it; programs keep theirs."""
        self._map.close()

    def set_offset(self, nanoseconds: int) -> None:
        """Set what is added to the machine's clocks."""
        _OFFSET.pack_into(self._map, 0, nanoseconds)

    def ask(self) -> int:
        """Begin a new epoch and return it: every waiting thread notes when it has seen it with nothing to do."""
        self._epoch += 1
        _EPOCH.pack_into(self._map, _OFFSET.size, self._epoch)
        return self._epoch

    def slots(self) -> Iterator[Slot]:
        """Yield the slots in use; some may be of threads that are gone."""
        for fields in _SLOT.iter_unpack(self._map[_HEADER:]):
            if fields[0]:
                yield Slot._make(fields)
