"""The matrix of a scenario: read its axes, enumerate its points, and substitute `${axis}` by the value at a point.

A condition (of `when` and `exclude`) is a mapping of axes to a value or a list of values.

A *node* is a value of the YAML file with its place, `mark` (line and column): a scalar, a list (`items`) or a mapping
(`entries`; of an entry, `key` is the place of its key). `report` collects problems. A *point* of a scenario's matrix has a
node for each axis: its value.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from conformance.scenarios.errors import ProblemReport, short_repr, unknown_name
from conformance.scenarios.yaml_nodes import Entry, Node

MAX_CELLS = 5_000
"""Points of a scenario's matrix, before `exclude`."""
MAX_VALUES = 1_000_000
"""Values in the steps of all cells of a scenario together, since each cell parses its steps."""
MAX_RULES = 1_000
"""Rules of an `exclude`: each is compared with every point."""

Point = Mapping[str, Node]
"""A value for each axis, in the order of the axes' names."""

_REFERENCE = re.compile(r"\$\{([a-z][a-z0-9-]*)\}")
_NOT_IN_ID = re.compile(r"[\[\],]|::|[^ -~]")


def axis_text(value: Any) -> str:
    """Return an axis value as text for cell ids: a text as it is, a list as `a+b`, anything else as JSON: `true`, `20`."""
    if isinstance(value, list):
        return "+".join(axis_text(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)


def read_axes(node: Node | None, report: ProblemReport) -> dict[str, tuple[Node, ...]]:
    """Return the values of each axis, sorted by the axes' names, after reporting what is wrong with them.

    `node` is the value of `axes` in the document; None: there are none. Wrong values are returned as well.
    """
    axes: dict[str, tuple[Node, ...]] = {}
    for name, entry in sorted(node.entries.items() if node else ()):
        texts: set[str] = set()
        for value in entry.node.items:
            if problem := _axis_value_problem(value):
                report.add(value.mark, problem)
            elif (text := axis_text(value.data())) in texts:
                report.add(value.mark, f"the axis {name!r} has the value {short_repr(text)} twice")
            texts.add(axis_text(value.data()))
        axes[name] = entry.node.items
        if not entry.node.items:
            report.add(entry.node.mark, f"the axis {name!r} needs a list of values")
    if (cells := prod(map(len, axes.values()))) > MAX_CELLS and node:
        report.add(node.mark, f"{cells} cells; a scenario has at most {MAX_CELLS}")
    return axes


def _axis_value_problem(value: Node) -> str | None:
    """Return why a node cannot be the value of an axis; None where it can."""
    if isinstance(value.value, dict) or any(isinstance(item.value, dict | tuple) for item in value.items):
        return "a value of an axis is a scalar, or a flat list of scalars"
    text = axis_text(value.data())
    if not text or len(text) > 60 or _NOT_IN_ID.search(text):
        return f"{short_repr(text)} cannot be part of a cell's id: 1 to 60 printable ASCII characters but , [ ] and ::"
    return None


def matrix_points(
    axes: Mapping[str, tuple[Node, ...]], exclude: Node | None, report: ProblemReport
) -> tuple[Point, ...]:
    """Return the first MAX_CELLS points of the matrix without those that `exclude` names; reports what is wrong with its rules.

    With more than MAX_RULES rules none is applied.
    """
    combinations = [
        dict(zip(axes, values, strict=True))
        for values in itertools.islice(itertools.product(*axes.values()), MAX_CELLS)
    ]
    if exclude and len(exclude.items) > MAX_RULES:
        report.add(exclude.mark, f"{len(exclude.items)} rules; `exclude` has at most {MAX_RULES}")
        return tuple(combinations)
    texts = {id(point): {name: axis_text(value.data()) for name, value in point.items()} for point in combinations}
    for rule in exclude.items if exclude else ():
        if not check_condition(rule, axes, report):
            continue
        condition = [(name, _value_texts(entry.node)) for name, entry in rule.entries.items()]
        kept = [p for p in combinations if not all(texts[id(p)][name] in values for name, values in condition)]
        if len(kept) == len(combinations):
            report.add(rule.mark, "this excludes no cell, or none that is not excluded already")
        combinations = kept
    if exclude and not combinations:
        report.add(exclude.mark, "every cell is excluded")
    return tuple(combinations)


def check_condition(condition: Node, axes: Mapping[str, tuple[Node, ...]], report: ProblemReport) -> bool:
    """Report unknown axes and values in a condition, or that it is no mapping; return whether it is valid."""
    valid = True

    def reject(node: Node, message: str) -> None:
        """Report a problem at a node, and remember that the condition is not valid."""
        nonlocal valid
        valid = False
        report.add(node.mark, message)

    if not condition.entries:
        reject(condition, "expected a mapping of axes to values")
    for name, entry in condition.entries.items():
        if name not in axes:
            valid = False
            report.add(entry.key, unknown_name("axis", name, axes))
            continue
        texts = [axis_text(value.data()) for value in axes[name]]
        known = frozenset(texts)
        for value in entry.node.items or (entry.node,):
            if axis_text(value.data()) not in known:
                reject(value, unknown_name(f"value of the axis {name!r}:", axis_text(value.data()), texts))
    return valid


def matches_condition(condition: Node, point: Point) -> bool:
    """Return whether a point's value of each axis in the condition is one that the condition lists for that axis.

    False also where the point has no such axis; True for a condition without axes.
    """
    return all(
        name in point and axis_text(point[name].data()) in _value_texts(entry.node)
        for name, entry in condition.entries.items()
    )


def _value_texts(node: Node) -> frozenset[str]:
    """Return the values that a condition has for an axis, as texts: those of a list, or the single one."""
    return frozenset(axis_text(value.data()) for value in node.items or (node,))


def axis_references(node: Node) -> Iterator[tuple[Node, str]]:
    """Yield each node that is a `${axis}`, at or below a node, with the axis's name."""
    if isinstance(node.value, str) and (match := _REFERENCE.fullmatch(node.value)):
        yield node, match[1]
    for child in (*node.items, *(entry.node for entry in node.entries.values())):
        yield from axis_references(child)


def partial_references(node: Node) -> Iterator[Node]:
    """Yield each text, at or below a node, that contains `${` but is not just a `${axis}`."""
    if isinstance(node.value, str) and "${" in node.value and not _REFERENCE.fullmatch(node.value):
        yield node
    for child in (*node.items, *(entry.node for entry in node.entries.values())):
        yield from partial_references(child)


def substitute_axes(node: Node, point: Point) -> Node:
    """Return a node with every `${axis}`, at or below it, replaced by the axis's value at a point.

    References to unknown axes stay as they are. Every node keeps its own place in the file.
    """
    match node.value:
        case str() as text:
            match = _REFERENCE.fullmatch(text)
            value = point.get(match[1]) if match else None
            return replace(node, value=value.value) if value else node
        case tuple() as items:
            return replace(node, value=tuple(substitute_axes(item, point) for item in items))
        case dict() as entries:
            return replace(
                node, value={key: Entry(e.key, substitute_axes(e.node, point)) for key, e in entries.items()}
            )
        case _:
            return node
