"""The catalogue as a page of the documentation, the same for the same catalogue."""

from collections.abc import Iterator

from conformance.requirements.catalogue import Catalogue, Requirement

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
