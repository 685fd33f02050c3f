"""The run: one invocation, its directory, and what is told about it while it goes on and at its end."""

import os
import random
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.execute import CellResult, execute, stamp
from conformance.nodes.cast import Cast
from conformance.report.failure import failure_text
from conformance.results.identity import environment_sha256, suite_sha256
from conformance.results.schema import CandidateRecord, CellHeader, RunHeader
from conformance.results.writer import begin_run, finish_run
from conformance.scenarios.document import Cell
from conformance.suite.options import Options

if TYPE_CHECKING:
    from conformance.suite.item import CellItem

REPORTS = Path("reports")
"""Where a run without --run-dir gets its folder, in the directory that pytest was started in."""


class Run:
    """One invocation as one process sees it: the only one, or one of xdist's workers."""

    def __init__(self, directory: Path, options: Options, header: RunHeader) -> None:
        self.directory = directory
        self._options = options
        self._header = header

    @classmethod
    def begin(cls, config: pytest.Config, options: Options, cells: Sequence["CellItem"]) -> "Run":
        """Write the header (the first worker does) and return the run."""
        directory = run_directory(config, options)
        header = RunHeader(
            run=directory.name,
            started=stamp(),
            seed=options.settings.seed,
            clock=options.settings.clock,
            scale=options.settings.scale,
            grid=options.settings.grid,
            candidates=tuple(_record(cast) for cast in options.casts),
            suite_sha256=suite_sha256(item.cell.sha256 for item in cells),
            environment_sha256=environment_sha256(),
            command=tuple(["conformance", "run", *config.invocation_params.args]),
            filtered=bool(config.option.keyword or config.option.markexpr or _part_only(config)),
            cells_planned=len(cells),
        )
        begin_run(directory, header)
        return cls(directory, options, header)

    def execute(self, nodeid: str, cell: Cell, cast: Cast) -> CellResult:
        """Run and judge one cell."""
        header = CellHeader(
            run=self._header.run,
            nodeid=nodeid,
            scenario=cell.scenario,
            title=cell.title,
            path=cell.path,
            line=cell.line,
            axes=cell.axes,
            candidate=cast.identity,
            candidate_sha256=_record(cast).sha256,
            generations=tuple(sorted({server.generation for server in cell.topology.servers})),
            requirements=cell.requirements,
            scenario_sha256=cell.sha256,
            environment_sha256=self._header.environment_sha256,
            seed=self._header.seed,
            clock=self._header.clock,
            scale=self._header.scale,
            tolerance=self._options.settings.tolerance,
            started=stamp(),
            repeat=self.repeat(nodeid, cast),
            topology=cell.topology.model_dump(mode="json", by_alias=True),
        )
        return execute(cell, cast, self._options.settings, header, self.directory)

    def repeat(self, nodeid: str, cast: Cast) -> str:
        """Return the command that runs this one cell again, exactly."""
        settings = self._options.settings
        words = ["conformance", "run", nodeid, "--candidate", cast.identity, "--clock", settings.clock]
        if settings.clock == "scaled":
            words += ["--scale", f"{settings.scale:g}"]
        if "fault=" in nodeid:
            words += ["--grid", settings.grid]
        return shlex.join([*words, "--seed", str(settings.seed)])
