"""Finds the scenarios that judge each requirement and the defects of the reference that break it, and writes docs/requirements.md.

A *row* is one requirement of the catalogue, a *defect* a deliberate mistake that can be switched on in the reference, the mail
server of this project. `conformance requirements` prints the coverage of each, and the tests look
for gaps.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from conformance.requirements.catalogue import Catalogue, Requirement


@dataclass(frozen=True, slots=True)
class Coverage:
    """One row of the catalogue with the names of the scenarios and checks that judge it and the defects that break it, sorted.

    `rules` are the model's, `queries` those of Spark. `unjudged` says why no rule of the model judges the row, '' where one does.
    """

    requirement: Requirement
    scenarios: tuple[str, ...]
    defects: tuple[str, ...]
    rules: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    unjudged: str = ""

    @property
    def gaps(self) -> tuple[str, ...]:
        """What is missing, `scenario` or `defect` or both: every row needs a scenario, every `must` row of the wire a defect."""
        needs_defect = self.requirement.level == "must" and self.requirement.seen_on == "wire"
        return (*(() if self.scenarios else ("scenario",)), *(("defect",) if needs_defect and not self.defects else ()))


def coverage(
    catalogue: Catalogue,
    scenarios: Mapping[str, Iterable[str]],
    defects: Mapping[str, Iterable[str]],
    rules: Mapping[str, Iterable[str]],
    queries: Mapping[str, Iterable[str]],
    unjudged: Mapping[str, str],
) -> tuple[Coverage, ...]:
    """Return the coverage of each row that is not retired, in the catalogue's order.

    `scenarios`, `defects`, `rules` (of the model) and `queries` (Spark's) map a name to the ids of the requirements that it
    judges or breaks; `unjudged` maps an id to the reason why no rule judges it. Raises KeyError for an id that no row has, since
    a misspelt id would hide a gap.
    """
    by_scenario, by_defect, by_rule, by_query = (
        _names_by_row(catalogue, names) for names in (scenarios, defects, rules, queries)
    )
    reasons = {catalogue[requirement].id: reason for requirement, reason in unjudged.items()}
    return tuple(
        Coverage(
            row,
            scenarios=tuple(sorted(by_scenario.get(row.id, ()))),
            defects=tuple(sorted(by_defect.get(row.id, ()))),
            rules=tuple(sorted(by_rule.get(row.id, ()))),
            queries=tuple(sorted(by_query.get(row.id, ()))),
            unjudged=reasons.get(row.id, ""),
        )
        for row in catalogue.requirements
        if row.retired is None
    )


def uncovered(rows: Iterable[Coverage]) -> tuple[Coverage, ...]:
    """Return the rows that no scenario judges."""
    return tuple(row for row in rows if not row.scenarios)


def _names_by_row(catalogue: Catalogue, rows_by_name: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Return the names by id of row, given the ids of rows by name. Raises KeyError for an id that no row has."""
    names: dict[str, set[str]] = {}
    for name, requirements in rows_by_name.items():
        for requirement in requirements:
            names.setdefault(catalogue[requirement].id, set()).add(name)
    return names


_HEAD = """\
# Requirements

What must be true of a transport that loses no mail, one testable statement a row, in our own words. `must` rows bind,
`may` rows say what the documents permit: no check fails it. A row is seen on the wire (from recorded traffic alone), by
an administrator (it needs an action or the inspector), or in the configuration that a node is offered.

These commands print which scenarios judge a row, and which defects of the reference break it:

```console
$ conformance requirements
$ conformance requirements --uncovered
$ conformance requirements --json
```

This page is written by `conformance requirements --write docs/requirements.md`.
"""


def page(catalogue: Catalogue) -> str:
    """Return the page docs/requirements.md as Markdown; equal catalogues give equal pages."""
    return "\n".join([_HEAD, *_groups(catalogue), *_sources(catalogue), ""])


def _groups(catalogue: Catalogue) -> Iterator[str]:
    """Yield the lines of one table of rows for each group."""
    for group, about in catalogue.groups.items():
        yield f"## {group}: {about}\n"
        yield "| id | level | binds | seen | source | statement |"
        yield "|---|---|---|---|---|---|"
        yield from (_row(row) for row in catalogue.requirements if row.group == group)
        yield ""


def _row(row: Requirement) -> str:
    """Return the table line of a row; the text of a retired one is struck through."""
    text = row.text.replace("|", "\\|")
    if row.retired is not None:
        text = f"~~{text}~~ Retired: {row.retired}"
    return (
        f"| {row.id} | {row.level} | {', '.join(row.generations)} | {row.seen_on} | {'; '.join(row.source)} | {text} |"
    )


def _sources(catalogue: Catalogue) -> Iterator[str]:
    """Yield the lines of the list of sources."""
    yield "## Sources\n"
    for key, title in catalogue.sources.items():
        yield f"- **{key}**: {title}"
