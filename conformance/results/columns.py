"""The columns of the tables `cells`, `verdicts` and `events`, in type names that Arrow, Spark and the docs translate.

The columns are derived from the record classes (`conformance.history.events`, `conformance.results.schema`,
`conformance.verdicts.outcome`): a new field of a record becomes a new column without a change here. A field that has
different types in different records (`line`, `refused`), or no fixed structure (`topology`, `state`), becomes a column of
type `json`: a text value is stored as it is, any other value as its JSON text.
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
"""A column's type: `whole` is a 64-bit integer, `number` a double, `flag` a boolean, `texts` and `wholes` are lists."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, and a scalar type, or the inner columns of a struct."""

    name: str
    type: "Scalar | tuple[Column, ...]"


_SCALARS: Mapping[object, Scalar] = {str: "text", bool: "flag", int: "whole", float: "number"}
_LISTS: Mapping[object, Scalar] = {tuple[str, ...]: "texts", tuple[int, ...]: "wholes"}
_NOT_COLUMNS = frozenset({"record", "schema_number", "run"})
"""Fields of headers and footers without a column: `run` is in the key of every row, the others describe the line itself."""


def _type_of(annotation: Any) -> "Scalar | tuple[Column, ...]":
    """Return the column type for a field's type annotation. `X | None` has the type of `X`, since every column may be null.

    A dataclass gives its columns, an annotation without a type of its own (a dict, a union of several types) `json`.
    """
    if get_origin(annotation) is Annotated:  # the metadata after the type do not matter
        return _type_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        types = {_type_of(member) for member in get_args(annotation) if member is not NoneType}
        return types.pop() if len(types) == 1 else "json"
    if get_origin(annotation) is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return "text"
    if is_dataclass(annotation):
        return _columns([annotation])
    return _SCALARS.get(annotation) or _LISTS.get(annotation) or "json"


def _annotations(record: Any) -> dict[str, Any]:
    """Return the type annotation of each field of a pydantic model or a dataclass, by the field's name."""
    if isinstance(record, type) and issubclass(record, BaseModel):
        return {name: Annotated[field.annotation, None] for name, field in record.model_fields.items()}
    hints = get_type_hints(record, include_extras=True)
    return {field.name: hints[field.name] for field in fields(record)}


def _columns(records: Iterable[Any]) -> tuple[Column, ...]:
    """Return one column for each field name of these record classes, in order of first appearance.

    Those in `_NOT_COLUMNS` are left out. A field whose type differs between two of the classes has the type `json`.
    """
    types: dict[str, Scalar | tuple[Column, ...]] = {}
    for record in records:
        for name, annotation in _annotations(record).items():
            column_type = _type_of(annotation)
            types[name] = column_type if types.get(name, column_type) == column_type else "json"
    return tuple(Column(name, column_type) for name, column_type in types.items() if name not in _NOT_COLUMNS)


def _with_one_type_per_name(tables: Mapping[str, tuple[Column, ...]]) -> dict[str, tuple[Column, ...]]:
    """Return the tables, where a column whose type differs between two tables has the type `json` in all of them."""
    types: dict[str, set[Scalar | tuple[Column, ...]]] = {}
    for column in (column for columns in tables.values() for column in columns):
        types.setdefault(column.name, set()).add(column.type)
    return {
        table: tuple(column if len(types[column.name]) == 1 else Column(column.name, "json") for column in columns)
        for table, columns in tables.items()
    }


KEY = (Column("run", "text"), Column("cell", "text"))
"""The first columns of every table: the run's name, and the cell's slug (its file name without suffixes)."""

_TABLES = _with_one_type_per_name(
    {
        "header": _columns([CellHeader]),
        "footer": _columns([CellFooter]),
        "verdict": _columns([Verdict]),
        "event": _columns(get_args(get_args(AnyEvent)[0])),  # the members of the annotated union
    }
)
HEADER, FOOTER, VERDICT = _TABLES["header"], _TABLES["footer"], _TABLES["verdict"]

EVENT = _TABLES["event"]
"""A column for each field of any kind of event."""

CELL = (*HEADER, *FOOTER)
"""The fields of a cell's header and footer; the footer's columns are null for a cell that was cut short."""

TABLES = {"cells": (*KEY, *CELL), "verdicts": (*KEY, *VERDICT), "events": (*KEY, *EVENT)}
"""The columns of a run's tables, by the table's name."""
