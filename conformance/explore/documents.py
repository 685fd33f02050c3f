"""A cell as a document of the scenario language: what exploration finds becomes a scenario file, which can be run again.

The document has no axes: the values of the cell are written in their places. Its topology is written out. Durations are written as
`2h5m`, and fields with the value of their default are left out. The command `conformance explore` writes files by this.
"""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML

from conformance.scenarios.document import Cell
from conformance.scenarios.errors import Problem
from conformance.scenarios.loader import SUFFIX, parse_scenarios, read_scenarios
from conformance.scenarios.steps.action import Expect, Parallel, Repeat, Step
from conformance.scenarios.values import format_duration

YamlMapping = dict[str, Any]


def as_document(cell: Cell, *, id: str, title: str, description: str = "") -> YamlMapping:  # noqa: A002  # a key of the language
    """Return the document of a cell, under another id and title."""
    document: YamlMapping = {"id": id, "title": title}
    if description:
        document["description"] = description
    document |= {"requirements": list(cell.requirements), "needs": list(cell.needs)}
    if cell.timers != "told":
        document["timers"] = cell.timers
    if cell.parameters != "explicit":
        document["parameters"] = [cell.parameters]
    if cell.unscaled:
        document["unscaled"] = cell.unscaled
    if cell.waive:
        document["waive"] = dict(cell.waive)
    if cell.tags:
        document["tags"] = list(cell.tags)
    document["topology"] = _fields(cell.topology)
    document["drain"] = format_duration(cell.drain)
    document["steps"] = [as_step(step) for step in cell.steps]
    return document


def as_step(step: Step) -> YamlMapping:
    """Return a step as the mapping that a document has."""
    action = step.action
    match action:
        case Expect():
            written: YamlMapping = {"expect": {action.verb: _fields(action.expectation)}}
        case Parallel():
            written = {"parallel": {"steps": [as_step(inner) for inner in action.steps]}}
        case Repeat():
            written = {"repeat": {"times": action.times, "steps": [as_step(inner) for inner in action.steps]}}
        case _:
            written = {step.verb: _fields(action)}
    return {**written, "label": step.label} if step.label is not None else written


def to_yaml(documents: Iterable[Mapping[str, Any]], comments: Iterable[str] = ()) -> str:
    """Return documents as the text of a scenario file, with lines of comment in front."""
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump_all([dict(document) for document in documents], text)
    return "".join(f"# {line}\n" for line in comments) + text.getvalue()


def read_cell(path: Path, fixtures: Path) -> Cell:
    """Return the single cell of a file that has one scenario without axes.

    Raises InvalidFile for a scenario with problems and for a file that cannot be read, ValueError where the file has several scenarios or
    the scenario several cells.
    """
    (scenario,) = read_scenarios(path, fixtures)
    (cell,) = scenario.cells()
    return cell


def problems_of(cell: Cell, fixtures: Path) -> tuple[Problem, ...]:
    """Return what `conformance validate` would find wrong with the file of a cell, such as a step that names a missing server."""
    text = to_yaml([as_document(cell, id="unnamed", title="A cell without a name yet")])
    return tuple(
        problem for scenario in parse_scenarios(text, Path("unnamed"), fixtures) for problem in scenario.problems
    )


def write_cell(cell: Cell, path: Path, *, title: str, description: str, comments: Iterable[str] = ()) -> None:
    """Write a cell as a scenario file, over an earlier one; the id is the file's name without the suffix. Raises OSError."""
    name = path.name.removesuffix(SUFFIX)
    path.write_text(to_yaml([as_document(cell, id=name, title=title, description=description)], comments), "utf-8")


def _fields(model: BaseModel) -> YamlMapping:
    """Return the fields of a part of a scenario that differ from their defaults, under their names in the language."""
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=False)
