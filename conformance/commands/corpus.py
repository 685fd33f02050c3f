"""`conformance list`, `validate`, `requirements` and `schema`: what is asked of the corpus without running it."""

import importlib
import json
import sys
from pathlib import Path

import typer

from conformance import paths
from conformance.candidates.description import Candidate
from conformance.nodes.document import InspectDocument, NodeDocument
from conformance.requirements.catalogue import catalogue
from conformance.requirements.coverage import coverage
from conformance.requirements.coverage import uncovered as without_scenario
from conformance.requirements.page import page
from conformance.scenarios.errors import Problems
from conformance.scenarios.grid import SIZES
from conformance.scenarios.loader import Scenario, check_corpus, read_corpus
from conformance.scenarios.schema import scenario_schema, topology_schema


def print_list(where: list[Path], grid: str) -> int:
    """Print every cell's id with its scenario's title; 2 when a scenario is wrong."""
    if grid not in SIZES:
        return _complain(f"--grid {grid}: one of {', '.join(SIZES)}")
    code = 0
    try:
        scenarios = _read(where)
    except OSError as error:
        return _complain(str(error))
    for scenario in scenarios:
        try:
            cells = scenario.cells(SIZES[grid])
        except Problems as error:
            code = _complain(str(error))
            continue
        for cell in cells:
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
    known = importlib.import_module("conformance.reference.defects.catalogue").DEFECTS
    rows = coverage(catalogue(), scenarios, {name: (defect.breaks,) for name, defect in known.items()})
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
