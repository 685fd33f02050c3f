"""The part of docs/data.md that the code knows better: every layer and table, with its columns.

`python -m conformance.spark.generate_docs docs/data.md` writes it anew between its two marks.
"""

import sys
from pathlib import Path

from conformance.results.columns import TABLES as WRITTEN
from conformance.results.columns import Column as Field
from conformance.results.schema import SCHEMA
from conformance.spark.aggregation import TABLES
from conformance.spark.invariants import INVARIANTS
from conformance.spark.layer import TRANSACTION_COLUMNS
from conformance.spark.warehouse import VERSION

BEGIN = "<!-- made by conformance.spark.generate_docs; change the code, not this -->"
END = "<!-- end of what is made -->"


def reference() -> str:
    """Return the part, as Markdown."""
    parts = [
        f"### What a run has as Parquet (schema {SCHEMA})",
        *(_written(name, fields) for name, fields in WRITTEN.items()),
        f"### The warehouse's transactions (warehouse {VERSION})",
        "A row for each session, mail transaction, discard exchange, delivery, message, attempt and incident. A column "
        "that a kind of row has no use for is null.",
        _table(
            ("column", "type", "meaning"),
            [(f"`{n}`", kind, meaning) for n, (kind, meaning) in TRANSACTION_COLUMNS.items()],
        ),
        "### Tables",
        *(
            f"`{table.name}`: {table.title}\n\n"
            + _table(("column", "type", "meaning"), [(f"`{one.name}`", one.kind, one.meaning) for one in table.columns])
            for table in TABLES
        ),
        "### Invariants",
        _table(("check", "requirements"), [(f"`invariant.{i.name}`", ", ".join(i.requirements)) for i in INVARIANTS]),
    ]
    return "\n\n".join(parts)


def update_page(page: str) -> str:
    """Return a page with the part as the code has it now. Raises ValueError when it has not both marks."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


def _written(name: str, fields: tuple[Field, ...]) -> str:
    return f"`{name}`: " + ", ".join(_field(field) for field in fields)


def _field(field: Field) -> str:
    if isinstance(field.type, tuple):
        return f"`{field.name}` ({', '.join(_field(inner) for inner in field.type)})"
    return f"`{field.name}` {field.type}"


def _table(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [names, tuple("---" for _ in names), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(update_page(target.read_text("utf-8")), "utf-8")
