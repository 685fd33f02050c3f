"""Write the generated part of docs/data.md: a run's tables, transactions and aggregated tables by column, and the invariants.

`python -m conformance.spark.generate_docs docs/data.md` replaces what lies between the two marks.
"""

import sys
from pathlib import Path

from conformance.results.columns import TABLES as RUN_TABLES
from conformance.results.columns import Column
from conformance.results.schema import SCHEMA
from conformance.spark.aggregation import TABLES
from conformance.spark.invariants import INVARIANTS
from conformance.spark.schemas import TRANSACTION_COLUMNS
from conformance.spark.warehouse import VERSION

BEGIN = "<!-- made by conformance.spark.generate_docs; change the code, not this -->"
END = "<!-- end of what is made -->"


def reference() -> str:
    """Return the generated part as Markdown, without the marks."""
    parts = [
        f"### What a run has as Parquet (schema {SCHEMA})",
        *(f"`{name}`: " + ", ".join(map(_describe_column, columns)) for name, columns in RUN_TABLES.items()),
        f"### The warehouse's transactions (warehouse {VERSION})",
        "A row for each session, mail transaction, discard exchange, delivery, message, attempt and incident. A column "
        "is null in rows of a kind that does not use it.",
        _format_table(
            ("column", "type", "meaning"),
            [(f"`{name}`", kind, meaning) for name, (kind, meaning) in TRANSACTION_COLUMNS.items()],
        ),
        "### Tables",
        *(
            f"`{table.name}`: {table.title}\n\n"
            + _format_table(
                ("column", "type", "meaning"),
                [(f"`{column.name}`", column.kind, column.meaning) for column in table.columns],
            )
            for table in TABLES
        ),
        "### Invariants",
        _format_table(
            ("check", "requirements"), [(f"`invariant.{i.name}`", ", ".join(i.requirements)) for i in INVARIANTS]
        ),
    ]
    return "\n\n".join(parts)


def update_page(page: str) -> str:
    """Return a page with the part between its marks generated again. Raises ValueError when a mark is missing."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


def _describe_column(column: Column) -> str:
    """Return a column as "`name` type"; the type of a struct is the tuple of its fields, given in parentheses."""
    if isinstance(column.type, tuple):
        return f"`{column.name}` ({', '.join(map(_describe_column, column.type))})"
    return f"`{column.name}` {column.type}"


def _format_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table; a `|` in a cell is escaped."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(update_page(target.read_text("utf-8")), "utf-8")
