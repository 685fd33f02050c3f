"""The table as a page of the documentation, the same for the same table."""

from collections.abc import Iterator

from conformance.defects.table import Row, Table
from conformance.requirements.catalogue import Catalogue

_HEAD = """\
# What each check catches

The reference transport can be made wrong in {count} named ways (`--candidate reference+NAME`). Each of these defects
was run in virtual time in every cell whose scenario judges the requirement that it breaks; the table says which checks
saw it. A defect that is not caught, one that is only blamed on another requirement, a scenario or a check that catches
nothing, and a binding requirement of the wire that no defect breaks: each fails the build.

This page is written by `conformance defects --write docs/defects.md`.
"""


def page(found: Table, catalogue: Catalogue) -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD.format(count=len(found.rows)), *_groups(found, catalogue), *_scenarios(found), ""])


def _groups(found: Table, catalogue: Catalogue) -> Iterator[str]:
    for group, about in catalogue.groups.items():
        rows = [row for row in found.rows if catalogue[row.defect.breaks].group == group]
        if not rows:
            continue
        yield f"## {group}: {about}\n"
        yield "| defect | what it does | breaks | caught in | by |"
        yield "|---|---|---|---|---|"
        yield from (_line(row) for row in sorted(rows, key=lambda row: (row.defect.breaks, row.defect.name)))
        yield ""


def _line(row: Row) -> str:
    checks = ", ".join(f"{name} ({count})" for name, count in row.checks)
    return (
        f"| `{row.defect.name}` | {row.defect.says} | {row.defect.breaks} | "
        f"{row.caught_in} of {row.trials} cells | {checks or 'nothing'} |"
    )


def _scenarios(found: Table) -> Iterator[str]:
    yield "## What each scenario catches\n"
    yield "| scenario | defects |"
    yield "|---|---|"
    for name, caught in found.scenarios.items():
        yield f"| {name} | {', '.join(caught) or 'none'} |"
