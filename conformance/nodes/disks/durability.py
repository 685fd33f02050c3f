"""What a power cut leaves: the names and contents of files that the log of a layer proves to be durable.

Theory of operation. The persistence model is written at the head of `layer_c/layer.h`; this module computes it. A file
system is two things here: inodes (files, directories, links) with their contents, and entries: names in directories,
each of which names one inode. The kernel may use an inode's number again for another file, so an inode is known by a key
that is never used again; ROOT is the data directory itself.

`DurabilityModel.replay` goes through the log of the node's calls in their order and keeps three states:

- `names`: which inode each entry names now, as if power were never cut;
- a list of changes (create, link, rename, unlink), each of which is durable or not yet;
- each file's content at its last sync.

A sync makes changes durable: a power cut does not undo them any more. fsync of a file does so for all changes about
that file, and fsync of a directory for all changes to its entries. A journal commits in order: with a change every
earlier change to the same entries becomes durable, and the entries of the directories above it, for otherwise the file
could not be found by its name. The names after a power cut are those before the first call, with the durable changes
applied.

`sync` makes every change durable. By the stricter reading of POSIX only it and fsync of a directory keep the names in a
directory; for that the entries of each directory at its last such call are kept apart.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISSOCK

from conformance.nodes.disks.state_file import BLOCK, Operation, Record, Status
from conformance.scenarios.steps.nodes import SurvivingNames

ROOT = 0
"""The key of the data directory itself."""

Entry = tuple[int, str]
"""A name in a directory: (key of the directory's inode, name)."""


@dataclass(slots=True)
class Content:
    """The durable content of a file: its blocks in the log, or a copy that was made before the node started."""

    length: int
    hashes: tuple[int, ...] = ()
    """The hash of each block; with a copy there are no hashes and blocks."""
    blocks: tuple[int, ...] = ()
    """The offset in the state file of each block."""
    copy: Path | None = None


@dataclass(slots=True)
class Inode:
    """A file, directory, link or the like, with the attributes of its last sync."""

    number: int
    mode: int
    uid: int
    gid: int
    target: str = ""
    """Of a symbolic link."""
    content: Content | None = None
    """None for a file that was never synced, and for what is not a file."""
    synced_at: int = 0
    """The offset in the state file of the record of its last sync; 0 without one."""


@dataclass(slots=True)
class _Change:
    """A change of entries by one call."""

    number: int
    """Its place in the order of all changes, from 0."""
    entries: tuple[tuple[Entry, int | None], ...]
    """Each changed entry, with the key of the inode that it names afterwards, or None."""
    inodes: tuple[int, ...]
    """The keys of the inodes whose fsync makes the change durable."""
    durable: bool = False


@dataclass
class DurabilityModel:
    """Replays a log on `inodes` (by key) and `names` (entry -> key), which hold the state before its first record.

    A Record is one call of the node: its `ino`, `directory` and `to_directory` are inode numbers, `at` is its offset in the
    state file. `_entries_of` has the entries that name an inode now, `_key_by_number` its key by its number;
    `_changes_of_entry`, `_changes_of_inode` and `_changes_in_directory` have changes that may not be durable yet.
    `_fsynced_directories` has the names of each directory at its last fsync or the last sync, before these at the beginning.
    """

    inodes: dict[int, Inode]
    names: dict[Entry, int]
    interrupted: list[tuple[Record, int | None, int | None]] = field(default_factory=list)
    """Records of calls that a kill interrupted, each with the keys that its two directories had then.

    A key is None for a directory outside the data directory.
    """

    def __post_init__(self) -> None:
        """Make the indexes of inodes, entries and changes, which `_change` and `_add_inode` keep up to date."""
        self._names_before = dict(self.names)
        self._key_by_number = {inode.number: key for key, inode in self.inodes.items()}
        # Key of an inode -> the entries that name it now.
        self._entries_of: defaultdict[int, set[Entry]] = defaultdict(set)
        for entry, key in self.names.items():
            self._entries_of[key].add(entry)
        self._changes: list[_Change] = []
        self._changes_of_entry: defaultdict[Entry, list[_Change]] = defaultdict(list)
        self._changes_of_inode: defaultdict[int, list[_Change]] = defaultdict(list)
        self._changes_in_directory: defaultdict[int, list[_Change]] = defaultdict(list)
        # Key of a directory -> its names at its last fsync or the last sync, with the keys of their inodes.
        self._fsynced_directories: dict[int, dict[str, int]] = _by_directory(self.names)

    def replay(self, records: Iterable[Record]) -> None:
        """Apply all calls that succeeded, in their order, and collect those that were interrupted; skip those that failed."""
        for record in records:
            if record.status is Status.DONE:
                self._apply(record)
            elif record.status is Status.BEGUN:
                key_of = self._key_by_number.get
                self.interrupted.append((record, key_of(record.directory), key_of(record.to_directory)))

    def durable_names(self, surviving: SurvivingNames) -> dict[Entry, int]:
        """Return the names that a power cut after the last record leaves.

        With `what-posix-promises` these are the names in each directory at its last fsync or the last `sync`; a directory of the
        beginning that had neither keeps its names from then. With `what-file-systems-keep` they are the names before the first record,
        with all durable changes applied.
        """
        if surviving == "what-posix-promises":
            return {
                (where, name): key for where, names in self._fsynced_directories.items() for name, key in names.items()
            }
        left = dict(self._names_before)
        for change in self._changes:
            if change.durable:
                for entry, key in change.entries:
                    if key is None:
                        left.pop(entry, None)
                    else:
                        left[entry] = key
        return left

    def _apply(self, record: Record) -> None:
        """Apply one call that succeeded to the names, changes and contents.

        It was about `name` in the record's `directory`, about `other` in its `to_directory`, or about both. What lies outside the data
        directory is ignored.
        """
        match record.operation:
            case Operation.CREATE:
                key = self._add_inode(record)
                self._change(self._entries((record.directory, record.name, key)), key)
            case Operation.LINK:
                key = self._key_of(record)
                self._change(self._entries((record.to_directory, record.other, key)), key)
            case Operation.RENAME:
                key = self._key_of(record)
                entries = self._entries((record.directory, record.name, None), (record.to_directory, record.other, key))
                # A rename out of the data directory has the old entry only: then this is `key` again, which changes
                # nothing.
                replaced = self.names.get(entries[-1][0]) if entries else None
                self._change(entries, key, *([] if replaced is None else [replaced]))
            case Operation.EXCHANGE:
                key = self._key_of(record)
                target = self._entries((record.to_directory, record.other, None))
                other = next((self.names.get(entry) for entry, _ in target), None)
                entries = self._entries(
                    (record.directory, record.name, other), (record.to_directory, record.other, key)
                )
                self._change(entries, key, *([] if other is None else [other]))
            case Operation.UNLINK:
                key = self._key_by_number.get(record.ino, -1)  # -1: an inode that no record has named
                self._change(self._entries((record.directory, record.name, None)), key)
            case Operation.SYNC | Operation.DATASYNC:
                self._sync_file(record)
            case Operation.SYNC_DIRECTORY:
                self._sync_directory(self._key_of(record))
            case Operation.SYNC_ALL:
                for change in self._changes:
                    change.durable = True
                self._fsynced_directories = _by_directory(self.names)

    def _add_inode(self, record: Record) -> int:
        """Add the inode that a record describes, and return its new key; its number belongs to it from now on."""
        key = len(self.inodes)
        self.inodes[key] = Inode(record.ino, record.mode, record.uid, record.gid, record.other)
        self._key_by_number[record.ino] = key
        return key

    def _key_of(self, record: Record) -> int:
        """Return the key of a record's inode; add the inode when it was not known."""
        key = self._key_by_number.get(record.ino)
        return self._add_inode(record) if key is None else key

    def _entries(self, *entries: tuple[int, str, int | None]) -> tuple[tuple[Entry, int | None], ...]:
        """Return (entry, key) for each (number of a directory, name, key); the key None means that the entry is removed.

        Entries outside the data directory are left out, and so are those of sockets, which no disk keeps.
        """
        return tuple(
            ((self._key_by_number[directory], name), key)
            for directory, name, key in entries
            if directory in self._key_by_number and not (key is not None and S_ISSOCK(self.inodes[key].mode))
        )

    def _change(self, entries: tuple[tuple[Entry, int | None], ...], *inodes: int) -> None:
        """Change entries now, by a call about these inodes; the change is not durable yet."""
        change = _Change(len(self._changes), entries, inodes)
        self._changes.append(change)
        for key in inodes:
            self._changes_of_inode[key].append(change)
        for entry, key_after in entries:
            self._changes_of_entry[entry].append(change)
            self._changes_in_directory[entry[0]].append(change)
            if (key_before := self.names.pop(entry, None)) is not None:
                self._entries_of[key_before].discard(entry)
            if key_after is not None:
                self.names[entry] = key_after
                self._entries_of[key_after].add(entry)

    def _sync_file(self, record: Record) -> None:
        """Make a file's content durable; fsync, and fdatasync of a file with a new size or never synced, also its names.

        The log has only the blocks that differ from those of the sync at the record's `base`; the others are taken from
        it.
        """
        key = self._key_of(record)
        inode = self.inodes[key]
        before = inode.content
        base = before if before is not None and record.base and record.base == inode.synced_at else Content(0)
        next_block = record.blocks_at
        blocks = []
        for number, block_hash in enumerate(record.hashes):
            if number < len(base.hashes) and base.hashes[number] == block_hash:
                blocks.append(base.blocks[number])
            else:
                blocks.append(next_block)
                next_block += BLOCK
        inode.content = Content(record.length, record.hashes, tuple(blocks))
        inode.mode, inode.uid, inode.gid, inode.synced_at = record.mode, record.uid, record.gid, record.at
        if record.operation is Operation.SYNC or before is None or before.length != record.length:
            self._make_names_durable(key)

    def _sync_directory(self, key: int) -> None:
        """Make the entries of a directory durable, and its own names."""
        for change in self._changes_in_directory.pop(key, ()):
            self._make_durable(change)
        self._make_names_durable(key)
        self._fsynced_directories[key] = {name: named for (where, name), named in self.names.items() if where == key}

    def _make_names_durable(self, key: int) -> None:
        """Make all changes about an inode durable, so also its present names, and those about every directory above it."""
        for change in self._changes_of_inode.pop(key, ()):
            self._make_durable(change)
        for directory, _ in tuple(self._entries_of[key]):
            self._make_names_durable(directory)

    def _make_durable(self, change: _Change) -> None:
        """Make a change durable, with all earlier changes of its entries and the names of the directories they are in.

        Do nothing if it is durable already.
        """
        if change.durable:
            return
        change.durable = True
        for entry, _ in change.entries:
            pending = [other for other in self._changes_of_entry[entry] if not other.durable]
            for other in pending:
                if other.number < change.number:
                    self._make_durable(other)
            self._changes_of_entry[entry] = [other for other in pending if not other.durable]
            self._make_names_durable(entry[0])


def _by_directory(names: Mapping[Entry, int]) -> dict[int, dict[str, int]]:
    """Return the names in each directory: directory's key -> name -> key."""
    grouped: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for (directory, name), key in names.items():
        grouped[directory][name] = key
    return dict(grouped)
