"""Trials that are kept: a run directory like any other, with the reference and each of its defects as candidates."""

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conformance import paths
from conformance.candidates.cast import Cast
from conformance.candidates.description import REFERENCE, Candidate
from conformance.defects.plan import Planned
from conformance.execute import stamp
from conformance.records import candidate_record, cell_header, item_name
from conformance.results.identity import environment_sha256, suite_sha256
from conformance.results.schema import CellHeader, RunHeader
from conformance.results.writer import begin_run
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell


def broken_reference(defect: str | None) -> Candidate:
    """Return the reference with a defect; None: without one."""
    return REFERENCE.model_copy(update={"defect": defect})


@dataclass(frozen=True, slots=True)
class KeptTrials:
    """The run directory in which trials are kept, and what the headers of its cells have in common."""

    directory: Path
    environment_sha256: str

    @classmethod
    def begin(cls, directory: Path, trials: Iterable[Planned], seed: int, command: tuple[str, ...]) -> "KeptTrials":
        """Write the header of a run of these trials. Raises RunDirectoryError when the directory holds another run."""
        planned = tuple(trials)
        defects = dict.fromkeys(one.defect for one in planned)
        environment = environment_sha256()
        header = RunHeader(
            run=directory.name,
            started=stamp(),
            seed=seed,
            clock="virtual",
            candidates=tuple(candidate_record(Cast(broken_reference(defect))) for defect in defects),
            suite_sha256=suite_sha256(one.cell.sha256 for one in planned),
            environment_sha256=environment,
            command=command,
            filtered=True,
            cells_planned=len(planned),
        )
        begin_run(directory, header)
        return cls(directory, environment)

    def header(self, cell: Cell, cast: Cast, settings: Settings) -> CellHeader:
        """Return the header of one trial: the cell as `conformance run` would run it with that candidate."""
        place = os.path.relpath(paths.corpus() / cell.path)
        nodeid = f"{place}::{cell.scenario}::{item_name(cell, cast)}"
        words = ["conformance", "run", nodeid, "--candidate", cast.identity, "--clock", settings.clock]
        return cell_header(
            cell,
            cast,
            settings,
            run=self.directory.name,
            nodeid=nodeid,
            environment_sha256=self.environment_sha256,
            repeat=shlex.join([*words, "--seed", str(settings.seed)]),
        )
