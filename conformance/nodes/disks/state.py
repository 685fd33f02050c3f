"""The file that the layers of a node's processes share: faults and counters, the inodes that are its own, and the log.

Its layout is that of `layer_c/layer.h`. It is read and written here only while no process of the node is in it, but for
the fields of the faults.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_SIZE = 1 << 36
_TABLE_AT, _TABLE_SIZE, _ENTRY = 4096, 1 << 21, struct.Struct("<QQ")
_LOG_AT = _TABLE_AT + _TABLE_SIZE * _ENTRY.size
_HEAD = struct.Struct("<QIIqQQQIIII")
_PREPARED_AT = 60
_SLOW_AT, _SYNC_FAILS_AT, _WRITES_LEFT_AT = 8, 12, 16
_COUNTERS_AT, _COUNTERS = 24, struct.Struct("<QQQ")
_BLIND_AT, _BLIND_SIZE = 128, 512
_RECORD = struct.Struct("<IHHQQQIIIIQQ")
_STATUS_AT = 6
BLOCK = 4096
_MOST_BLOCKS = _SIZE // BLOCK


class Kind(IntEnum):
    """What a record tells."""

    CREATE = 1
    RENAME = 2
    LINK = 3
    UNLINK = 4
    SYNC = 5
    DATASYNC = 6
    SYNC_DIRECTORY = 7
    SYNC_ALL = 8
    EXCHANGE = 9


class Status(IntEnum):
    """What came of it; what is begun only was interrupted by the end of its process."""

    BEGUN = 1
    DONE = 2
    FAILED = 3


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the log; directories and inodes by their numbers, 0 for a directory that is not below `data`.

    `other` is the name that something got, or the target of a symbolic link. Of a file's content that was synced: its
    `length` in octets, a hash for each block, and where the blocks are that differ from those of the record at `base`.
    """

    at: int
    kind: Kind
    status: Status
    ino: int
    directory: int
    to_directory: int
    mode: int
    uid: int
    gid: int
    length: int
    base: int
    name: str
    other: str
    hashes: tuple[int, ...]
    blocks_at: int


@dataclass(frozen=True, slots=True)
class FaultCounts:
    """How often processes of the node have met each fault."""

    slow_syncs: int = 0
    failed_syncs: int = 0
    refused_writes: int = 0


class State:
    """The file; its processes map it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def exists(self) -> bool:
        """Whether it was made."""
        return self._path.exists()

    def make(self, inodes: Iterable[int], *, records: bool, whole_device: bool) -> None:
        """Make it anew, with these inodes as the node's own. Faults of an earlier one go on, and so do its counters."""
        before = self._fault_fields() if self.exists else struct.pack("<IIqQQQ", 0, 0, -1, 0, 0, 0)
        self._path.unlink(missing_ok=True)
        table: dict[int, int] = {}
        with self._path.open("w+b") as file:
            file.truncate(_SIZE)
            self._path.chmod(0o666)  # servers give up their rights
            os.pwrite(file.fileno(), struct.pack("<Q", _LOG_AT) + before, 0)
            os.pwrite(file.fileno(), struct.pack("<IIII", records, whole_device, 0, 0), 48)
            for ino in inodes:
                at = ((ino * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 43) % _TABLE_SIZE
                while table.setdefault(at, ino) != ino:
                    at = (at + 1) % _TABLE_SIZE
                os.pwrite(file.fileno(), _ENTRY.pack(ino, 1), _TABLE_AT + at * _ENTRY.size)

    def remove(self) -> None:
        """Remove it."""
        self._path.unlink(missing_ok=True)

    def free_lock(self) -> None:
        """Have the next process make the lock anew: nobody holds it, all are dead."""
        self._write(_PREPARED_AT, struct.pack("<I", 0))

    def slow_syncs(self, seconds: float) -> None:
        """Have every sync take so much longer; 0 for no longer."""
        self._write(_SLOW_AT, struct.pack("<I", round(seconds * 1000)))

    def fail_syncs(self, *, fails: bool) -> None:
        """Have every sync fail, or none."""
        self._write(_SYNC_FAILS_AT, struct.pack("<I", fails))

    def refuse_writes(self, after: int | None) -> None:
        """Have every write fail that comes after so many; None for none."""
        self._write(_WRITES_LEFT_AT, struct.pack("<q", -1 if after is None else after))

    @property
    def fault_counts(self) -> FaultCounts:
        """How often faults were met."""
        return (
            FaultCounts(*_COUNTERS.unpack(self._read(_COUNTERS_AT, _COUNTERS.size))) if self.exists else FaultCounts()
        )

    @property
    def blind(self) -> str:
        """What the layer could not see, the first of it; '' when there was nothing."""
        return self._read(_BLIND_AT, _BLIND_SIZE).partition(b"\0")[0].decode(errors="replace").strip()

    def records(self) -> Iterator[Record]:
        """Yield the log. Raises ValueError and struct.error when it is none: the node's processes can write to it."""
        (end,) = struct.unpack("<Q", self._read(0, 8))
        at = _LOG_AT
        while at < end:
            record, size = self._record(at)
            if size < _RECORD.size:
                raise ValueError("a record that has no length")
            yield record
            at += size

    def settle(self, record: Record, status: Status, ino: int, mode: int) -> None:
        """Say what came of a record that was begun only."""
        self._write(record.at + _STATUS_AT, struct.pack("<H", status))
        self._write(record.at + 8, struct.pack("<Q", ino))
        self._write(record.at + 32, struct.pack("<I", mode))

    def block(self, at: int) -> bytes:
        """Return a block of a file's content."""
        return self._read(at, BLOCK)

    def _record(self, at: int) -> tuple[Record, int]:
        size, kind, status, ino, directory, to, mode, uid, gid, blocks, length, base = _RECORD.unpack(
            self._read(at, _RECORD.size)
        )
        if blocks > _MOST_BLOCKS:
            raise ValueError(f"a file of {blocks} blocks")
        names = at + _RECORD.size
        name, after = self._name(names)
        if "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError(f"a name that leads elsewhere: {name[:80]!r}")
        other, after = self._name(after)
        if kind != Kind.CREATE and ("/" in other or other in (".", "..")):  # of a link that is created, its target
            raise ValueError(f"a name that leads elsewhere: {other[:80]!r}")
        hashes_at = (after + 7) & ~7
        hashes = struct.unpack(f"<{blocks}Q", self._read(hashes_at, blocks * 8)) if blocks else ()
        record = Record(
            at, Kind(kind), Status(status), ino, directory, to, mode, uid, gid, length, base, name, other, hashes,
            hashes_at + blocks * 8,
        )  # fmt: skip
        return record, size

    def _name(self, at: int) -> tuple[str, int]:
        (length,) = struct.unpack("<H", self._read(at, 2))
        return os.fsdecode(self._read(at + 2, length)), at + 2 + length

    def _fault_fields(self) -> bytes:
        return self._read(_SLOW_AT, 40)

    def _read(self, at: int, size: int) -> bytes:
        with self._path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, at)

    def _write(self, at: int, data: bytes) -> None:
        with self._path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), data, at)
