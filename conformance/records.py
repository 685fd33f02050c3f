"""The records of a run directory that say who is judged, in which cell, and how: for every command that writes a run."""

import asyncio
from collections.abc import Iterable

from pydantic import JsonValue

from conformance.candidates.cast import Cast
from conformance.candidates.description import Candidate
from conformance.candidates.needs import claims
from conformance.execute import stamp
from conformance.history.secrets import REDACTED
from conformance.nodes.contract import NodeError
from conformance.nodes.kinds import node_class
from conformance.parameters import effective_parameters
from conformance.results.identity import sha256_of
from conformance.results.schema import CandidateRecord, CellHeader
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell


def candidate_record(cast: Cast, cells: Iterable[Cell] = ()) -> CandidateRecord:
    """Return what the header of a run says of one cast.

    `cells` are those of the run: what is claimed is what all claim who play a server in one of them. Without any it is
    what everybody in the cast claims.
    """
    alone = not cast.servers
    players = (
        cast.players(dict.fromkeys(server for cell in cells for server in cell.topology.by_name)) or cast.candidates
    )
    return CandidateRecord(
        name=cast.identity,
        kind=cast.default.kind if alone else "mixed",
        version=_version(cast.default) if alone else "several",
        sha256=_sha256(cast),
        claims=tuple(sorted(frozenset.intersection(*(frozenset(one.claims) for one in players)))),
    )


def item_name(cell: Cell, cast: Cast) -> str:
    """Return the last part of a node id: `candidate=postfix,axis=value`, axes sorted."""
    return ",".join([f"candidate={cast.identity}", *(f"{axis}={value}" for axis, value in cell.axes.items())])


def cell_header(
    cell: Cell, cast: Cast, settings: Settings, *, run: str, nodeid: str, environment_sha256: str, repeat: str
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
        candidate=cast.identity,
        candidate_sha256=_sha256(cast),
        generations=tuple(sorted({server.generation for server in cell.topology.servers})),
        requirements=cell.requirements,
        scenario_sha256=cell.sha256,
        environment_sha256=environment_sha256,
        seed=settings.seed,
        clock=settings.clock,
        scale=settings.scale,
        tolerance=settings.tolerance,
        started=stamp(),
        repeat=repeat,
        topology=_without_secrets(cell.topology.model_dump(mode="json", by_alias=True)),
        parameters={
            one.name: effective_parameters(cell.topology.transport, one.transport) for one in cell.topology.servers
        },
        waive=cell.waive,
        own_timers=_own_timers(cell, cast),
        claims=tuple(sorted(claims(cell, cast))),
        should=settings.should,
    )


def _without_secrets(topology: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a topology whose passwords are not told."""
    rights = topology.get("rights")
    if isinstance(rights, list):
        shown = [{**one, "secret": one.get("secret") and REDACTED} for one in rights if isinstance(one, dict)]
        return {**topology, "rights": [*shown]}
    return topology


def _own_timers(cell: Cell, cast: Cast) -> dict[str, JsonValue] | None:
    """Return what the candidate says of its own timers, when the cell goes by them."""
    timers = cast.own_timers(cell.topology.by_name)
    if cell.timers != "own" or timers is None:
        return None
    described: dict[str, JsonValue] = timers.model_dump(mode="json", by_alias=True, exclude_none=True)
    return described


def _sha256(cast: Cast) -> str:
    everybody = {name: one.sha256 for name, one in [*cast.servers.items(), ("", cast.default)]}
    return sha256_of(everybody) if cast.servers else cast.default.sha256


def _version(candidate: Candidate) -> str:
    """Return the version that the candidate reports, or why it reports none: that does not prevent a judgement."""
    try:
        return asyncio.run(node_class(candidate.kind).version(candidate))
    except NodeError as error:
        return f"{candidate.version} ({error.reason})"
