"""Which troubles a scenario has for the disks of its servers, and why a cast cannot have them on this machine."""

from collections.abc import Iterable

from conformance.candidates.cast import Cast
from conformance.nodes.disks.choice import Kind, Trouble, missing
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.blocks import Parallel, Repeat, Step
from conformance.scenarios.steps.breaking import Disk
from conformance.scenarios.steps.nodes import PowerCut


def troubles_of(steps: Iterable[Step], server: str) -> frozenset[Trouble]:
    """Return what will be wrong with a server's disk in these steps."""
    found: set[Trouble] = set()
    for step in steps:
        match step.action:
            case Disk(node=node, trouble=trouble, at_write=at_write) if node == server:
                found.add("full-at-write" if trouble == "full" and at_write is not None else trouble)
            case PowerCut(node=names, keeps=keeps) if server in names or "all" in names:
                found.add("power-cut" if keeps == "what-file-systems-keep" else "power-cut-by-posix")
            case Parallel(steps=inner) | Repeat(steps=inner):
                found |= troubles_of(inner, server)
    return frozenset(found)


def lacking(cell: Cell, cast: Cast, disk: Kind | None) -> tuple[str, ...]:
    """Return `server: reason` for every server whose disk cannot have the troubles of a cell on this machine."""
    reasons = {
        server.name: missing(cast.plays(server.name), troubles_of(cell.steps, server.name), disk)
        for server in cell.topology.servers
    }
    return tuple(f"{server}: {reason}" for server, reason in reasons.items() if reason)
