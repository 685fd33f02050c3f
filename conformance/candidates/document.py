"""A description's file as nodes that know their line and column, so that what is wrong with it is said at its place.

Descriptions may use all of YAML 1.2, aliases and merge keys too, as they could from the first version on.
"""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from conformance.scenarios.errors import Mark, Report
from conformance.scenarios.yaml_nodes import Entry, Node


def read_node(path: Path, report: Report) -> Node | None:
    """Return the document of a file, or None after it was reported why it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        report.add(Mark(1, 1), str(error))
        return None
    try:
        data = YAML(typ="safe", pure=True).load(text)
        composed = YAML(typ="safe", pure=True).compose(text)
    except YAMLError as error:
        place = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        mark = Mark(place.line + 1, place.column + 1) if place else Mark(1, 1)
        words = "; ".join(filter(None, (error.context, error.problem))) if isinstance(error, MarkedYAMLError) else error
        report.add(mark, f"not YAML: {words}")
        return None
    return Node(Mark(1, 1), None) if composed is None else _located(composed, data)


def _located(composed: MappingNode | SequenceNode | ScalarNode, data: Any) -> Node:
    """Return constructed data with the places of the nodes that it was constructed from."""
    mark = Mark(composed.start_mark.line + 1, composed.start_mark.column + 1)
    if isinstance(data, dict):
        pairs = {key.value: (key, value) for key, value in composed.value if isinstance(key, ScalarNode)}
        entries: dict[str, Entry] = {}
        for key, value in data.items():
            if str(key) in pairs:
                of_key, of_value = pairs[str(key)]
                place = Mark(of_key.start_mark.line + 1, of_key.start_mark.column + 1)
                entries[key] = Entry(place, _located(of_value, value))
            else:  # from a merge key
                entries[key] = Entry(mark, _unlocated(value, mark))
        return Node(mark, entries)
    if isinstance(data, list):
        return Node(mark, tuple(_located(one, value) for one, value in zip(composed.value, data, strict=True)))
    return Node(mark, data)


def _unlocated(data: Any, mark: Mark) -> Node:
    if isinstance(data, dict):
        return Node(mark, {key: Entry(mark, _unlocated(value, mark)) for key, value in data.items()})
    if isinstance(data, list):
        return Node(mark, tuple(_unlocated(value, mark) for value in data))
    return Node(mark, data)
