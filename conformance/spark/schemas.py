"""The tables of a run directory, and the lines of a cell's file, as Spark reads them."""

from conformance.results.columns import CELL, EVENT, FOOTER, TABLES, VERDICT, Column

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

CORRUPT = "_corrupt_record"
"""The column in which Spark puts a line that is no JSON object, or has a field of a wrong type."""

LINE_DDL = ddl(
    (
        Column("record", "text"),
        Column("schema", "whole"),
        *{column.name: column for column in (*CELL, *EVENT, *VERDICT, *FOOTER)}.values(),
        Column(CORRUPT, "text"),
    )
)
"""One schema for every line of a cell's file; fields of one name in several records have one type."""
