"""A layer between the programs of a node and their C library, which logs what they sync and can make calls fail.

It is a library (`layer_c`) that every program of the node preloads; it needs a C compiler, but not root. The head of
`layer_c/layer.h` says what counts as durable. The layer notes what it cannot observe (a static program, io_uring):
from then on it proves nothing about the node, and the cell is not applicable. The *log* of these calls is in the state file
(`state_file`); a power cut is computed by replaying it on the inodes and names that were there before (`durability`).
"""

import asyncio
import os
import shutil
import struct
from pathlib import Path
from typing import Literal

from conformance import paths
from conformance.nodes.contract import NodeError
from conformance.nodes.disks import data_tree
from conformance.nodes.disks.durability import DurabilityModel, Entry, Inode
from conformance.nodes.disks.state_file import FaultCounts, Operation, Record, StateFile, Status
from conformance.nodes.preloading import CannotCompile, compile_library, preload_obstacle
from conformance.scenarios.steps.nodes import SurvivingNames
from conformance.untrusted.tree import PinnedDirectory

SOURCES = tuple(sorted(Path(__file__).with_name("layer_c").glob("*.[ch]")))

_LIBRARY = "layer.so"

_OBSTACLES = {"setuid": "is setuid", "static": "is linked statically", "go": "is a Go program"}


class UnobservedDisk(Exception):
    """The layer cannot observe all that a node does to its disk, and proves nothing about it; the text says what."""


def unavailable_reason() -> str:
    """Return why this machine cannot have a layer; '' when it can."""
    return "" if shutil.which("cc") else "needs a C compiler (cc)"


class Layer:
    """The layer of a node over its directory `data`; its own files are in `directory` beside that. Raises NodeError.

    `seen` is the path of `directory` as the node sees it, if that is another. With `logs_syncs` the layer keeps a log,
    from which a power cut is computed; without, it only makes calls fail. `whole_device`: `data` is a file system of its
    own, all of which is the node's.

    `_baseline` are the inodes and names before the log's first record, `_copies` has the contents of their files.
    `_unobserved` says what `cut_power` found that the layer has missed; '' for nothing.
    """

    def __init__(
        self,
        node: str,
        data: Path,
        directory: Path,
        *,
        logs_syncs: bool,
        whole_device: bool = False,
        seen: Path | None = None,
    ) -> None:
        self._node = node
        self._directory = directory
        self._pinned: PinnedDirectory | None = None
        self._data = data
        self._logs_syncs = logs_syncs
        self._whole_device = whole_device
        self.library = (seen or directory) / _LIBRARY
        """What every program of the node must preload."""
        self._copies = directory / "copies"
        self._state = StateFile(directory / "state")
        self._baseline: tuple[dict[int, Inode], dict[Entry, int]] = ({}, {})
        self._unobserved = ""

    @property
    def fault_counts(self) -> FaultCounts:
        """How often the node has met each fault."""
        return self._state.fault_counts

    def check_program(self, program: str) -> None:
        """Raise UnobservedDisk when the layer could not observe this program, which has not been started yet.

        A layer without a log only makes calls fail, and raises nothing.
        """
        if self._logs_syncs and (obstacle := preload_obstacle(program)) is not None:
            raise UnobservedDisk(f"the layer does not see what {obstacle[0]} does: it {_OBSTACLES[obstacle[1]]}")

    async def mount(self) -> None:
        """Prepare the layer before a start of the node; at the first, everything in the data directory counts as synced.

        The library is compiled and the data directory pinned at the first; at a later start the log is completed and
        goes on. Raises UnobservedDisk when an earlier `cut_power` found that the layer has missed something, NodeError
        when the library cannot be compiled or the log is damaged.
        """
        self._require_observed()
        library = self._directory / _LIBRARY
        if not library.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            self._directory.chmod(0o755)
            cache = paths.cache() / "layer"
            try:
                cached = await asyncio.to_thread(
                    compile_library, "layer", SOURCES, cache, wanted_by="the layer of a disk"
                )
            except CannotCompile as error:
                raise NodeError(self._node, "mount", str(error)) from error
            shutil.copyfile(cached, library)
            library.chmod(0o755)
        if self._pinned is None:  # before the node can replace its data directory
            self._pinned = PinnedDirectory(self._data)
            self._data = self._pinned.path
        if self._state.exists:
            self._replay_completed()
            self._state.reset_lock()
        else:
            self._begin_log()

    def delay_syncs(self, seconds: float) -> None:
        """Delay every sync by this many seconds of real time; 0: not at all."""
        self._state.delay_syncs(seconds)

    def fail_syncs(self, *, fails: bool) -> None:
        """Make every sync fail with EIO, or none."""
        self._state.fail_syncs(fails=fails)

    def refuse_writes(self, after: int | None) -> None:
        """Make every write fail with ENOSPC after this many have succeeded; None: none fails."""
        self._state.refuse_writes(after)

    def cut_power(self, surviving: SurvivingNames = "what-file-systems-keep") -> None:
        """Rewrite the data directory to what a power cut leaves, and begin a new log. The node must be dead.

        Raises UnobservedDisk, with the directory unchanged, when the layer has missed something; NodeError when it
        keeps no log or the log is damaged.
        """
        if not self._logs_syncs:
            raise NodeError(self._node, "power-cut", "its layer has no log of what was synced")
        model = self._replay_completed()
        changed = data_tree.find_difference(self._data, model.inodes, model.names)
        if unobserved := self._state.unobserved:
            self._unobserved = f"the layer does not see all that it does to its disk: {unobserved}"
        elif changed:
            self._unobserved = (
                f"the layer has not seen all that was done to its disk: {changed} by a call that it does not observe"
            )
        self._require_observed()
        durable, aside = model.durable_names(surviving), self._directory / "aside"
        data_tree.rewrite(self._data, model.inodes, model.names, durable, self._state, aside)
        self._begin_log()

    def wipe(self) -> None:
        """Begin a new log, since the queue database was destroyed; do nothing before the first start of the node."""
        if self._state.exists:
            self._begin_log()

    def close(self) -> None:
        """Remove the log, which may be large, and release the data directory."""
        self._state.remove()
        shutil.rmtree(self._copies, ignore_errors=True)
        if self._pinned is not None:
            self._pinned.close()

    def _begin_log(self) -> None:
        """Make the state file with an empty log; everything that is in the data directory now counts as durable.

        On a whole device the data directory is not read: there the loop disk makes the power cuts.
        """
        if self._copies.exists():
            shutil.rmtree(self._copies)
        self._baseline = ({}, {}) if self._whole_device else data_tree.read_tree(self._data, self._copies)
        numbers = [inode.number for inode in self._baseline[0].values()]
        self._state.create(numbers, records=self._logs_syncs, whole_device=self._whole_device)

    def _replay(self) -> DurabilityModel:
        """Return the model after all records of the log. Raises NodeError when the log is damaged."""
        inodes, names = self._baseline
        copies = {key: Inode(i.number, i.mode, i.uid, i.gid, i.target, i.content) for key, i in inodes.items()}
        model = DurabilityModel(copies, dict(names))
        try:
            model.replay(self._state.records())
        except (ValueError, KeyError, struct.error) as error:  # the node shares the file, and may write anything
            reason = f"the log of its disk is damaged: {error}"
            raise NodeError(self._node, "disk", reason, "the server has written to it") from error
        return model

    def _replay_completed(self) -> DurabilityModel:
        """Complete the records of calls that a kill interrupted, from what the disk shows; return the model after all records."""
        model = self._replay()
        if not model.interrupted:
            return model
        directories = {key: self._data / path for path, key in data_tree.reachable_paths(model.names)} | {0: self._data}
        for record, directory, to_directory in model.interrupted:  # `_outcome` ignores the path of a directory outside
            status, ino, mode = _outcome(record, directories.get(directory or 0), directories.get(to_directory or 0))
            self._state.set_outcome(record, status, ino, mode)
        return self._replay()

    def _require_observed(self) -> None:
        """Raise UnobservedDisk when `cut_power` has found, now or earlier, that the layer has missed something."""
        if self._unobserved:
            raise UnobservedDisk(self._unobserved)


def _outcome(
    record: Record, directory: Path | None, to_directory: Path | None
) -> tuple[Literal[Status.DONE, Status.FAILED], int, int]:
    """Return whether an interrupted call was done, as the disk shows it, with its inode's number and mode.

    DONE: the name that the call makes is there, or the one that it removes is gone; else FAILED. The directories are the paths of
    the record's two; None for one that has no path. A directory of the record with the number 0 is outside the data directory:
    what happened there is not looked at.
    """
    path = to_directory / record.other if to_directory and record.to_directory else None
    if record.operation in (Operation.CREATE, Operation.UNLINK):
        path = directory / record.name if directory and record.directory else None
    status = path.lstat() if path is not None and os.path.lexists(path) else None
    if record.operation is Operation.UNLINK:
        done = status is None or status.st_ino != record.ino
        return (Status.DONE if done else Status.FAILED), record.ino, record.mode
    moves = record.operation in (Operation.RENAME, Operation.EXCHANGE)
    if status is None or (moves and status.st_ino != record.ino):
        return Status.FAILED, record.ino, record.mode
    return Status.DONE, status.st_ino, status.st_mode
