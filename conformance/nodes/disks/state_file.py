"""The file that the layers in a node's processes map and share: faults, counters, a table of inodes, and the log.

`layer_c/layer.h` has the same layout. The harness reads and writes the file only while no process of the node runs, except
the fields of the faults. The node's processes can write anything to it, so records are checked when they are read.

A *layer* is a library between a program of the node and its C library. A *record* of the log is one call of the node
that changed or synced files. A *fault* is a call that the layer delays or makes fail. Offsets are in octets from the
beginning of the file.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

# Sizes and offsets in octets, as in `layer_c/layer.h`; the file is sparse.
_SIZE = 1 << 36
_TABLE_AT, _TABLE_SIZE, _ENTRY = 4096, 1 << 21, struct.Struct("<QQ")
_LOG_AT = _TABLE_AT + _TABLE_SIZE * _ENTRY.size
_HEAD = struct.Struct("<QIIqQQQIIII")
_PREPARED_AT = 60
_SLOW_AT, _SYNC_FAILS_AT, _WRITES_LEFT_AT = 8, 12, 16
_COUNTERS_AT, _COUNTERS = 24, struct.Struct("<QQQ")
_UNOBSERVED_AT, _UNOBSERVED_SIZE = 128, 512
_RECORD = struct.Struct("<IHHQQQIIIIQQ")
_STATUS_AT, _INO_AT, _MODE_AT = 6, 8, 32
BLOCK = 4096
_MAX_BLOCKS = _SIZE // BLOCK


class Operation(IntEnum):
    """The kind of call that a record is of."""

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
    """Whether a recorded call succeeded; one that is only begun was interrupted by the end of its process."""

    BEGUN = 1
    DONE = 2
    FAILED = 3


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the log.

    Inodes and directories are given by their inode numbers, 0 for a directory outside the data directory. `other` is the
    new name of a rename or link, or the target of a new symbolic link. For the sync of a file `length` is its size in
    octets, `hashes` has one hash for each block, and `blocks_at` is the offset of those blocks whose hash differs from
    that in the record at offset `base` (0: of no record, so all blocks follow).
    """

    at: int
    """The offset of the record."""
    operation: Operation
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


class StateFile:
    """The file at `path`, which may not exist yet; offsets in it are in octets. A change of a fault has effect at once.

    Until `create` was called, all but `exists`, `remove` and `fault_counts` raise FileNotFoundError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._path.exists()

    def create(self, inodes: Iterable[int], *, records: bool, whole_device: bool) -> None:
        """Make the file anew with an empty log; faults and counters of an earlier file are kept.

        `inodes` are the numbers of the inodes below the data directory; `records`: whether calls are logged; `whole_device`:
        whether every inode of the device counts as one of them.
        """
        # A new file: no delay, no failing syncs, no limit on writes (-1), and nothing counted.
        before = self._fault_fields() if self.exists else struct.pack("<IIqQQQ", 0, 0, -1, 0, 0, 0)
        self._path.unlink(missing_ok=True)
        table: dict[int, int] = {}
        with self._path.open("w+b") as file:
            file.truncate(_SIZE)
            self._path.chmod(0o666)  # servers drop their privileges
            os.pwrite(file.fileno(), struct.pack("<Q", _LOG_AT) + before, 0)
            os.pwrite(file.fileno(), struct.pack("<IIII", records, whole_device, 0, 0), 48)
            for ino in inodes:  # an open hash table, as in `entry_of` of layer_c/log.c
                at = ((ino * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 43) % _TABLE_SIZE
                while table.setdefault(at, ino) != ino:
                    at = (at + 1) % _TABLE_SIZE
                os.pwrite(file.fileno(), _ENTRY.pack(ino, 1), _TABLE_AT + at * _ENTRY.size)

    def remove(self) -> None:
        """Remove the file, if it exists."""
        self._path.unlink(missing_ok=True)

    def reset_lock(self) -> None:
        """Have the next process create the lock anew, since all processes that could hold it are dead."""
        self._write(_PREPARED_AT, struct.pack("<I", 0))

    def delay_syncs(self, seconds: float) -> None:
        """Delay every sync by this many seconds of real time; 0: not at all."""
        self._write(_SLOW_AT, struct.pack("<I", round(seconds * 1000)))

    def fail_syncs(self, *, fails: bool) -> None:
        """Make every sync fail with EIO, or none."""
        self._write(_SYNC_FAILS_AT, struct.pack("<I", fails))

    def refuse_writes(self, after: int | None) -> None:
        """Make every write fail with ENOSPC after this many have succeeded; None: none fails."""
        self._write(_WRITES_LEFT_AT, struct.pack("<q", -1 if after is None else after))

    @property
    def fault_counts(self) -> FaultCounts:
        """How often the node's processes have met each fault."""
        return (
            FaultCounts(*_COUNTERS.unpack(self._read(_COUNTERS_AT, _COUNTERS.size))) if self.exists else FaultCounts()
        )

    @property
    def unobserved(self) -> str:
        """The first thing that the layer could not observe, in words; '' when it has observed everything."""
        return self._read(_UNOBSERVED_AT, _UNOBSERVED_SIZE).partition(b"\0")[0].decode(errors="replace").strip()

    def records(self) -> Iterator[Record]:
        """Yield all records in their order. Raises ValueError and struct.error when the log is damaged."""
        (end,) = struct.unpack("<Q", self._read(0, 8))
        at = _LOG_AT
        while at < end:
            record, size = self._record(at)
            if size < _RECORD.size:
                raise ValueError("a record that has no length")
            yield record
            at += size

    def set_outcome(self, record: Record, status: Status, ino: int, mode: int) -> None:
        """Complete the record of an interrupted call, written before its outcome, inode and mode were known."""
        self._write(record.at + _STATUS_AT, struct.pack("<H", status))
        self._write(record.at + _INO_AT, struct.pack("<Q", ino))
        self._write(record.at + _MODE_AT, struct.pack("<I", mode))

    def block(self, at: int) -> bytes:
        """Return the block of a file's content at this offset."""
        return self._read(at, BLOCK)

    def _record(self, at: int) -> tuple[Record, int]:
        """Return the record at an offset, and its size. Raises ValueError or struct.error when it is damaged."""
        size, operation, status, ino, directory, to, mode, uid, gid, blocks, length, base = _RECORD.unpack(
            self._read(at, _RECORD.size)
        )
        if blocks > _MAX_BLOCKS:
            raise ValueError(f"a file of {blocks} blocks")
        names = at + _RECORD.size
        name, after = self._name(names)
        if "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError(f"a name that leads elsewhere: {name[:80]!r}")
        other, after = self._name(after)
        if operation != Operation.CREATE and (
            "/" in other or other in (".", "..")
        ):  # CREATE: the target of a symbolic link
            raise ValueError(f"a name that leads elsewhere: {other[:80]!r}")
        hashes_at = (after + 7) & ~7
        hashes = struct.unpack(f"<{blocks}Q", self._read(hashes_at, blocks * 8)) if blocks else ()
        record = Record(
            at=at, operation=Operation(operation), status=Status(status), ino=ino, directory=directory, to_directory=to,
            mode=mode, uid=uid, gid=gid, length=length, base=base, name=name, other=other, hashes=hashes,
            blocks_at=hashes_at + blocks * 8,
        )  # fmt: skip
        return record, size

    def _name(self, at: int) -> tuple[str, int]:
        """Return the name at an offset, and the offset after it."""
        (length,) = struct.unpack("<H", self._read(at, 2))
        return os.fsdecode(self._read(at + 2, length)), at + 2 + length

    def _fault_fields(self) -> bytes:
        """Return the octets of the fields that describe and count faults."""
        return self._read(_SLOW_AT, 40)

    def _read(self, at: int, size: int) -> bytes:
        """Return up to `size` octets from an offset of the file on."""
        with self._path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, at)

    def _write(self, at: int, data: bytes) -> None:
        """Overwrite the octets at an offset of the file."""
        with self._path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), data, at)
