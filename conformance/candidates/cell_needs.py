"""Which servers of a cell a capability is asked of: those of the generation and role that it is of; and who cannot do what is asked.

The shadow copies of 2013 are no business of a 2010 hub beside them, and duplicates are detected where mailboxes are. What
no server of a cell is of is asked of all of them.
"""

from collections.abc import Iterable

from conformance.candidates.assignment import Assignment
from conformance.candidates.description import Candidate
from conformance.candidates.step_demands import commands_needed, recipients
from conformance.generations import GENERATION_SPECIFIC, GENERATIONS, SHADOW_CAPABILITIES
from conformance.scenarios.document import CAPABILITIES, LACKS, Cell
from conformance.scenarios.steps.nodes import Activate
from conformance.topology import Server

_OF_MAILBOXES = frozenset({"lmtp-delivery", "duplicate-detection"})
"""What is asked of servers that host mailboxes."""

_COMMANDS = {"inspect": "inspect", "redirect": "redirect-messages", "resubmit": "resubmit"}
"""Capabilities that are commands: they are asked of the servers that a step gives the command to."""


def servers_needing(need: str, cell: Cell) -> tuple[Server, ...]:
    """Return the servers of a cell that a capability is asked of."""
    servers = cell.topology.servers
    found: Iterable[Server] = servers
    if need in GENERATION_SPECIFIC:
        found = (server for server in servers if need in GENERATIONS[server.generation])
    elif need in _OF_MAILBOXES:
        hosts = _hosts(cell)
        found = (server for server in servers if server.role == "mailbox" or server.name in hosts)
    elif need in _COMMANDS:
        steps = cell.all_steps
        found = (s for s in servers if any(_COMMANDS[need] in commands_needed(step, s.name) for step in steps))
    return tuple(found) or servers


def unclaimed_needs(cell: Cell, assignment: Assignment) -> tuple[str, ...]:
    """Return `candidate: capability` for every need of a cell that one of the servers asked does not claim."""
    needs = dict.fromkeys((*cell.needs, *(("routes",) if _chooses_next_hops(cell) else ())))
    missing = (
        f"{assignment.candidate_for(server.name).identity}: {_WORDS.get(need, need)}"
        for need in needs
        for server in servers_needing(need, cell)
        if not _meets(assignment.candidate_for(server.name), need)
    )
    return tuple(dict.fromkeys(missing))


_WORDS = {
    "shadow": "shadow-2013 or shadow-2010",
    "queue": "queue (its description says that it lacks it)",
    "routes": "routes (its description says that it lacks them)",
    "alternatives": "alternatives (its description says that it lacks them)",
}
"""How needs are said that are no capabilities."""


def _meets(candidate: Candidate, need: str) -> bool:
    if need in LACKS:
        return need not in candidate.lacks
    if need == "shadow":
        return not SHADOW_CAPABILITIES.isdisjoint(candidate.claims)
    return need in candidate.claims


def _chooses_next_hops(cell: Cell) -> bool:
    """Whether mail of a cell has to go to another next hop than the one for all domains (`*`)."""
    boxes = {mailbox.address.lower() for mailbox in cell.topology.mailboxes}
    hops = {route.domain.lower(): route.next_hops for route in cell.topology.routes}
    for address in recipients(cell.all_steps):
        if address.lower() in boxes or hops.get(address.rpartition("@")[2].lower(), hops.get("*")) != hops.get("*"):
            return True
    return False


def unsupported_reasons(cell: Cell, assignment: Assignment, scale: float) -> tuple[str, ...]:
    """Return `server: reason` for every server that cannot play its part in a cell; `scale` divides the run's times."""
    names = (server.name for server in cell.topology.servers)
    reasons = {
        name: next(
            assignment.candidate_for(name).kind_definition.unsupported_reasons(
                cell, name, assignment.candidate_for, scale
            ),
            None,
        )
        for name in names
    }
    return tuple(f"{server}: {reason}" for server, reason in reasons.items() if reason)


def claimed_capabilities(cell: Cell, assignment: Assignment) -> frozenset[str]:
    """Return the capabilities that all of the servers asked claim."""
    return frozenset(
        need
        for need in CAPABILITIES
        if all(need in assignment.candidate_for(server.name).claims for server in servers_needing(need, cell))
    )


def _hosts(cell: Cell) -> frozenset[str]:
    """Return the servers with a mailbox that a message of the cell is sent to, or that a step moves a database to."""
    addressed = {address.lower() for address in recipients(cell.all_steps)}
    stores = {mailbox.server for mailbox in cell.topology.mailboxes if mailbox.address.lower() in addressed}
    return frozenset(stores | {step.action.on for step in cell.all_steps if isinstance(step.action, Activate)})
