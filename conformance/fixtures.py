"""Fixtures for other people's tests, and nothing else: no option, no collection of scenario files.

`pytest_plugins = ["conformance.fixtures"]` in a conftest.py makes them known.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conformance.execute import CellResult

    RunScenario = Callable[..., tuple[CellResult, ...]]


@pytest.fixture
def run_scenario(tmp_path: Path) -> RunScenario:
    """Run all cells of a scenario file against a candidate and return their results, in the order of the file.

    `run_scenario(file, candidate="reference", clock=..., scale=..., seed=...)`: `candidate` is what `--candidate` takes; the
    others are those of `conformance.run.settings.Settings`. What is run is written below the test's `tmp_path`, in `run`. A
    result has an `outcome` ("pass", "fail", "inconclusive", "not-applicable" or "error"), `verdicts`, `events`, the `file` of
    its history, and the `logs` of the nodes. Raises ScenarioErrors, CandidateError.
    """

    def run(file: str | Path, candidate: str = "reference", **settings: object) -> tuple[CellResult, ...]:
        # Imported here, since a test session that runs no scenario need not pay for it.
        from conformance import paths
        from conformance.candidates.cast import read_cast
        from conformance.execute import execute
        from conformance.records import cell_header, item_name
        from conformance.results.identity import environment_sha256
        from conformance.run.bridge import at_once
        from conformance.run.settings import Settings
        from conformance.scenarios.loader import read_corpus

        cast = read_cast(candidate, paths.fixtures() / "candidates")
        how = Settings(**settings)  # type: ignore[arg-type]  # what it is given is the caller's to know
        results = []
        for scenario in read_corpus([Path(file)], paths.fixtures()):
            for cell in scenario.cells(how.grid):
                name = f"{Path(file).name}::{cell.id}::{item_name(cell, cast)}"
                header = cell_header(
                    cell, cast, how, run="run", nodeid=name, environment_sha256=environment_sha256(), repeat=""
                )
                results.append(at_once(execute(cell, cast, how, header, tmp_path / "run")))
        return tuple(results)

    return run
