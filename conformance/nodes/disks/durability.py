"""What a power cut leaves: the names and contents that the log of a layer proves to be durable.

The persistence model is written in the head of `layer_c/layer.h`; this is the code of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISSOCK

from conformance.nodes.disks.state import BLOCK, Kind, Record, Status
from conformance.scenarios.steps.nodes import SurvivingNames

ROOT = 0
"""The identity of the data directory itself."""


@dataclass(slots=True)
class Content:
    """What is durable of a file's content: octets in blocks of the log, or a copy that was made before the start."""

    length: int
    hashes: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    copy: Path | None = None


@dataclass(slots=True)
class Inode:
    """A file, directory or the like; a number is used again, an Inode is not."""

    number: int
    mode: int
    uid: int
    gid: int
    target: str = ""
    content: Content | None = None
    at: int = 0
    """Where the record of its last sync is."""


@dataclass(slots=True)
class _Change:
    """A change of names: which names stand for what afterwards (None: for nothing), and which inodes it is about."""

    number: int
    names: tuple[tuple[tuple[int, str], int | None], ...]
    about: tuple[int, ...]
    durable: bool = False


@dataclass
class History:
    """Replays records; `inodes` has everything by its identity, `names` what stands for what now."""

    inodes: dict[int, Inode]
    names: dict[tuple[int, str], int]
    begun: list[tuple[Record, int | None, int | None]] = field(default_factory=list)
    """Records that were begun only, with the identities of their two directories then."""

    def __post_init__(self) -> None:
        self._baseline = dict(self.names)
        self._by_number = {inode.number: one for one, inode in self.inodes.items()}
        self._names_of: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
        for place, one in self.names.items():
            self._names_of[one].add(place)
        self._changes: list[_Change] = []
        self._of_place: defaultdict[tuple[int, str], list[_Change]] = defaultdict(list)
        self._of_inode: defaultdict[int, list[_Change]] = defaultdict(list)
        self._of_directory: defaultdict[int, list[_Change]] = defaultdict(list)
        self._promised: dict[int, dict[str, int]] = self._by_directory(self.names)

    def replay(self, records: Iterable[Record]) -> None:
        """Go through all records."""
        for record in records:
            if record.status is Status.DONE:
                self._do(record)
            elif record.status is Status.BEGUN:
                known = self._by_number.get
                self.begun.append((record, known(record.directory), known(record.to_directory)))

    def durable(self, keeps: SurvivingNames) -> dict[tuple[int, str], int]:
        """Return the names that a power cut leaves now."""
        if keeps == "what-posix-promises":
            return {(where, name): one for where, names in self._promised.items() for name, one in names.items()}
        left = dict(self._baseline)
        for change in self._changes:
            if change.durable:
                for place, one in change.names:
                    if one is None:
                        left.pop(place, None)
                    else:
                        left[place] = one
        return left

    def _do(self, record: Record) -> None:
        match record.kind:
            case Kind.CREATE:
                one = self._new(record)
                self._change(self._names((record.directory, record.name, one)), one)
            case Kind.LINK:
                one = self._found(record)
                self._change(self._names((record.to_directory, record.other, one)), one)
            case Kind.RENAME:
                one = self._found(record)
                names = self._names((record.directory, record.name, None), (record.to_directory, record.other, one))
                replaced = self.names.get(names[-1][0]) if names else None
                self._change(names, one, *([] if replaced is None else [replaced]))
            case Kind.EXCHANGE:
                one = self._found(record)
                other = next(
                    (self.names.get(place) for place, _ in self._names((record.to_directory, record.other, None))), None
                )
                names = self._names((record.directory, record.name, other), (record.to_directory, record.other, one))
                self._change(names, one, *([] if other is None else [other]))
            case Kind.UNLINK:
                names = self._names((record.directory, record.name, None))
                one = self._by_number.get(record.ino, -1)
                self._change(names, one)
            case Kind.SYNC | Kind.DATASYNC:
                self._synced(record)
            case Kind.SYNC_DIRECTORY:
                self._directory_synced(self._found(record))
            case Kind.SYNC_ALL:
                for change in self._changes:
                    change.durable = True
                self._promised = self._by_directory(self.names)

    def _new(self, record: Record) -> int:
        one = len(self.inodes)
        self.inodes[one] = Inode(record.ino, record.mode, record.uid, record.gid, record.other)
        self._by_number[record.ino] = one
        return one

    def _found(self, record: Record) -> int:
        found = self._by_number.get(record.ino)
        return self._new(record) if found is None else found

    def _names(self, *names: tuple[int, str, int | None]) -> tuple[tuple[tuple[int, str], int | None], ...]:
        """Return the places below `data` among those named by a directory's number and a name."""
        return tuple(
            ((self._by_number[directory], name), one)
            for directory, name, one in names
            if directory in self._by_number and not (one is not None and S_ISSOCK(self.inodes[one].mode))
        )

    def _change(self, names: tuple[tuple[tuple[int, str], int | None], ...], *about: int) -> None:
        change = _Change(len(self._changes), names, about)
        self._changes.append(change)
        for one in about:
            self._of_inode[one].append(change)
        for place, after in names:
            self._of_place[place].append(change)
            self._of_directory[place[0]].append(change)
            if (before := self.names.pop(place, None)) is not None:
                self._names_of[before].discard(place)
            if after is not None:
                self.names[place] = after
                self._names_of[after].add(place)

    def _synced(self, record: Record) -> None:
        one = self._found(record)
        inode = self.inodes[one]
        before = inode.content
        base = before if before is not None and record.base and record.base == inode.at else Content(0)
        next_block = record.blocks_at
        blocks = []
        for number, hashed in enumerate(record.hashes):
            if number < len(base.hashes) and base.hashes[number] == hashed:
                blocks.append(base.blocks[number])
            else:
                blocks.append(next_block)
                next_block += BLOCK
        inode.content = Content(record.length, record.hashes, tuple(blocks))
        inode.mode, inode.uid, inode.gid, inode.at = record.mode, record.uid, record.gid, record.at
        if record.kind is Kind.SYNC or before is None or before.length != record.length:
            self._keep_names(one)

    def _directory_synced(self, one: int) -> None:
        for change in self._of_directory.pop(one, ()):
            self._keep(change)
        self._keep_names(one)
        self._promised[one] = {name: what for (where, name), what in self.names.items() if where == one}

    def _keep_names(self, one: int) -> None:
        """Keep the present names of something, and of the directories on the way to it."""
        for change in self._of_inode.pop(one, ()):
            self._keep(change)
        for where, _ in tuple(self._names_of[one]):
            self._keep_names(where)

    def _keep(self, change: _Change) -> None:
        """Keep a change, with the earlier changes of the same names and the directories in which they are."""
        if change.durable:
            return
        change.durable = True
        for place, _ in change.names:
            earlier = [other for other in self._of_place[place] if other.number < change.number and not other.durable]
            for other in earlier:
                self._keep(other)
            self._of_place[place] = [other for other in self._of_place[place] if not other.durable]
            self._keep_names(place[0])

    @staticmethod
    def _by_directory(names: Mapping[tuple[int, str], int]) -> dict[int, dict[str, int]]:
        found: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for (where, name), one in names.items():
            found[where][name] = one
        return dict(found)
