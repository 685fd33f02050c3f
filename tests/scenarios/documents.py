"""Scenario files for tests, written beside the harness's own fixtures."""

from collections.abc import Sequence
from pathlib import Path

from conformance import paths
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import Problem
from conformance.scenarios.fault_grid import GridSize
from conformance.scenarios.loader import read_scenarios

HEAD = """\
id: a-scenario
title: A scenario for the tests
requirements: [SR-CRE-01]
topology: two-servers-one-dag
"""

SEND = "  - send: {as: m, to: bob@corp.test, via: mbx1}\n"


def cells(folder: Path, text: str, grid: GridSize = "smoke") -> tuple[Cell, ...]:
    """Return the cells of a scenario. Raises Problems."""
    (scenario,) = read_scenarios(written(folder, text), paths.fixtures())
    return scenario.cells(grid)


def problems(folder: Path, text: str) -> Sequence[Problem]:
    """Return what is wrong with a scenario."""
    (scenario,) = read_scenarios(written(folder, text), paths.fixtures())
    return scenario.problems


def written(folder: Path, text: str) -> Path:
    """Write a scenario file and return its path."""
    path = folder / "a.scenario.yaml"
    path.write_text(text, "utf-8")
    return path
