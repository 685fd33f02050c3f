"""Which disk a node gets: of a loop device, of a layer before its C library, or both; and why none of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from conformance.candidates.description import Candidate
from conformance.nodes.contract import NodeError
from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.layer import Layer
from conformance.nodes.disks.loop import LoopDisk

Trouble = Literal["power-cut", "full", "read-only", "slow"]

_LAYERED = "reference"
"""The candidate of which it is known that it syncs by fsync and fdatasync alone: a layer sees all that it does."""


def missing(candidate: Candidate, troubles: Iterable[Trouble]) -> str:
    """Return why a candidate cannot have these troubles on this machine; '' when it can."""
    wanted = frozenset(troubles)
    if not wanted:
        return ""
    if candidate.kind != "exec":
        return "a disk of its own is for servers in processes of their own (kind exec)"
    needs = [layer.missing()] if "slow" in wanted else []
    if wanted & {"full", "read-only"} or ("power-cut" in wanted and candidate.name != _LAYERED):
        needs.append(loop.missing())
    elif "power-cut" in wanted and loop.missing():
        needs.append(layer.missing())
    return next((reason for reason in needs if reason), "")


class NodeDisk:
    """The disk of one node, which can have the troubles that a scenario has for it. Raises NodeError."""

    def __init__(self, node: str, directory: Path, troubles: Iterable[Trouble]) -> None:
        wanted = frozenset(troubles)
        data, own = directory / "data", directory / "disk"
        own.mkdir(parents=True, exist_ok=True)
        on_loop = bool(wanted & {"power-cut", "full", "read-only"}) and not loop.missing()
        forgets = "power-cut" in wanted and not on_loop
        self._node = node
        self._loop = LoopDisk(node, data, own / "image") if on_loop else None
        self._layer = Layer(node, data, own, forgets=forgets) if forgets or "slow" in wanted else None
        self._full = False
        self._read_only = False
        self._slowed = 0

    @property
    def prefix(self) -> list[str]:
        """Return the words before every command of the node."""
        return self._loop.prefix if self._loop else []

    @property
    def environment(self) -> dict[str, str]:
        """Return what every process of the node has in its environment."""
        return self._layer.environment if self._layer else {}

    @property
    def needs_restart(self) -> bool:
        """Whether the disk gets well only while the node is down."""
        return self._read_only

    @property
    def met(self) -> str:
        """Return how often the node has met the slow disk, in words; '' when it has not."""
        count = self._layer.slowed - self._slowed if self._layer else 0
        return f"{count} slow syncs" if count else ""

    async def mount(self) -> None:
        """Have it ready before the node starts."""
        if self._loop:
            await self._loop.mount()
        if self._layer:
            await self._layer.mount()

    async def cut_power(self) -> None:
        """Forget what was not synced. The node must be dead."""
        if self._loop:
            await self._loop.cut_power()
        elif self._layer:
            self._layer.cut_power()
        self._full = self._read_only = False

    async def become(self, what: Literal["full", "read-only", "slow", "well"], seconds: float) -> str:
        """Have a trouble, or (`well`) none any more; return the words of the error that proves it.

        `slow`: every sync takes so many (real) seconds longer. A disk that was read-only gets well while the node is
        down.
        """
        match what:
            case "full":
                self._full = True
                return await self._mounted().fill()
            case "read-only":
                self._read_only = True
                return await self._mounted().become_read_only()
            case "slow":
                slow = self._slow()
                self._slowed = slow.slowed
                slow.be_slow(seconds)
                return ""
        if self._full:
            await self._mounted().make_room()
        if self._read_only:
            await self._mounted().let_go()
        if self._layer:
            self._layer.be_slow(0)
        self._full = self._read_only = False
        return ""

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

    def _mounted(self) -> LoopDisk:
        if self._loop is None:
            raise NodeError(self._node, "disk", "it has no file system of its own")
        return self._loop

    def _slow(self) -> Layer:
        if self._layer is None:
            raise NodeError(self._node, "disk", "no layer is before its C library")
        return self._layer
