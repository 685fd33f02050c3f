"""The tables of a run directory, in Spark's terms."""

from conformance.results.columns import TABLES, Column

_TYPES = {
    "text": "STRING",
    "json": "STRING",
    "whole": "BIGINT",
    "number": "DOUBLE",
    "flag": "BOOLEAN",
    "texts": "ARRAY<STRING>",
    "wholes": "ARRAY<BIGINT>",
}


def type_of(column: Column) -> str:
    """Return a column's type in Spark's DDL."""
    if isinstance(column.type, tuple):
        return "STRUCT<" + ", ".join(f"`{inner.name}`: {type_of(inner)}" for inner in column.type) + ">"
    return _TYPES[column.type]


def ddl(columns: tuple[Column, ...]) -> str:
    """Return columns as a schema in Spark's DDL."""
    return ", ".join(f"`{column.name}` {type_of(column)}" for column in columns)


TABLE_DDL = {name: ddl(columns) for name, columns in TABLES.items()}
"""Schema of each Parquet table of a run."""
