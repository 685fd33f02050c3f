"""What a cell needs of each of its servers: capabilities, commands and a generation; and which candidates lack it.

A capability is needed only from the servers that can be expected to have it. `shadow-2013` and `shadow-2010` are needed from
servers of the generations whose documents describe them, `duplicate-detection` and `lmtp-delivery` from servers of the role
`mailbox`, that have a recipient's mailbox, or that get a mailbox database in a step, and `inspect`, `redirect` and `resubmit`
from the servers to which a step gives that command. A capability that this rule leaves to no server is needed from all of
them.

A *cell* is one scenario with one candidate for each server. A *need* is a word of a cell's `needs`: a capability, `shadow`
(either form of shadow redundancy), or an ability that every candidate has unless its description lists it in `lacks`
(`queue`, `routes`, `alternatives`). A server's *generation* (`ex2010`, `ex2013`, `ex2016`) says which documents describe it.
"""

from collections.abc import Iterable, Iterator

from conformance.candidates.assignment import Assignment
from conformance.candidates.description import Candidate
from conformance.candidates.kind import commands_needed, recipients
from conformance.generations import GENERATION_SPECIFIC, GENERATIONS, SHADOW_CAPABILITIES, Generation, generations_of
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.document import CAPABILITIES, LACKS, Cell
from conformance.scenarios.fault_grid import GridSize
from conformance.scenarios.loader import Scenario
from conformance.scenarios.steps.nodes import Activate
from conformance.topology import Server

_MAILBOX_CAPABILITIES = frozenset({"lmtp-delivery", "duplicate-detection"})
"""Capabilities that are needed only from servers with mailboxes, as the module says."""

_COMMANDS = {"inspect": "inspect", "redirect": "redirect-messages", "resubmit": "resubmit"}
"""Capabilities that are commands, by name: they are needed only from the servers on which a step runs the command."""


def servers_needing(need: str, cell: Cell) -> tuple[Server, ...]:
    """Return the servers of a cell that have to meet a need, by the module's rules; all for a need without a rule."""
    servers = cell.topology.servers
    needing: Iterable[Server] = servers
    if need in GENERATION_SPECIFIC:
        needing = (server for server in servers if need in GENERATIONS[server.generation])
    elif need in _MAILBOX_CAPABILITIES:
        hosts = _mailbox_hosts(cell)
        needing = (server for server in servers if server.role == "mailbox" or server.name in hosts)
    elif need in _COMMANDS:
        steps = cell.all_steps
        needing = (s for s in servers if any(_COMMANDS[need] in commands_needed(step, s.name) for step in steps))
    return tuple(needing) or servers


def unclaimed_needs(cell: Cell, assignment: Assignment) -> tuple[str, ...]:
    """Return `candidate: capability` for each need of a cell that the candidate of a server needing it does not claim.

    `routes` is needed also without being in `needs`, where the recipients require it.
    """
    needs = dict.fromkeys((*cell.needs, *(("routes",) if _needs_routes(cell) else ())))
    missing = (
        f"{assignment.candidate_for(server.name).identity}: {_WORDS.get(need, need)}"
        for need in needs
        for server in servers_needing(need, cell)
        if not _meets_need(assignment.candidate_for(server.name), need)
    )
    return tuple(dict.fromkeys(missing))


_WORDS = {
    "shadow": "shadow-2013 or shadow-2010",
    "queue": "queue (its description says that it lacks it)",
    "routes": "routes (its description says that it lacks them)",
    "alternatives": "alternatives (its description says that it lacks them)",
}
"""How needs that are not names of capabilities appear in reasons."""


def _meets_need(candidate: Candidate, need: str) -> bool:
    """Whether a candidate claims a need of a cell, or does not state that it lacks it."""
    if need in LACKS:
        return need not in candidate.lacks
    if need == "shadow":
        return not SHADOW_CAPABILITIES.isdisjoint(candidate.claims)
    return need in candidate.claims


def _needs_routes(cell: Cell) -> bool:
    """Whether a message has a recipient with a mailbox here or with another route than that for all domains (`*`).

    Then the servers must know more than one next hop, which a candidate that lacks `routes` does not.
    """
    boxes = {mailbox.address.lower() for mailbox in cell.topology.mailboxes}
    hops = {route.domain.lower(): route.next_hops for route in cell.topology.routes}
    for address in recipients(cell.all_steps):
        if address.lower() in boxes or hops.get(address.rpartition("@")[2].lower(), hops.get("*")) != hops.get("*"):
            return True
    return False


def unsupported_reasons(cell: Cell, assignment: Assignment, scale: float) -> tuple[str, ...]:
    """Return `server: reason`, the first reason only, for each server that its candidate cannot play in a cell.

    `scale` is what the run divides times by.
    """
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
    """Return the capabilities that every server needing them claims."""
    return frozenset(
        need
        for need in CAPABILITIES
        if all(need in assignment.candidate_for(server.name).claims for server in servers_needing(need, cell))
    )


def _mailbox_hosts(cell: Cell) -> frozenset[str]:
    """Return the names of the servers with a mailbox of a recipient, and of those that a step moves a mailbox database to."""
    addressed = {address.lower() for address in recipients(cell.all_steps)}
    stores = {mailbox.server for mailbox in cell.topology.mailboxes if mailbox.address.lower() in addressed}
    return frozenset(stores | {step.action.on for step in cell.all_steps if isinstance(step.action, Activate)})


def cells_for(scenario: Scenario, grid: GridSize, assignment: Assignment) -> Iterator[Cell]:
    """Yield the cells of a scenario as an assignment runs them: with its candidates' own timers and described generations.

    `grid` is the size of the scenario's fault grids. Number and order of the cells are the same for all assignments. Raises
    InvalidFile where the scenario has problems.
    """
    for number, example in enumerate(scenario.cells(grid)):
        # the servers of a cell are the same whatever the timers
        cell = scenario.cells(grid, assignment.own_timers(example.topology.by_name))[number]
        yield with_described_generations(cell, assignment)


def with_described_generations(cell: Cell, assignment: Assignment) -> Cell:
    """Return the cell with generations that its candidates can be, where the cell leaves the generation open.

    A server's generation is open when the topology does not state it and the cell neither judges a requirement nor needs a
    capability of some generations only. A candidate that cannot be of the default generation is then started as the first
    one that its description names.
    """
    rows = catalogue()
    if not GENERATION_SPECIFIC.isdisjoint(cell.needs) or any(
        "any" not in rows[r].generations for r in cell.requirements
    ):
        return cell
    generations: dict[str, Generation] = {}
    for server in cell.topology.servers:
        possible = assignment.candidate_for(server.name).generations
        if "generation" not in server.model_fields_set and server.generation not in possible:
            generations[server.name] = possible[0]
    return with_generations(cell, generations)


def with_probed_generations(cell: Cell, candidate: Candidate, claim: str) -> Cell:
    """Return the cell that tries a claim, with all its servers of one generation that the candidate can be.

    A claim is a capability that the description states (`conformance candidate check` tries each in a cell). The generation is the
    first that the description names and whose documents have the claim. The cell is returned unchanged for a description that
    names no generations, and when none of them has the claim.
    """
    if "generations" not in candidate.model_fields_set:
        return cell
    of_claim = generations_of(claim)
    first = next((generation for generation in candidate.generations if generation in of_claim), None)
    return cell if first is None else with_generations(cell, {server.name: first for server in cell.topology.servers})


def with_generations(cell: Cell, generations: dict[str, Generation]) -> Cell:
    """Return a cell with the generations of some servers replaced; `generations` is by the server's name.

    Without any the cell itself is returned.
    """
    if not generations:
        return cell
    servers = tuple(
        server.model_copy(update={"generation": generations.get(server.name, server.generation)})
        for server in cell.topology.servers
    )
    return cell.model_copy(update={"topology": cell.topology.model_copy(update={"servers": servers})})
