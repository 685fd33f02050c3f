"""`conformance list`, `validate`, `requirements` and `schema`: commands that read scenarios and requirements and run nothing.

The parameter `paths_given` has scenario files, folders or ids; when it is empty, the corpus is read.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from conformance import paths
from conformance.candidates.lookup import reference_defects
from conformance.commands.schemas import NAMES, published_schema, scenario_schema_with_names
from conformance.model import RULES
from conformance.model.not_on_the_wire import NOT_ON_THE_WIRE
from conformance.requirements.catalogue import catalogue
from conformance.requirements.coverage import coverage, page
from conformance.requirements.coverage import uncovered as without_scenario
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.fault_grid import GRID_SIZES
from conformance.scenarios.loader import Scenario, check_corpus, read_corpus
from conformance.spark.invariants import INVARIANTS as QUERIES
from conformance.suite.selection import SelectionError, check_requirements, find_scenarios, is_id, select


def print_list(paths_given: list[Path], grid: str, only: Sequence[str] = (), requirements: Sequence[str] = ()) -> int:
    """Print the id and the title of each selected cell, and the problems of invalid scenarios.

    `grid` is the size of fault grids. `only` (ids of scenarios or cells) and `requirements` (rows or groups of the
    catalogue) restrict the selection. For an unknown name or size nothing but that error is printed. Returns 2 after any error,
    else 0.
    """
    if grid not in GRID_SIZES:
        return _report_error(f"--grid {grid}: one of {', '.join(GRID_SIZES)}")
    only = [*only, *(str(path) for path in paths_given if is_id(str(path)))]
    files = [path for path in paths_given if not is_id(str(path))]
    code = 0
    cells: list[Cell] = []
    try:
        check_requirements(requirements)
        find_scenarios(only, files or [paths.corpus()], GRID_SIZES[grid])  # only for its error about an unknown id
        scenarios = _read_scenarios(files)
    except (OSError, SelectionError) as error:
        return _report_error(str(error))
    for scenario in scenarios:
        try:
            cells += scenario.cells(GRID_SIZES[grid])
        except InvalidFile as error:
            code = _report_error(str(error))
    for cell, selected in zip(cells, select(cells, only, requirements), strict=True):
        if selected:
            typer.echo(f"{cell.id}  {cell.title}")
    return code


def print_problems(paths_given: list[Path]) -> int:
    """Print every error in scenario files as `path:line:col: message`. Returns 2 when there is one, else 0."""
    try:
        problems = check_corpus(paths_given or [paths.corpus()], paths.fixtures())
    except OSError as error:
        return _report_error(str(error))
    for problem in problems:
        typer.echo(problem)
    return 2 if problems else 0


def print_requirements(*, uncovered: bool, as_json: bool) -> int:
    """Print each requirement with the scenarios, rules and queries that judge it and the defects that break it, and return 0.

    Rules are those of the model, queries those of Spark, defects those of the reference. `uncovered` restricts the requirements to
    those that no scenario judges. `as_json` prints a JSON list in place of text.
    """
    scenarios = {s.id: s.document.requirements for s in _read_scenarios([]) if s.document is not None}
    rows = coverage(
        catalogue(),
        scenarios,
        {name: (defect.breaks,) for name, defect in reference_defects().items()},
        {name: rule.requirements for name, rule in RULES.items()},
        {f"invariant.{query.name}": query.requirements for query in QUERIES},
        NOT_ON_THE_WIRE,
    )
    if uncovered:
        rows = without_scenario(rows)
    if as_json:
        entries = [
            {
                "id": row.requirement.id,
                "level": row.requirement.level,
                "scenarios": list(row.scenarios),
                "defects": list(row.defects),
                "model": list(row.rules),
                "spark": list(row.queries),
                "unjudged": row.unjudged,
            }
            for row in rows
        ]
        typer.echo(json.dumps(entries, indent=2))
        return 0
    for row in rows:
        typer.echo(row.requirement.clause)
        typer.echo(f"  scenarios: {', '.join(row.scenarios) or 'none'}; defects: {', '.join(row.defects) or 'none'}")
        typer.echo(
            f"  model: {', '.join(row.rules) or row.unjudged or 'none'}; Spark: {', '.join(row.queries) or 'none'}"
        )
    return 0


def write_requirements(to: Path) -> int:
    """Write the requirements as a Markdown page to a file, and return 0. Raises OSError."""
    to.write_text(page(catalogue()), "utf-8")
    return 0


def print_schema(name: str, out: Path | None, *, with_names: bool = False) -> int:
    """Print a JSON Schema, or write it to the file `out`. Returns 2 for a wrong request, else 0. Raises OSError.

    `with_names`: the schema of scenarios lists the names of topologies, requirements and messages; wrong with any other.
    """
    if name not in NAMES:
        return _report_error(f"schema {name}: one of {', '.join(NAMES)}")
    if with_names and name != "scenario":
        return _report_error(f"schema {name} --names: only the schema of scenarios lists names")
    schema = scenario_schema_with_names() if with_names else published_schema(name)
    text = json.dumps(schema, indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, "utf-8")
    return 0


def _read_scenarios(files: list[Path]) -> tuple[Scenario, ...]:
    """Read scenarios from files and folders, by default from the corpus. Raises OSError."""
    return read_corpus(files or [paths.corpus()], paths.fixtures())


def _report_error(text: str) -> int:
    """Print an error, and return 2, the exit code for wrong input."""
    typer.echo(text, err=True)
    return 2
