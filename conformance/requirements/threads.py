"""Public reports of bugs (`threads.yaml`) that rows of the catalogue find, and their page, docs/reproduces.md.

`python -m conformance.requirements.threads docs/reproduces.md` writes the page.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from ruamel.yaml import YAML

from conformance.requirements.catalogue import Catalogue, catalogue

_FILE = Path(__file__).with_name("threads.yaml")

_HEAD = """\
# What the field reports, reproduced

Each line is a public report of mail that was lost, repeated, altered or smuggled, the requirement that such a server or client
breaks, and what shows that the requirement finds it: a miniature server of a few lines that misbehaves as the report tells
(`tests/relays/threads.py`; `spooling`: `tests/run/spooling.py`), and a defect of the reference. The test suite runs each miniature in
the named cell, in which a correct relay of the same few lines passes.

This page is written by `python -m conformance.requirements.threads docs/reproduces.md`.
"""


class Thread(BaseModel):
    """One report: `thread` is its place, `OWNER/REPOSITORY#NUMBER`, and `tells` what it says.

    `row` is the row of the catalogue that it violates, `cell` the id of a cell of the corpus that finds it. The evidence is a
    `miniature`, a small server with the same mistake, or a `defect`: the reference's that makes the same mistake.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    thread: str = Field(pattern=r"^[\w.-]+/[\w.-]+#\d+$")
    tells: str
    row: str
    cell: str
    miniature: str | None = None
    defect: str | None = None

    @model_validator(mode="after")
    def _check_evidence(self) -> "Thread":
        """Raise ValueError where neither a miniature nor a defect shows it."""
        if self.miniature is None and self.defect is None:
            raise ValueError(f"{self.thread}: neither a miniature nor a defect shows it")
        return self

    @property
    def address(self) -> str:
        """The address of the thread, which also leads to a pull request."""
        repository, _, number = self.thread.partition("#")
        return f"https://github.com/{repository}/issues/{number}"


@lru_cache(maxsize=1)
def threads() -> tuple[Thread, ...]:
    """Return all reports, read once and cached. Raises pydantic.ValidationError when the file is damaged."""
    document = YAML(typ="safe").load(_FILE.read_text("utf-8"))
    return TypeAdapter(tuple[Thread, ...]).validate_python(document["threads"])


def page(reports: Sequence[Thread], rows: Catalogue) -> str:
    """Return the page docs/reproduces.md as Markdown."""
    return "\n".join([_HEAD, *_tables(reports, rows)])


def _tables(reports: Sequence[Thread], rows: Catalogue) -> Iterator[str]:
    """Yield the lines of one table for each requirement of the catalogue that a report is about, in the catalogue's order."""
    for row in rows.requirements:
        found = [one for one in reports if one.row == row.id]
        if not found:
            continue
        yield f"## {row.id}\n"
        yield f"{row.text}\n"
        yield "| report | what it tells | seen in | miniature | defect of the reference |"
        yield "|---|---|---|---|---|"
        for one in found:
            shown = " | ".join(
                f"`{name}`" if name is not None else "" for name in (one.cell, one.miniature, one.defect)
            )
            yield f"| [{one.thread}]({one.address}) | {one.tells} | {shown} |"
        yield ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(threads(), catalogue()), "utf-8")
