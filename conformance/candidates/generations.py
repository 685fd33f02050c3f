"""As which generation a server is started: as one that its description names, in a place that the topology has for it."""

from conformance.candidates.assignment import Assignment
from conformance.candidates.description import Candidate
from conformance.generations import GENERATION_SPECIFIC, Generation, generations_of
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.document import Cell


def with_described_generations(cell: Cell, assignment: Assignment) -> Cell:
    """Return a cell in which the places of no particular generation are taken as the candidates' descriptions say.

    Such a place is one whose generation the topology does not state, in a cell that neither judges a requirement nor
    needs a capability of some generations only. A candidate that is not of the default generation has the first that it
    names there.
    """
    rows = catalogue()
    if not GENERATION_SPECIFIC.isdisjoint(cell.needs) or any(
        "any" not in rows[r].generations for r in cell.requirements
    ):
        return cell
    taken: dict[str, Generation] = {}
    for server in cell.topology.servers:
        can_be = assignment.candidate_for(server.name).generations
        if "generation" not in server.model_fields_set and server.generation not in can_be:
            taken[server.name] = can_be[0]
    return with_generations(cell, taken)


def with_probed_generations(cell: Cell, candidate: Candidate, claim: str) -> Cell:
    """Return a probe whose servers are of the first generation that the description names and the claim is of.

    A description that names no generations is started as the probe's topology says.
    """
    if "generations" not in candidate.model_fields_set:
        return cell
    of_claim = generations_of(claim)
    first = next((generation for generation in candidate.generations if generation in of_claim), None)
    return cell if first is None else with_generations(cell, {server.name: first for server in cell.topology.servers})


def with_generations(cell: Cell, taken: dict[str, Generation]) -> Cell:
    """Return a cell with the generations of some servers, by name, replaced."""
    if not taken:
        return cell
    servers = tuple(
        server.model_copy(update={"generation": taken.get(server.name, server.generation)})
        for server in cell.topology.servers
    )
    return cell.model_copy(update={"topology": cell.topology.model_copy(update={"servers": servers})})
