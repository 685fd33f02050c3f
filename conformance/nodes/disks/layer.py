"""A layer between a program and its C library that knows what was synced: it can forget the rest, and have faults.

Needs no root, only a C compiler. What it takes to be durable is written in the head of `layer_c/layer.h`. What it cannot
see, it says: then nothing can be said of the program.
"""

import asyncio
import os
import shutil
import struct
from pathlib import Path
from typing import Literal

from conformance import paths
from conformance.nodes import preloading
from conformance.nodes.contract import NodeError
from conformance.nodes.disks import data_tree
from conformance.nodes.disks.durability import History, Inode
from conformance.nodes.disks.state import FaultCounts, Kind, Record, State, Status
from conformance.nodes.preloading import preload_obstacle
from conformance.scenarios.steps.nodes import SurvivingNames
from conformance.untrusted.tree import PinnedDirectory

SOURCES = tuple(sorted(Path(__file__).with_name("layer_c").glob("*.[ch]")))

_LIBRARY = "layer.so"

_WHY = {"setuid": "is setuid", "static": "is linked statically", "go": "is a Go program"}


class UnobservedDisk(Exception):
    """The layer does not see all that a node does to its disk: it proves nothing of it. The text says what."""


def unavailable_reason() -> str:
    """Return why there can be no layer on this machine; '' when there can."""
    return "" if shutil.which("cc") else "needs a C compiler (cc)"


class Layer:
    """The layer of a node, over its `data`; its own files are in `directory`, which is beside it. Raises NodeError.

    `seen` is that directory as the node sees it, where that is another path.

    With `forgets` it keeps a log of what was synced, to know what a power cut leaves. `whole_device`: `data` is a file
    system of its own, and all on it is the node's.
    """

    def __init__(
        self,
        node: str,
        data: Path,
        directory: Path,
        *,
        forgets: bool,
        whole_device: bool = False,
        seen: Path | None = None,
    ) -> None:
        self._node = node
        self._directory = directory
        self._pinned: PinnedDirectory | None = None
        self._data = data
        self._forgets = forgets
        self._whole_device = whole_device
        self.library = (seen or directory) / _LIBRARY
        """What is preloaded into every program of the node."""
        self._copies = directory / "copies"
        self._state = State(directory / "state")
        self._baseline: tuple[dict[int, Inode], dict[tuple[int, str], int]] = ({}, {})
        self._unseen = ""

    @property
    def fault_counts(self) -> FaultCounts:
        """How often its faults were met."""
        return self._state.fault_counts

    def check_program(self, program: str) -> None:
        """Look at a program before it is started. Raises UnobservedDisk when the layer will not see what it does."""
        if self._forgets and (found := preload_obstacle(program)) is not None:
            raise UnobservedDisk(f"the layer does not see what {found[0]} does: it {_WHY[found[1]]}")

    async def mount(self) -> None:
        """Have it ready before the node starts; what is in the directory when that is first done counts as synced.

        Raises UnobservedDisk when it is known that the layer has missed something.
        """
        self._must_have_seen()
        library = self._directory / _LIBRARY
        if not library.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            self._directory.chmod(0o755)
            try:
                place = paths.cache() / "layer"
                made = await asyncio.to_thread(
                    preloading.compile_library, "layer", SOURCES, place, wanted_by="the layer of a disk"
                )
            except preloading.CannotCompile as error:
                raise NodeError(self._node, "mount", str(error)) from error
            shutil.copyfile(made, library)
            library.chmod(0o755)
        if self._pinned is None:  # before the node first runs
            self._pinned = PinnedDirectory(self._data)
            self._data = self._pinned.path
        if self._state.exists:
            self._settle()
            self._state.free_lock()
        else:
            self._begin()

    def slow_syncs(self, seconds: float) -> None:
        """Have every sync take so much longer; 0 for no longer."""
        self._state.slow_syncs(seconds)

    def fail_syncs(self, *, fails: bool) -> None:
        """Have every sync fail with EIO, or none."""
        self._state.fail_syncs(fails=fails)

    def refuse_writes(self, after: int | None) -> None:
        """Have every write fail with ENOSPC that comes after so many; None for none."""
        self._state.refuse_writes(after)

    def cut_power(self, keeps: SurvivingNames = "what-file-systems-keep") -> None:
        """Forget what was not synced. The node must be dead. Raises UnobservedDisk when the layer has missed something."""
        if not self._forgets:
            raise NodeError(self._node, "power-cut", "its layer keeps nothing to go back to")
        history = self._settle()
        changed = data_tree.difference(self._data, history.inodes, history.names)
        if blind := self._state.blind:
            self._unseen = f"the layer does not see all that it does to its disk: {blind}"
        elif changed:
            self._unseen = f"the layer has not seen all that was done to its disk: {changed} by no call that it knows"
        self._must_have_seen()
        data_tree.write(
            self._data, history.inodes, history.names, history.durable(keeps), self._state, self._directory / "aside"
        )
        self._begin()

    def wipe(self) -> None:
        """Forget what was synced: the queue database was destroyed."""
        if self._state.exists:
            self._begin()

    def close(self) -> None:
        """Remove the log: it may be large."""
        self._state.remove()
        shutil.rmtree(self._copies, ignore_errors=True)
        if self._pinned is not None:
            self._pinned.close()

    def _begin(self) -> None:
        """Begin a new log: what is in the directory now is durable."""
        if self._copies.exists():
            shutil.rmtree(self._copies)
        self._baseline = ({}, {}) if self._whole_device else data_tree.read(self._data, self._copies)
        numbers = [inode.number for inode in self._baseline[0].values()]
        self._state.make(numbers, records=self._forgets, whole_device=self._whole_device)

    def _history(self) -> History:
        inodes, names = self._baseline
        copies = {one: Inode(i.number, i.mode, i.uid, i.gid, i.target, i.content) for one, i in inodes.items()}
        history = History(copies, dict(names))
        try:
            history.replay(self._state.records())
        except (ValueError, KeyError, struct.error) as error:  # it is shared with the node, which may write anything
            reason = f"the log of its disk is damaged: {error}"
            raise NodeError(self._node, "disk", reason, "the server has written to it") from error
        return history

    def _settle(self) -> History:
        """Replay the log, once it says of every call that a kill interrupted whether it was done."""
        history = self._history()
        if not history.begun:
            return history
        where = {one: self._data / path for path, one in data_tree.paths(history.names)} | {0: self._data}
        for record, directory, to_directory in history.begun:
            status, ino, mode = _came_of(record, where.get(directory or 0), where.get(to_directory or 0))
            self._state.settle(record, status, ino, mode)
        return self._history()

    def _must_have_seen(self) -> None:
        if self._unseen:
            raise UnobservedDisk(self._unseen)


def _came_of(
    record: Record, directory: Path | None, to_directory: Path | None
) -> tuple[Literal[Status.DONE, Status.FAILED], int, int]:
    """Return whether an interrupted call was done, as the disk shows it, and the inode that it was about."""
    name = to_directory / record.other if to_directory and record.to_directory else None
    if record.kind in (Kind.CREATE, Kind.UNLINK):
        name = directory / record.name if directory and record.directory else None
    seen = name.lstat() if name is not None and os.path.lexists(name) else None
    if record.kind is Kind.UNLINK:
        done = seen is None or seen.st_ino != record.ino
        return (Status.DONE if done else Status.FAILED), record.ino, record.mode
    if seen is None or (record.kind in (Kind.RENAME, Kind.EXCHANGE) and seen.st_ino != record.ino):
        return Status.FAILED, record.ino, record.mode
    return Status.DONE, seen.st_ino, seen.st_mode
