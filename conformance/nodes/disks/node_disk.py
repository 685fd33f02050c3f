"""The failing disk of one node: a file system on a loop device (`loop`), a layer before its C library (`layer`), or both.

Which of them a node needs follows from the *troubles* of its cell, which are what its steps do to the disk: a full or
read-only disk needs the loop device; slow and failing syncs, and a write that finds the disk full, need the layer; a
power cut can have either.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from conformance.candidates.description import Candidate
from conformance.candidates.kind import DISK, kinds_with_feature
from conformance.nodes.contract import NodeError
from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.layer import Layer
from conformance.nodes.disks.loop import LoopDisk
from conformance.nodes.disks.state_file import FaultCounts
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.breaking import Disk
from conformance.scenarios.steps.nodes import PowerCut, SurvivingNames
from conformance.untrusted.tree import PinnedDirectory

Trouble = Literal[
    "power-cut", "power-cut-by-posix", "full", "full-at-write", "read-only", "slow", "failing-syncs"
]  # fmt: skip
"""What a scenario can do to a disk; after `power-cut-by-posix` only what POSIX promises is left."""

DiskKind = Literal["loop", "layer"]
"""What a power cut uses (`--disk`): an ext4 of the node's own, or the log of a layer."""

_ON_LOOP: frozenset[Trouble] = frozenset({"full", "read-only"})
_IN_LAYER: frozenset[Trouble] = frozenset({"power-cut-by-posix", "full-at-write", "slow", "failing-syncs"})
"""The troubles that only the layer can make; those of `_ON_LOOP` only the loop disk, and `power-cut` either."""

_LAYER_BY_DEFAULT = "reference"
"""The candidate whose power cuts use a layer without `--disk layer`, where there are no loop devices."""


def disk_troubles_of(cell: Cell, server: str) -> frozenset[Trouble]:
    """Return all troubles that the steps of a cell bring to a server's disk."""
    troubles: set[Trouble] = set()
    for step in cell.all_steps:
        match step.action:
            case Disk(node=node, trouble=trouble, at_write=at_write) if node == server:
                troubles.add("full-at-write" if trouble == "full" and at_write is not None else trouble)
            case PowerCut(node=names, keeps=keeps) if server in names or "all" in names:
                troubles.add("power-cut" if keeps == "what-file-systems-keep" else "power-cut-by-posix")
    return frozenset(troubles)


def unsupported_reason(candidate: Candidate, troubles: Iterable[Trouble], kind: DiskKind | None = None) -> str:
    """Return why a candidate cannot have a disk with these troubles on this machine; '' when it can.

    `kind` is what a power cut uses by the option `--disk`, None without the option.
    """
    wanted = frozenset(troubles)
    if not wanted:
        return ""
    if DISK not in candidate.features:
        kinds = " or ".join(kinds_with_feature(DISK))
        return f"a disk of its own is for servers in processes of their own (kind {kinds})"
    if "power-cut-by-posix" in wanted and wanted & _ON_LOOP:
        return "a file system of its own keeps more than POSIX promises"
    needs = [layer.unavailable_reason()] if wanted & _IN_LAYER else []
    if wanted & _ON_LOOP:
        needs.append(loop.unavailable_reason())
    elif "power-cut" in wanted:
        needs.append(
            layer.unavailable_reason() if _cut_by_layer(wanted, candidate.name, kind) else loop.unavailable_reason()
        )
    return next((reason for reason in needs if reason), "")


def _cut_by_layer(wanted: frozenset[Trouble], candidate: str, kind: DiskKind | None) -> bool:
    """Whether the wanted troubles contain a power cut that the layer makes.

    A power cut beside a full or read-only disk is made by the loop disk, which these need in any case.
    """
    if "power-cut-by-posix" in wanted:
        return True
    if "power-cut" not in wanted or wanted & _ON_LOOP:
        return False
    return kind == "layer" or (kind is None and candidate == _LAYER_BY_DEFAULT and bool(loop.unavailable_reason()))


class NodeDisk:
    """The disk of one node, made for the given troubles. Methods raise NodeError and UnobservedDisk.

    `directory` is the node's own; `candidate` is the candidate's name, and `kind` is that of `--disk`, None without it:
    both decide what makes power cuts. `_counts_before` are, by trouble, the layer's counts when it began.
    """

    def __init__(
        self,
        node: str,
        directory: Path,
        troubles: Iterable[Trouble],
        candidate: str = _LAYER_BY_DEFAULT,
        kind: DiskKind | None = None,
    ) -> None:
        wanted = frozenset(troubles)
        data, own = directory / "data", directory / "disk"
        own.mkdir(parents=True, exist_ok=True)
        self._pinned = PinnedDirectory(own)
        cut_by_layer = _cut_by_layer(wanted, candidate, kind)
        on_loop = bool(wanted & {*_ON_LOOP, "power-cut"}) and not cut_by_layer
        self._node = node
        self._loop = LoopDisk(node, data, self._pinned.path / "image") if on_loop else None
        self._layer = None
        if cut_by_layer or wanted & _IN_LAYER:
            self._layer = Layer(node, data, self._pinned.path, seen=own, logs_syncs=cut_by_layer, whole_device=on_loop)
        self._read_only = False
        self._counts_before: dict[str, FaultCounts] = {}

    @property
    def prefix(self) -> list[str]:
        """The words before every command of the node that have it see the loop disk; none without one."""
        return self._loop.prefix if self._loop else []

    @property
    def preload(self) -> Path | None:
        """The library that every program of the node must preload, or None."""
        return self._layer.library if self._layer else None

    def needs_restart_to_heal(self, action: Disk) -> bool:
        """Return whether `heal` needs the node to be down: the trouble is `read-only`, and no power cut has ended it."""
        return action.trouble == "read-only" and self._read_only

    def faults_met(self, action: Disk) -> str:
        """Return what the layer has done to the node since this trouble began ("3 slow syncs"); '' for nothing, or no layer."""
        if self._layer is None or action.trouble not in self._counts_before:
            return ""
        now, before = self._layer.fault_counts, self._counts_before[action.trouble]
        count, fault = {
            "slow": (now.slow_syncs - before.slow_syncs, "slow syncs"),
            "failing-syncs": (now.failed_syncs - before.failed_syncs, "failed syncs"),
            "full": (now.refused_writes - before.refused_writes, "refused writes"),
        }[action.trouble]
        return f"{count} {fault}" if count else ""

    def check_program(self, program: str) -> None:
        """Raise UnobservedDisk when the disk's layer, if any, could not observe this program, which has not been started yet."""
        if self._layer:
            self._layer.check_program(program)

    async def mount(self) -> None:
        """Prepare the disk before a start of the node: mount the loop disk, and make the layer ready, where there is one."""
        if self._loop:
            await self._loop.mount()
        if self._layer:
            await self._layer.mount()

    async def cut_power(self, surviving: SurvivingNames = "what-file-systems-keep") -> None:
        """Lose what was not synced, and end a read-only disk. The node must be dead.

        `surviving` says which names a layer keeps; a loop disk keeps what its file system does. A full loop disk is full again after
        the next `mount`.
        """
        if self._loop:
            await self._loop.cut_power()
        elif self._layer:
            self._layer.cut_power(surviving)
        self._read_only = False

    async def apply(self, action: Disk, delay_s: float) -> str:
        """Apply the trouble of a scenario's step; `delay_s` is what `slow` adds to each sync, in seconds of real time.

        A step `full` with `at_write: N` refuses the N-th write and all later ones; without it the disk is full now.

        Return the text of the error that the harness met when it tried the disk (`full`, `read-only`); '' for a trouble that
        only the node can meet.
        """
        match action.trouble:
            case "full" if action.at_write is None:
                return await self._required_loop().fill()
            case "read-only":
                self._read_only = True
                return await self._required_loop().become_read_only()
        layer = self._required_layer()
        self._counts_before[action.trouble] = layer.fault_counts
        match action.trouble:
            case "full":
                layer.refuse_writes((action.at_write or 1) - 1)
            case "failing-syncs":
                layer.fail_syncs(fails=True)
            case "slow":
                layer.delay_syncs(delay_s)
        return ""

    async def heal(self, action: Disk) -> None:
        """End a trouble; others go on.

        A read-only disk is unmounted until the next `mount`, so the node must be down then (`needs_restart_to_heal`). A full one that
        is read-only too gets its room at that `mount`.
        """
        match action.trouble:
            case "read-only":
                if self._read_only:
                    await self._required_loop().unmount()
                self._read_only = False
            case "full" if action.at_write is None:
                await self._required_loop().make_room(now=not self._read_only)
            case "full":
                self._required_layer().refuse_writes(None)
            case "failing-syncs":
                self._required_layer().fail_syncs(fails=False)
            case "slow":
                self._required_layer().delay_syncs(0)

    async def wipe(self) -> None:
        """Delete the loop disk, and have the layer begin a new log; without a loop disk the caller has deleted the data.

        The node must be dead.
        """
        if self._loop:
            await self._loop.wipe()
        if self._layer:
            self._layer.wipe()
        self._read_only = False

    async def close(self) -> None:
        """Release everything: end the holder of the loop disk, remove the layer's log. The node must be dead."""
        if self._loop:
            await self._loop.close()
        if self._layer:
            self._layer.close()
        self._pinned.close()

    def _required_loop(self) -> LoopDisk:
        """Return the loop disk. Raises NodeError when the troubles of this cell did not need one."""
        if self._loop is None:
            raise NodeError(self._node, "disk", "it has no file system of its own")
        return self._loop

    def _required_layer(self) -> Layer:
        """Return the layer. Raises NodeError when the troubles of this cell did not need one."""
        if self._layer is None:
            raise NodeError(self._node, "disk", "it has no layer before its C library")
        return self._layer
