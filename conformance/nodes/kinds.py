"""The node of each kind of candidate: `conformance/nodes/KIND_node.py` has a class that says of which kind it is."""

import importlib
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from conformance import nodes, registry
from conformance.candidates.description import Candidate
from conformance.candidates.kind import KINDS
from conformance.nodes.contract import Node
from conformance.nodes.disks.node_disk import NodeDisk
from conformance.nodes.places import Place, PortLeases, leased_place
from conformance.nodes.version import version_by_command
from conformance.topology import Server


class ProcessClock(Protocol):
    """What moves the clock of a node's processes (conformance.run.shifted.shifted_program)."""

    def command_prefix(self, program: str, environment: Mapping[str, str]) -> list[str]: ...
    def on_started(self, guard: int) -> None: ...
    def on_signal(self) -> None: ...
    def on_ready(self) -> None: ...
    def on_ending(self) -> None: ...
    def on_ended(self) -> None: ...


_NODE = "_node"

registry.check_counterparts(
    "kind of candidate",
    KINDS,
    "conformance/candidates/kinds/",
    (name.removesuffix(_NODE) for name in registry.submodule_names(nodes) if name.endswith(_NODE)),
    "conformance/nodes/*_node.py",
)


class NodeClock(Protocol):
    """What a node may ask of the cell's clock."""

    def now(self) -> float:
        """Return the moment for stamps, POSIX seconds."""
        ...

    def shifted_program(self, directory: Path) -> ProcessClock | None:
        """Return what moves the clock of a program, None where nothing has to."""
        ...


@dataclass(frozen=True, slots=True)
class NodeContext:
    """All that a node of any kind may need of the cell that it is in."""

    name: str
    candidate: Candidate
    directory: Path
    """Its own, for its files and its log."""
    data: Path
    place: Place
    clock: NodeClock
    disk: NodeDisk | None
    """One that may fail."""
    freeze: Callable[[bool], None]
    """Lets nothing in or out over its links, or again."""
    set_host: Callable[[str | None], None]
    """Make the links to the node dial another host; None: dial nowhere until the next call."""


class NodeBase:
    """What a node's class says of its kind, and how a cell gets one; the rest is as in conformance.nodes.contract."""

    seen_at: ClassVar[Path | None] = None
    """Where it sees its own directory, where that is another path than here."""

    def __init_subclass__(cls, *, kind: str) -> None:
        _CLASSES.add(kind, cls)

    @classmethod
    def prepare(cls, candidate: Candidate) -> None:
        """Do what takes its time before any clock runs. Raises NodeError."""

    @classmethod
    async def version(cls, candidate: Candidate) -> str:
        """Return which version it is, as it says itself, else as the description does. Raises NodeError."""
        return await version_by_command(candidate)

    @classmethod
    async def find_place(
        cls, server: Server, candidate: Candidate, directory: Path, leases: PortLeases, leaving: AsyncExitStack
    ) -> Place:
        """Find a place for a server, and leave it with `leaving`. Raises NodeError, and OSError where no port is left."""
        return leased_place(server.role, candidate, leases)

    @classmethod
    def create(cls, context: NodeContext) -> Node:
        """Return a node that is down."""
        raise NotImplementedError


_CLASSES: registry.Registry[type[NodeBase]] = registry.Registry("node of a kind")


def node_class(kind: str) -> type[NodeBase]:
    """Return the class of a kind's nodes; its module is imported now, since some take their time."""
    importlib.import_module(f"{nodes.__name__}.{kind}{_NODE}")
    if kind not in _CLASSES:
        raise registry.RegistryError(f"conformance/nodes/{kind}{_NODE}.py has no class NodeBase, kind={kind!r}")
    return _CLASSES[kind]
