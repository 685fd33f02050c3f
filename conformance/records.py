"""The records of a run directory that say who is judged, in which cell, and how: for every command that writes a run."""

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
    """Return what the header of a run says of one assignment.

    `cells` are those of the run: what is claimed is what all claim who play a server in one of them. Without any it is
    what everybody in the assignment claims.
    """
    alone = not assignment.servers
    players = (
        assignment.candidates_for(dict.fromkeys(server for cell in cells for server in cell.topology.by_name))
        or assignment.candidates
    )
    return CandidateRecord(
        name=assignment.identity,
        kind=assignment.default.kind if alone else "mixed",
        version=_version(assignment.default) if alone else "several",
        sha256=_sha256(assignment),
        claims=tuple(sorted(frozenset.intersection(*(frozenset(one.claims) for one in players)))),
    )


def item_name(cell: Cell, assignment: Assignment) -> str:
    """Return the last part of a node id: `candidate=postfix,axis=value`, axes sorted."""
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
    """Return the first line of a cell's file. `repeat` is the command that runs this one cell again."""
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
            one.name: effective_parameters(cell.topology.transport, one.transport) for one in cell.topology.servers
        },
        waive=cell.waive,
        own_timers=_own_timers(cell, assignment),
        claims=tuple(sorted(claimed_capabilities(cell, assignment))),
        should=settings.should,
    )


def _without_secrets(topology: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a topology whose passwords are not told."""
    rights = topology.get("rights")
    if isinstance(rights, list):
        shown = [{**one, "secret": one.get("secret") and REDACTED} for one in rights if isinstance(one, dict)]
        return {**topology, "rights": [*shown]}
    return topology


def _own_timers(cell: Cell, assignment: Assignment) -> dict[str, JsonValue] | None:
    """Return what the candidate says of its own timers, when the cell goes by them."""
    timers = assignment.own_timers(cell.topology.by_name)
    if cell.timers != "own" or timers is None:
        return None
    described: dict[str, JsonValue] = timers.model_dump(mode="json", by_alias=True, exclude_none=True)
    return described


def _sha256(assignment: Assignment) -> str:
    everybody = {name: one.sha256 for name, one in [*assignment.servers.items(), ("", assignment.default)]}
    return sha256_of_json(everybody) if assignment.servers else assignment.default.sha256


def _version(candidate: Candidate) -> str:
    """Return the version that the candidate reports, or why it reports none: that does not prevent a judgement."""
    try:
        return asyncio.run(node_class(candidate.kind).version(candidate))
    except NodeError as error:
        return f"{candidate.version} ({error.reason})"
