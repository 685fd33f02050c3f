"""The page of the table of defects, docs/defects.md.

The terms are those of `table`; the command `conformance defects --write` writes what `page` returns.
"""

from collections.abc import Iterator, Sequence

from conformance.defects.plan import MAX_CELLS_PER_SCENARIO, Defect
from conformance.defects.table import MIN_RIGHT_FIRST_BLAMES, DefectRow, DefectTable
from conformance.requirements.catalogue import Catalogue

_HEAD = """\
# What each check catches

The reference transport can be made wrong in {count} named ways (`--candidate reference+NAME`). Each of these defects
was run in virtual time in each scenario that judges the requirement that it breaks, in {max_cells} cells of it at most. Scenarios of
`scenarios/variations` take long: a defect is tried in one cell of them, which `fixtures/defects/broad-cells.yaml` names, and only if no
other scenario catches it. The table says which checks caught it. A defect that is not caught, one that is only blamed on another requirement, a scenario or a check that catches nothing, and a
binding requirement of the wire that no defect breaks: each fails the build.

This page is written by `conformance defects --write docs/defects.md`.
"""

ALONE = "## What each check catches alone"
"""The heading of the section that says what would be missed without a check."""


def page(
    table: DefectTable, catalogue: Catalogue, retired: Sequence[Defect] = (), on_disks: Sequence[Defect] = ()
) -> str:
    """Return the text of docs/defects.md; equal arguments give equal texts.

    `retired` and `on_disks` are defects that are not in the table: those declared right, and those that need failing disks.
    """
    parts = (
        *_format_groups(table, catalogue),
        *_format_first_blames(table),
        *_format_blind(table),
        *_format_disk_defects(on_disks),
        *_format_retired(retired),
        *_format_checks(table),
        *_format_scenarios(table),
        *_format_requirements(table, catalogue, on_disks),
    )
    return "\n".join([_HEAD.format(count=len(table.rows), max_cells=MAX_CELLS_PER_SCENARIO), *parts, ""])


def _format_groups(table: DefectTable, catalogue: Catalogue) -> Iterator[str]:
    """Yield the lines of a table of defects for each group of requirements; nothing for a group that no defect breaks."""
    for group, about in catalogue.groups.items():
        rows = [row for row in table.rows if catalogue[row.defect.breaks].group == group]
        if not rows:
            continue
        yield f"## {group}: {about}\n"
        yield "| defect | what it does | breaks | caught in | by | without expectations |"
        yield "|---|---|---|---|---|---|"
        yield from (_defect_line(row) for row in sorted(rows, key=lambda row: (row.defect.breaks, row.defect.name)))
        yield ""


def _format_first_blames(table: DefectTable) -> Iterator[str]:
    """Yield the lines that say which requirement is blamed first, with a table of the defects blamed wrongly, if there are any."""
    caught, wrong = sum(bool(row.caught_in) for row in table.rows), table.first_blamed_wrongly
    yield "## What is blamed first\n"
    yield (
        "The first blame is the first requirement of the first violation of the first cell, in the corpus's order, that\n"
        f"catches a defect. It is the broken one for {caught - len(wrong)} of {caught} defects; less than "
        f"{MIN_RIGHT_FIRST_BLAMES} % fails the build."
    )
    yield ""
    if wrong:
        yield "| defect | breaks | blamed first |"
        yield "|---|---|---|"
        yield from (f"| `{row.defect.name}` | {row.defect.breaks} | {row.first_blame} |" for row in wrong)
        yield ""


def _format_blind(table: DefectTable) -> Iterator[str]:
    """Yield the lines on what is caught without the expectations of a scenario, with a table of the defects that are not, if any."""
    caught = [row for row in table.rows if row.blind]
    right = sum(row.blindly_blames_its_group for row in caught)
    yield "## Without expectations\n"
    yield (
        "The last column has the requirements that the rules of the model, and the harness's own checks, blame: these judge any\n"
        f"history. They catch {len(caught)} of {len(table.rows)} defects, and blame the requirement that it breaks, or one of its\n"
        f"group, first for {right} of them."
    )
    yield ""
    missed = [row.defect for row in table.rows if not row.blind]
    if missed:
        yield "| caught by an expectation only | why no rule can judge it |"
        yield "|---|---|"
        yield from (f"| `{defect.name}` | {defect.needs_expectation or 'no reason is known'} |" for defect in missed)
        yield ""


def _format_disk_defects(defects: Sequence[Defect]) -> Iterator[str]:
    """Yield the lines on the defects that show only on failing disks; nothing without any."""
    if defects:
        yield "## On failing disks\n"
        yield "These need a server that is a program with a disk of its own, and real time: `tests/run/test_failing_disks.py`"
        yield "shows each of them to be caught, and blamed on what it breaks alone.\n"
        yield "| defect | what it does | breaks |"
        yield "|---|---|---|"
        yield from (f"| `{defect.name}` | {defect.says} | {defect.breaks} |" for defect in defects)
        yield ""


def _format_retired(defects: Sequence[Defect]) -> Iterator[str]:
    """Yield the lines on retired defects, which a ruling has declared right; nothing without any."""
    if defects:
        yield "## Retired\n"
        yield "What these do was a defect once and is right by a ruling. They can still be switched on.\n"
        yield "| name | what it does | broke | why it is right |"
        yield "|---|---|---|---|"
        yield from (f"| `{defect.name}` | {defect.says} | {defect.breaks} | {defect.retired} |" for defect in defects)
        yield ""


def _defect_line(row: DefectRow) -> str:
    """Return the line of a defect in the table of its group, in Markdown."""
    checks = ", ".join(f"{name} ({count})" for name, count in row.checks)
    blind = ", ".join(f"{requirement} ({count})" for requirement, count in row.blind)
    return (
        f"| `{row.defect.name}` | {row.defect.says} | {row.defect.breaks} | "
        f"{row.caught_in} of {row.trials} cells | {checks or 'nothing'} | {blind or 'nothing'} |"
    )


def _format_checks(table: DefectTable) -> Iterator[str]:
    """Yield the lines of the table of checks: the defects that fail each, in two columns.

    `it alone`: no other check blames the requirement that the defect breaks. `with others`: the rest, whatever the check blames.
    """
    yield f"{ALONE}\n"
    yield "Without the check, the defects that it alone catches would be missed or blamed on another requirement.\n"
    yield "| check | it alone | with others |"
    yield "|---|---|---|"
    alone = table.caught_alone
    for name, caught in table.checks.items():
        own = alone.get(name, ())
        others = [defect for defect in caught if defect not in own]
        yield f"| {name} | {', '.join(own) or 'none'} | {', '.join(others) or 'none'} |"
    yield ""


def _format_scenarios(table: DefectTable) -> Iterator[str]:
    """Yield the lines on what each scenario catches, and on those that were not tried."""
    yield "## What each scenario catches\n"
    yield "| scenario | defects |"
    yield "|---|---|"
    for name, caught in table.scenarios.items():
        yield f"| {name} | {', '.join(caught) or 'none'} |"
    yield ""
    if table.untried:
        yield f"Not tried, since they need servers that are programs with disks of their own: {', '.join(table.untried)}.\n"


def _format_requirements(table: DefectTable, catalogue: Catalogue, on_disks: Sequence[Defect]) -> Iterator[str]:
    """Yield the lines that say, for each requirement that is not retired, which defects break it: these prove that it is judged.

    They are those of the table that are caught, and all in `on_disks`.
    """
    yield "## What proves that a requirement is judged\n"
    yield "| requirement | level | seen on | defects |"
    yield "|---|---|---|---|"
    proven = table.proven
    for row in catalogue.requirements:
        if row.retired is None:
            names = sorted([*proven.get(row.id, ()), *(defect.name for defect in on_disks if defect.breaks == row.id)])
            yield f"| {row.id} | {row.level} | {row.seen_on} | {', '.join(names) or 'none'} |"
