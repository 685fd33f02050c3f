"""Makes the header records of a run directory: which candidates are judged, and for each cell what is run, how, and on what.

Every command that writes a run directory makes them here. An *assignment* says which candidate runs each server of a topology;
its identity is the candidate's name in reports.
"""

import asyncio
from collections.abc import Iterable

from pydantic import JsonValue

from conformance.candidates.assignment import Assignment
from conformance.candidates.cell_needs import claimed_capabilities
from conformance.candidates.description import Candidate
from conformance.execute import utc_timestamp
from conformance.history.secrets import REDACTED
from conformance.nodes.contract import NodeError
from conformance.nodes.kinds import node_class
from conformance.parameters import effective_parameters
from conformance.results.fingerprints import sha256_of_json
from conformance.results.schema import CandidateRecord, CellHeader
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell


def candidate_record(assignment: Assignment, cells: Iterable[Cell] = ()) -> CandidateRecord:
    """Return the record of an assignment in the header of a run.

    Its claims are those that all candidates have in common which run a server in one of `cells`; without cells, those
    that all candidates of the assignment have in common. A single candidate is asked for its version, which starts its
    program and blocks; several have the kind `mixed` and the version `several`.
    """
    single = not assignment.servers
    candidates = (
        assignment.candidates_for(dict.fromkeys(server for cell in cells for server in cell.topology.by_name))
        or assignment.candidates
    )
    return CandidateRecord(
        name=assignment.identity,
        kind=assignment.default.kind if single else "mixed",
        version=_version(assignment.default) if single else "several",
        sha256=_sha256(assignment),
        claims=tuple(sorted(frozenset.intersection(*(frozenset(candidate.claims) for candidate in candidates)))),
    )


def item_name(cell: Cell, assignment: Assignment) -> str:
    """Return the bracketed part of a cell's pytest node id: `candidate=postfix,axis=value`."""
    return ",".join([f"candidate={assignment.identity}", *(f"{axis}={value}" for axis, value in cell.axes.items())])


def cell_header(
    cell: Cell,
    assignment: Assignment,
    settings: Settings,
    *,
    run: str,
    nodeid: str,
    environment_sha256: str,
    repeat: str,
) -> CellHeader:
    """Return the first record of a cell's file, stamped with the present time.

    `nodeid` is pytest's; `repeat` is the command line that runs this one cell again.
    """
    return CellHeader(
        run=run,
        nodeid=nodeid,
        scenario=cell.scenario,
        title=cell.title,
        path=cell.path,
        line=cell.line,
        axes=cell.axes,
        candidate=assignment.identity,
        candidate_sha256=_sha256(assignment),
        generations=tuple(sorted({server.generation for server in cell.topology.servers})),
        requirements=cell.requirements,
        scenario_sha256=cell.sha256,
        environment_sha256=environment_sha256,
        seed=settings.seed,
        clock=settings.clock,
        scale=settings.scale,
        tolerance=settings.tolerance,
        started=utc_timestamp(),
        repeat=repeat,
        topology=_without_secrets(cell.topology.model_dump(mode="json", by_alias=True)),
        parameters={
            server.name: effective_parameters(cell.topology.transport, server.transport)
            for server in cell.topology.servers
        },
        waive=cell.waive,
        own_timers=_own_timers(cell, assignment),
        claims=tuple(sorted(claimed_capabilities(cell, assignment))),
        should=settings.should,
    )


def _without_secrets(topology: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a topology, as JSON, with the secrets of its rights replaced; a right without a secret stays as it is."""
    rights = topology.get("rights")
    if isinstance(rights, list):
        redacted = [
            {**right, "secret": right.get("secret") and REDACTED} for right in rights if isinstance(right, dict)
        ]
        return {**topology, "rights": [*redacted]}
    return topology


def _own_timers(cell: Cell, assignment: Assignment) -> dict[str, JsonValue] | None:
    """Return the candidate's own timers as JSON for a cell with `timers: own`; None for any other cell.

    None also where its description states none, and where the cell's candidates have different ones.
    """
    timers = assignment.own_timers(cell.topology.by_name)
    if cell.timers != "own" or timers is None:
        return None
    described: dict[str, JsonValue] = timers.model_dump(mode="json", by_alias=True, exclude_none=True)
    return described


def _sha256(assignment: Assignment) -> str:
    """Return the hash of the candidate's description, or one over the descriptions of several candidates.

    An assignment without `servers` has one candidate, its default. The key '' is that of the default.
    """
    if not assignment.servers:
        return assignment.default.sha256
    candidates = {**assignment.servers, "": assignment.default}
    return sha256_of_json({name: candidate.sha256 for name, candidate in candidates.items()})


def _version(candidate: Candidate) -> str:
    """Return the version that the candidate's program reports, or the described one and why none was reported.

    Blocks while the program runs.
    """
    try:
        return asyncio.run(node_class(candidate.kind).version(candidate))
    except NodeError as error:
        return f"{candidate.version} ({error.reason})"
