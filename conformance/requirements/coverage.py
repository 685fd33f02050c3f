"""Who covers a requirement: the scenarios that judge it, and the defects of the reference that break it. The
catalogue as a page of the documentation, too, the same for the same catalogue.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from conformance.requirements.catalogue import Catalogue, Requirement


@dataclass(frozen=True, slots=True)
class Coverage:
    """One row of the catalogue and who stands for it, names sorted."""

    requirement: Requirement
    scenarios: tuple[str, ...]
    defects: tuple[str, ...]

    @property
    def gaps(self) -> tuple[str, ...]:
        """What is missing: every row needs a scenario, and every binding row that is seen on the wire a defect."""
        needs_defect = self.requirement.level == "must" and self.requirement.seen_on == "wire"
        return (*(() if self.scenarios else ("scenario",)), *(("defect",) if needs_defect and not self.defects else ()))


def coverage(
    catalogue: Catalogue, scenarios: Mapping[str, Iterable[str]], defects: Mapping[str, Iterable[str]]
) -> tuple[Coverage, ...]:
    """Return who covers each row in force, in the catalogue's order.

    `scenarios` and `defects` give the requirement ids that each judges, or breaks. Raises KeyError for an id that no
    row has: a gap must not hide behind a slip of the pen.
    """
    by_scenario, by_defect = _turned(catalogue, scenarios), _turned(catalogue, defects)
    return tuple(
        Coverage(row, tuple(sorted(by_scenario.get(row.id, ()))), tuple(sorted(by_defect.get(row.id, ()))))
        for row in catalogue.requirements
        if row.retired is None
    )


def uncovered(rows: Iterable[Coverage]) -> tuple[Coverage, ...]:
    """Return the rows that no scenario judges."""
    return tuple(row for row in rows if not row.scenarios)


def _turned(catalogue: Catalogue, names: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    turned: dict[str, set[str]] = {}
    for name, requirements in names.items():
        for requirement in requirements:
            turned.setdefault(catalogue[requirement].id, set()).add(name)
    return turned


_HEAD = """\
# Requirements

What must be true of a transport that loses no mail, one testable statement a row, in our own words. `must` rows bind,
`may` rows say what the documents permit: no check fails it. A row is seen on the wire (from recorded traffic alone), by
an administrator (it needs an action or the inspector), or in the configuration that a node is offered.

Which scenarios judge a row, and which defects of the reference break it, says the program:

```console
$ conformance requirements
$ conformance requirements --uncovered
$ conformance requirements --json
```

This page is written by `conformance requirements --write docs/requirements.md`.
"""


def page(catalogue: Catalogue) -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *_groups(catalogue), *_sources(catalogue), ""])


def _groups(catalogue: Catalogue) -> Iterator[str]:
    for group, about in catalogue.groups.items():
        yield f"## {group}: {about}\n"
        yield "| id | level | binds | seen | source | statement |"
        yield "|---|---|---|---|---|---|"
        yield from (_row(row) for row in catalogue.requirements if row.group == group)
        yield ""


def _row(row: Requirement) -> str:
    text = row.text.replace("|", "\\|")
    if row.retired is not None:
        text = f"~~{text}~~ Retired: {row.retired}"
    return (
        f"| {row.id} | {row.level} | {', '.join(row.generations)} | {row.seen_on} | {'; '.join(row.source)} | {text} |"
    )


def _sources(catalogue: Catalogue) -> Iterator[str]:
    yield "## Sources\n"
    for key, title in catalogue.sources.items():
        yield f"- **{key}**: {title}"
