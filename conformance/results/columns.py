"""The columns of a run directory's tables, independent of who reads them: Arrow, Spark, or a person.

They are derived from the records themselves (`conformance.history.events`, `conformance.results.schema`,
`conformance.verdicts.outcome`): a new field of a record is a new column. A field that means different things in
different records (`line`, `refused`), or that has no fixed shape (`topology`, `state`), is kept as text: as it is when
it is one, else as JSON.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from conformance.history.events import AnyEvent
from conformance.results.schema import CellFooter, CellHeader
from conformance.verdicts import Verdict

Scalar = Literal["text", "whole", "number", "flag", "texts", "wholes", "json"]
"""`whole` has 64 bits, `number` is a double, `texts` and `wholes` are lists."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, and a scalar type or the columns of a structure."""

    name: str
    type: "Scalar | tuple[Column, ...]"


_SCALARS: Mapping[object, Scalar] = {str: "text", bool: "flag", int: "whole", float: "number"}
_LISTS: Mapping[object, Scalar] = {tuple[str, ...]: "texts", tuple[int, ...]: "wholes"}
_KEPT_APART = frozenset({"record", "schema_number", "run"})
"""Fields of headers and footers that are no columns: the run is in the key of every row, the others say what a line is."""


def _type_of(annotation: Any) -> "Scalar | tuple[Column, ...]":
    """Return the type of the column for a field's annotation; None is no type of its own, since any column may lack a value."""
    if get_origin(annotation) is Annotated:
        return _type_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        kinds = {_type_of(one) for one in get_args(annotation) if one is not NoneType}
        return kinds.pop() if len(kinds) == 1 else "json"
    if get_origin(annotation) is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return "text"
    if is_dataclass(annotation):
        return _columns([annotation])
    return _SCALARS.get(annotation) or _LISTS.get(annotation) or "json"


def _fields(record: Any) -> dict[str, Any]:
    if isinstance(record, type) and issubclass(record, BaseModel):
        return {name: Annotated[field.annotation, None] for name, field in record.model_fields.items()}
    hints = get_type_hints(record, include_extras=True)
    return {field.name: hints[field.name] for field in fields(record)}


def _columns(records: Iterable[Any]) -> tuple[Column, ...]:
    """Return the columns for the fields of records together, in the order in which the fields first appear."""
    found: dict[str, Scalar | tuple[Column, ...]] = {}
    for record in records:
        for name, annotation in _fields(record).items():
            kind = _type_of(annotation)
            found[name] = kind if found.get(name, kind) == kind else "json"
    return tuple(Column(name, kind) for name, kind in found.items() if name not in _KEPT_APART)


def _reconciled(tables: Mapping[str, tuple[Column, ...]]) -> dict[str, tuple[Column, ...]]:
    """Return the tables with one type for each name: `json` where they differ."""
    types: dict[str, set[Scalar | tuple[Column, ...]]] = {}
    for column in (column for columns in tables.values() for column in columns):
        types.setdefault(column.name, set()).add(column.type)
    return {
        table: tuple(column if len(types[column.name]) == 1 else Column(column.name, "json") for column in columns)
        for table, columns in tables.items()
    }


KEY = (Column("run", "text"), Column("cell", "text"))
"""Whose row it is: the run's name, and the cell's file without its suffix."""

_TABLES = _reconciled(
    {
        "header": _columns([CellHeader]),
        "footer": _columns([CellFooter]),
        "verdict": _columns([Verdict]),
        "event": _columns(get_args(get_args(AnyEvent)[0])),
    }
)
HEADER, FOOTER, VERDICT = _TABLES["header"], _TABLES["footer"], _TABLES["verdict"]

EVENT = _TABLES["event"]
"""All fields of all events."""

CELL = (*HEADER, *FOOTER)
"""A cell: its header and its footer; without an outcome it was cut short."""

TABLES = {"cells": (*KEY, *CELL), "verdicts": (*KEY, *VERDICT), "events": (*KEY, *EVENT)}
"""The tables of a run, by name."""
