"""The table as a page of the documentation, the same for the same table."""

from collections.abc import Iterator, Sequence

from conformance.defects.plan import FEW, Defect
from conformance.defects.table import FIRST_BLAME, Row, Table
from conformance.requirements.catalogue import Catalogue

_HEAD = """\
# What each check catches

The reference transport can be made wrong in {count} named ways (`--candidate reference+NAME`). Each of these defects
was run in virtual time in each scenario that judges the requirement that it breaks, in {few} cells of it at most; the
table says which checks saw it. A defect that is not caught, one that is only blamed on another requirement, a scenario
or a check that catches nothing, and a binding requirement of the wire that no defect breaks: each fails the build.

This page is written by `conformance defects --write docs/defects.md`.
"""

ALONE = "## What each check catches alone"
"""The heading of the section that tells what would be missed without a check."""


def page(found: Table, catalogue: Catalogue, retired: Sequence[Defect] = ()) -> str:
    """Return the page as Markdown; `retired` are the defects that a ruling has made right."""
    parts = (
        *_groups(found, catalogue),
        *_first(found),
        *_retired(retired),
        *_checks(found),
        *_scenarios(found),
        *_requirements(found, catalogue),
    )
    return "\n".join([_HEAD.format(count=len(found.rows), few=FEW), *parts, ""])


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


def _first(found: Table) -> Iterator[str]:
    caught, elsewhere = sum(bool(row.caught_in) for row in found.rows), found.blamed_elsewhere_first
    yield "## What is blamed first\n"
    yield (
        "The first blame is the first requirement of the first violation of the first cell, in the corpus's order, that\n"
        f"catches a defect. It is the broken one for {caught - len(elsewhere)} of {caught} defects; less than "
        f"{FIRST_BLAME} % fails the build."
    )
    yield ""
    if elsewhere:
        yield "| defect | breaks | blamed first |"
        yield "|---|---|---|"
        yield from (f"| `{row.defect.name}` | {row.defect.breaks} | {row.first_blame} |" for row in elsewhere)
        yield ""


def _retired(defects: Sequence[Defect]) -> Iterator[str]:
    if defects:
        yield "## Retired\n"
        yield "What these do was a defect once and is right by a ruling. They can still be switched on.\n"
        yield "| name | what it does | broke | why it is right |"
        yield "|---|---|---|---|"
        yield from (f"| `{one.name}` | {one.says} | {one.breaks} | {one.retired} |" for one in defects)
        yield ""


def _line(row: Row) -> str:
    checks = ", ".join(f"{name} ({count})" for name, count in row.checks)
    return (
        f"| `{row.defect.name}` | {row.defect.says} | {row.defect.breaks} | "
        f"{row.caught_in} of {row.trials} cells | {checks or 'nothing'} |"
    )


def _checks(found: Table) -> Iterator[str]:
    yield f"{ALONE}\n"
    yield "Without the check, the defects that it alone catches would be missed or blamed on another requirement.\n"
    yield "| check | it alone | with others |"
    yield "|---|---|---|"
    alone = found.alone
    for name, caught in found.checks.items():
        mine = alone.get(name, ())
        others = [defect for defect in caught if defect not in mine]
        yield f"| {name} | {', '.join(mine) or 'none'} | {', '.join(others) or 'none'} |"
    yield ""


def _scenarios(found: Table) -> Iterator[str]:
    yield "## What each scenario catches\n"
    yield "| scenario | defects |"
    yield "|---|---|"
    for name, caught in found.scenarios.items():
        yield f"| {name} | {', '.join(caught) or 'none'} |"
    yield ""
    if found.elsewhere:
        yield f"Not tried, for they want servers that are programs with disks of their own: {', '.join(found.elsewhere)}.\n"


def _requirements(found: Table, catalogue: Catalogue) -> Iterator[str]:
    yield "## What proves that a requirement is judged\n"
    yield "| requirement | level | seen on | defects |"
    yield "|---|---|---|---|"
    proven = found.proven
    for row in catalogue.requirements:
        if row.retired is None:
            yield f"| {row.id} | {row.level} | {row.seen_on} | {', '.join(proven.get(row.id, ())) or 'none'} |"
