"""The node classes, one for each kind of candidate: `conformance/nodes/KIND_node.py` has a subclass of `NodeBase`.

A cell (one scenario with one candidate for each server) gets a node in two steps: `find_place` chooses its addresses, so that
the links can be opened, and `create` makes the node itself, which is still down. A *link* is the address that one party (a
server, a sink) dials to reach another. The *guard* of a node is the harness's process above the node's own.

Under the *shifted* clock a node's processes see the machine's time plus a shift. Time *jumps* when the harness
increases that shift, because nothing is due before a later time.
"""

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from conformance import nodes, registry
from conformance.candidates.description import Candidate
from conformance.candidates.kind import KINDS
from conformance.nodes.commands import version_by_command
from conformance.nodes.contract import Node
from conformance.nodes.disks.node_disk import NodeDisk
from conformance.nodes.places import Place, PortLeases, leased_place
from conformance.topology import Server


class ProcessClock(Protocol):
    """Shifts the clock of a node's processes; implemented by `conformance.run.shifted.shifted_program`."""

    def command_prefix(self, program: str, environment: Mapping[str, str]) -> list[str]:
        """Return the words before a command of the node that shift its clock.

        `program` is the command's first word, `environment` its environment. Raises CannotShift for a program whose clock
        cannot be shifted.
        """

    def on_started(self, guard: int) -> None:
        """Follow the processes below the guard with this process id, which has just started."""

    def on_signal(self) -> None:
        """Note that the guard was just asked to signal the node."""

    def on_ready(self) -> None:
        """Let time jump, since the node is ready. Raises CannotShift when the clock of a process is not shifted."""

    def on_ending(self) -> None:
        """Stop time from jumping while the node ends."""

    def on_ended(self) -> None:
        """Let time jump again, since the node has ended."""

    def follow_command(self, pid: int) -> AbstractContextManager[None]:
        """Let time jump while the processes of a command, the child process `pid` and those below it, only wait as the node does."""


_NODE = "_node"

registry.check_counterparts(  # raises RegistryError when a kind lacks one of its two modules
    "kind of candidate",
    KINDS,
    "conformance/candidates/kinds/",
    (name.removesuffix(_NODE) for name in registry.submodule_names(nodes) if name.endswith(_NODE)),
    "conformance/nodes/*_node.py",
)


class NodeClock(Protocol):
    """What a node may ask of the cell's clock."""

    def now(self) -> float:
        """Return the current time of the cell for timestamps, POSIX seconds."""

    def shifted_program(self, directory: Path) -> ProcessClock | None:
        """Return what shifts the clock of a node's processes, with its files in `directory`; None on other clocks."""


@dataclass(frozen=True, slots=True)
class NodeContext:
    """All that a node of any kind may need to know of its cell."""

    name: str
    candidate: Candidate
    directory: Path
    """The node's own directory, for its files and its log."""
    data: Path
    """The node's data directory, as the node sees it."""
    place: Place
    clock: NodeClock
    disk: NodeDisk | None
    """A disk that the scenario makes fail; None when it makes none fail."""
    freeze: Callable[[bool], None]
    """Stop (True) or continue (False) all traffic on the node's links."""
    shares: Path | None
    """For a second process of a server: the data directory of the first, as the harness sees it; None for any other node."""
    set_host: Callable[[str | None], None]
    """Make the links to the node dial another host; None: dial nowhere until the next call."""


class NodeBase:
    """The base of every node class: what it declares of its kind, and how a cell gets its nodes.

    The rest of a node's interface is `conformance.nodes.contract.Node`.
    """

    seen_at: ClassVar[Path | None] = None
    """The path at which a node sees its own directory; None when it is the path that the harness uses."""

    def __init_subclass__(cls, *, kind: str | None) -> None:
        """Register the class of a kind's nodes; None: the class is a base of others."""
        if kind is not None:
            _CLASSES.add(kind, cls)

    @classmethod
    def prepare(cls, candidate: Candidate) -> None:
        """Do slow preparations, such as imports, before any clock runs; by default nothing. Raises NodeError."""

    @classmethod
    async def version(cls, candidate: Candidate) -> str:
        """Return the server's version: what its `version` command prints, else what the description says.

        Raises NodeError when the command fails.
        """
        return await version_by_command(candidate)

    @classmethod
    async def find_place(
        cls, server: Server, candidate: Candidate, directory: Path, leases: PortLeases, exit_stack: AsyncExitStack
    ) -> Place:
        """Choose the addresses of a server's node; what that takes is released by callbacks on `exit_stack`.

        `directory` is the node's own. By default each listener that the candidate opens gets a port of 127.0.0.1 that `leases` holds.
        Raises NodeError, and OSError when no port is free.
        """
        return leased_place(server.role, candidate, leases)

    @classmethod
    def create(cls, context: NodeContext) -> Node:
        """Return a new node, which is down. Each class of a kind overrides this; here it raises NotImplementedError."""
        raise NotImplementedError


_CLASSES: registry.Registry[type[NodeBase]] = registry.Registry("node of a kind")


def node_class(kind: str) -> type[NodeBase]:
    """Return the class of a kind's nodes; import its module only now, since some imports are slow.

    Raises RegistryError when the module registers no class for the kind.
    """
    importlib.import_module(f"{nodes.__name__}.{kind}{_NODE}")
    if kind not in _CLASSES:
        raise registry.RegistryError(f"conformance/nodes/{kind}{_NODE}.py has no class NodeBase, kind={kind!r}")
    return _CLASSES[kind]
