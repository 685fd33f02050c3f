"""Which disk a node gets: of a loop device, of a layer before its C library, or both; and why none of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from conformance.candidates.description import Candidate
from conformance.candidates.kind import DISK, kinds_with_feature
from conformance.nodes.contract import NodeError
from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.layer import Layer
from conformance.nodes.disks.loop import LoopDisk
from conformance.nodes.disks.state import FaultCounts
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.breaking import Disk
from conformance.scenarios.steps.nodes import PowerCut, SurvivingNames
from conformance.untrusted.tree import PinnedDirectory

Trouble = Literal[
    "power-cut", "power-cut-by-posix", "full", "full-at-write", "read-only", "slow", "failing-syncs"
]  # fmt: skip
"""What a scenario may do to a disk: `power-cut-by-posix` is one that keeps what POSIX promises, and no more."""

DiskKind = Literal["loop", "layer"]
"""What a power cut strikes where both can be had: an ext4 of the node's own, or a layer that logs what is synced."""

_ON_LOOP: frozenset[Trouble] = frozenset({"full", "read-only"})
_IN_LAYER: frozenset[Trouble] = frozenset({"power-cut-by-posix", "full-at-write", "slow", "failing-syncs"})

_LAYERED = "reference"
"""The candidate whose power cuts a layer sees to without being chosen, where there are no loop devices."""


def disk_troubles_of(cell: Cell, server: str) -> frozenset[Trouble]:
    """Return what will be wrong with a server's disk in a cell."""
    found: set[Trouble] = set()
    for step in cell.all_steps:
        match step.action:
            case Disk(node=node, trouble=trouble, at_write=at_write) if node == server:
                found.add("full-at-write" if trouble == "full" and at_write is not None else trouble)
            case PowerCut(node=names, keeps=keeps) if server in names or "all" in names:
                found.add("power-cut" if keeps == "what-file-systems-keep" else "power-cut-by-posix")
    return frozenset(found)


def unsupported_reason(candidate: Candidate, troubles: Iterable[Trouble], kind: DiskKind | None = None) -> str:
    """Return why a candidate cannot have these troubles on this machine; '' when it can."""
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
            layer.unavailable_reason() if _forgets(wanted, candidate.name, kind) else loop.unavailable_reason()
        )
    return next((reason for reason in needs if reason), "")


def _forgets(wanted: frozenset[Trouble], candidate: str, kind: DiskKind | None) -> bool:
    """Whether a power cut is the layer's to see to."""
    if "power-cut-by-posix" in wanted:
        return True
    if "power-cut" not in wanted or wanted & _ON_LOOP:
        return False
    return kind == "layer" or (kind is None and candidate == _LAYERED and bool(loop.unavailable_reason()))


class NodeDisk:
    """The disk of one node, which can have the troubles that a scenario has for it. Raises NodeError, UnobservedDisk."""

    def __init__(
        self,
        node: str,
        directory: Path,
        troubles: Iterable[Trouble],
        candidate: str = _LAYERED,
        kind: DiskKind | None = None,
    ) -> None:
        wanted = frozenset(troubles)
        data, own = directory / "data", directory / "disk"
        own.mkdir(parents=True, exist_ok=True)
        self._pinned = PinnedDirectory(own)
        forgets = _forgets(wanted, candidate, kind)
        on_loop = bool(wanted & {*_ON_LOOP, "power-cut"}) and not forgets
        self._node = node
        self._loop = LoopDisk(node, data, self._pinned.path / "image") if on_loop else None
        layered = forgets or bool(wanted & _IN_LAYER)
        self._layer = (
            Layer(node, data, self._pinned.path, seen=own, forgets=forgets, whole_device=on_loop) if layered else None
        )
        self._full = False
        self._read_only = False
        self._before = FaultCounts()

    @property
    def prefix(self) -> list[str]:
        """Return the words before every command of the node."""
        return self._loop.prefix if self._loop else []

    @property
    def preload(self) -> Path | None:
        """Return what must be preloaded into every program of the node."""
        return self._layer.library if self._layer else None

    @property
    def needs_restart(self) -> bool:
        """Whether the disk gets well only while the node is down."""
        return self._read_only

    @property
    def faults_met(self) -> str:
        """Return how often the node has met the trouble, in words; '' when it has not."""
        if self._layer is None:
            return ""
        now, before = self._layer.fault_counts, self._before
        counts = {
            "slow syncs": now.slow_syncs - before.slow_syncs,
            "failed syncs": now.failed_syncs - before.failed_syncs,
            "refused writes": now.refused_writes - before.refused_writes,
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)

    def check_program(self, program: str) -> None:
        """Look at a program of the node before it is started. Raises UnobservedDisk when a layer will not see what it does."""
        if self._layer:
            self._layer.check_program(program)

    async def mount(self) -> None:
        """Have it ready before the node starts."""
        if self._loop:
            await self._loop.mount()
        if self._layer:
            await self._layer.mount()

    async def cut_power(self, keeps: SurvivingNames = "what-file-systems-keep") -> None:
        """Forget what was not synced. The node must be dead."""
        if self._loop:
            await self._loop.cut_power()
        elif self._layer:
            self._layer.cut_power(keeps)
        self._full = self._read_only = False

    async def apply(self, action: Disk, seconds: float) -> str:
        """Have a trouble; return the words of the error that proves it, '' where only the node can meet it.

        `slow`: every sync takes so many (real) seconds longer. A disk that was read-only gets well while the node is
        down.
        """
        match action.trouble:
            case "full" if action.at_write is None:
                self._full = True
                return await self._mounted().fill()
            case "read-only":
                self._read_only = True
                return await self._mounted().become_read_only()
        layered = self._layered()
        self._before = layered.fault_counts
        match action.trouble:
            case "full":
                layered.refuse_writes((action.at_write or 1) - 1)
            case "failing-syncs":
                layered.fail_syncs(fails=True)
            case "slow":
                layered.slow_syncs(seconds)
        return ""

    async def heal(self) -> None:
        """Have no trouble any more."""
        if self._full:
            await self._mounted().make_room()
        if self._read_only:
            await self._mounted().let_go()
        if self._layer:
            self._layer.slow_syncs(0)
            self._layer.fail_syncs(fails=False)
            self._layer.refuse_writes(None)
        self._full = self._read_only = False

    async def wipe(self) -> None:
        """Destroy what is on it. The node must be dead."""
        if self._loop:
            await self._loop.wipe()
        if self._layer:
            self._layer.wipe()
        self._full = self._read_only = False

    async def close(self) -> None:
        """Leave nothing behind. The node must be dead."""
        if self._loop:
            await self._loop.close()
        if self._layer:
            self._layer.close()
        self._pinned.close()

    def _mounted(self) -> LoopDisk:
        if self._loop is None:
            raise NodeError(self._node, "disk", "it has no file system of its own")
        return self._loop

    def _layered(self) -> Layer:
        if self._layer is None:
            raise NodeError(self._node, "disk", "no layer is before its C library")
        return self._layer
