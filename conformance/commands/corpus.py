"""`conformance list`, `validate`, `requirements` and `schema`: what is asked of the corpus without running it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from conformance import paths
from conformance.candidates.description import Candidate
from conformance.candidates.lookup import reference_defects
from conformance.nodes.document import InspectDocument, NodeDocument
from conformance.requirements.catalogue import catalogue
from conformance.requirements.coverage import coverage, page
from conformance.requirements.coverage import uncovered as without_scenario
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.fault_grid import GRID_SIZES
from conformance.scenarios.loader import Scenario, check_corpus, read_corpus
from conformance.scenarios.schema import scenario_schema, topology_schema
from conformance.suite.selection import SelectionError, check_requirements, find_scenarios, is_id, select


def print_list(where: list[Path], grid: str, only: Sequence[str] = (), requirements: Sequence[str] = ()) -> int:
    """Print the id of every wanted cell with its scenario's title; 2 when a scenario is wrong, or no cell is wanted."""
    if grid not in GRID_SIZES:
        return _complain(f"--grid {grid}: one of {', '.join(GRID_SIZES)}")
    only, where = [*only, *(str(path) for path in where if is_id(str(path)))], [p for p in where if not is_id(str(p))]
    code = 0
    cells: list[Cell] = []
    try:
        check_requirements(requirements)
        find_scenarios(only, where or [paths.corpus()], GRID_SIZES[grid])
        scenarios = _read(where)
    except (OSError, SelectionError) as error:
        return _complain(str(error))
    for scenario in scenarios:
        try:
            cells += scenario.cells(GRID_SIZES[grid])
        except InvalidFile as error:
            code = _complain(str(error))
    for cell, wanted in zip(cells, select(cells, only, requirements), strict=True):
        if wanted:
            typer.echo(f"{cell.id}  {cell.title}")
    return code


def print_problems(where: list[Path]) -> int:
    """Print everything that is wrong with scenario files; 2 when anything is."""
    try:
        problems = check_corpus(where or [paths.corpus()], paths.fixtures())
    except OSError as error:
        return _complain(str(error))
    for problem in problems:
        typer.echo(problem)
    return 2 if problems else 0


def print_requirements(*, uncovered: bool, as_json: bool) -> int:
    """Print the catalogue and who covers each row."""
    scenarios = {s.id: s.document.requirements for s in _read([]) if s.document is not None}
    rows = coverage(catalogue(), scenarios, {name: (defect.breaks,) for name, defect in reference_defects().items()})
    if uncovered:
        rows = without_scenario(rows)
    if as_json:
        told = [
            {
                "id": row.requirement.id,
                "level": row.requirement.level,
                "scenarios": list(row.scenarios),
                "defects": list(row.defects),
            }
            for row in rows
        ]
        typer.echo(json.dumps(told, indent=2))
        return 0
    for row in rows:
        typer.echo(row.requirement.clause)
        typer.echo(f"  scenarios: {', '.join(row.scenarios) or 'none'}; defects: {', '.join(row.defects) or 'none'}")
    return 0


def write_requirements(to: Path) -> int:
    """Write the catalogue as a page of the documentation."""
    to.write_text(page(catalogue()), "utf-8")
    return 0


def print_schema(what: str, out: Path | None) -> int:
    """Print a JSON Schema, or write it to a file."""
    schemas = {
        "scenario": scenario_schema,
        "topology": topology_schema,
        "candidate": Candidate.model_json_schema,
        "node": NodeDocument.model_json_schema,
        "inspect": InspectDocument.model_json_schema,
    }
    if what not in schemas:
        return _complain(f"schema {what}: one of {', '.join(schemas)}")
    text = json.dumps(schemas[what](), indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, "utf-8")
    return 0


def _read(where: list[Path]) -> tuple[Scenario, ...]:
    return read_corpus(where or [paths.corpus()], paths.fixtures())


def _complain(text: str) -> int:
    typer.echo(text, err=True)
    return 2
