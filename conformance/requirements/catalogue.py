"""Reads the requirement catalogue (`catalogue.yaml`) and checks that its rows refer to each other correctly.

A *row* is one requirement: a testable statement with its id, level and sources. Rows are in *groups*, by their subject.
Scenarios, rules of the model and reports name rows by their ids.
"""

from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from ruamel.yaml import YAML

from conformance.generations import GENERATIONS

_FILE = Path(__file__).with_name("catalogue.yaml")


class _Closed(BaseModel):
    """A model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


if TYPE_CHECKING:
    _Generations = str
else:
    _Generations = Literal[(*GENERATIONS, "any")]


class Requirement(_Closed):
    """One row of the catalogue: a testable statement.

    `seen_on` is what shows whether it holds: recorded traffic (`wire`), an action on a node or its inspector (`admin`),
    or its configuration. The `profile` "relay" marks a row that binds any SMTP relay. A `source` is a key of
    `Catalogue.sources` and a place in that document.
    """

    id: str = Field(pattern=r"^(SR|RL)-[A-Z0-9]{3}-[0-9]{2}$")
    level: Literal["must", "should", "may"]
    generations: tuple[_Generations, ...] = Field(min_length=1)
    seen_on: Literal["wire", "admin", "config"]
    source: tuple[str, ...] = Field(min_length=1)
    text: str
    profile: Literal["relay"] | None = None
    presupposes: tuple[str, ...] = Field((), description="rows without which it cannot hold, or be seen to hold")
    retired: str | None = Field(None, description="why it is no longer judged")

    @property
    def group(self) -> str:
        """The three letters of the row's group, such as `CRE`; RLY for every row that binds any SMTP relay."""
        return "RLY" if self.profile == "relay" else self.topic

    @property
    def topic(self) -> str:
        """The middle part of the id, such as `CRE`; for a row that binds any SMTP relay a part of the group RLY, such as `BDA`."""
        return self.id.split("-")[1]

    @property
    def clause(self) -> str:
        """The row as reports quote it, such as `SR-CRE-01 (must, EX2016 creation): A message ...`."""
        return f"{self.id} ({self.level}, {'; '.join(self.source)}): {self.text}"

    def binds(self, generations: Iterable[str]) -> bool:
        """Return whether the row binds servers of at least one of these generations, such as `ex2016`."""
        return "any" in self.generations or not set(self.generations).isdisjoint(generations)


class Catalogue(_Closed):
    """All rows, in the order of the catalogue."""

    sources: dict[str, str] = Field(description="the documents, by the keys that rows name")
    groups: dict[str, str] = Field(description="the groups of rows, with what each is about")
    requirements: tuple[Requirement, ...]

    @model_validator(mode="after")
    def _check_references(self) -> "Catalogue":
        """Raise ValueError for an id used twice, an unknown group, source or row, and a row that presupposes itself."""
        ids = [row.id for row in self.requirements]
        if duplicates := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
            raise ValueError(f"two requirements are called {duplicates[0]}")
        for row in self.requirements:
            if row.group not in self.groups:
                raise ValueError(f"{row.id}: no group {row.group!r}")
            for source in row.source:
                if source.split()[0] not in self.sources:
                    raise ValueError(f"{row.id}: no source {source!r}")
            for other in row.presupposes:
                if other not in ids:
                    raise ValueError(f"{row.id}: presupposes {other!r}, which is not in the catalogue")
        for row in self.requirements:
            if row.id in self.prerequisites(row.id):
                raise ValueError(f"{row.id} presupposes itself")
        return self

    def prerequisites(self, requirement: str) -> frozenset[str]:
        """Return the ids of all rows that a row presupposes, directly or through others; none for an unknown id."""
        prerequisites: set[str] = set()
        pending = [requirement]
        while pending:
            row = self.by_id.get(pending.pop())
            new = set(row.presupposes) - prerequisites if row is not None else set()
            prerequisites |= new
            pending += new
        return frozenset(prerequisites)

    @cached_property
    def by_id(self) -> dict[str, Requirement]:
        """All rows by id, the retired ones too."""
        return {row.id: row for row in self.requirements}

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of all rows that are not retired."""
        return frozenset(row.id for row in self.requirements if row.retired is None)

    def get(self, requirement: str) -> Requirement | None:
        """Return the row with an id, or None."""
        return self.by_id.get(requirement)

    def __getitem__(self, requirement: str) -> Requirement:
        """Return the row with an id. Raises KeyError when there is none."""
        return self.by_id[requirement]


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """Return the package's catalogue, read once and cached. Raises pydantic.ValidationError when the file is damaged."""
    return Catalogue.model_validate(YAML(typ="safe").load(_FILE.read_text("utf-8")))


def clause(requirement: str) -> str:
    """Return the row with an id as reports quote it (see `Requirement.clause`). Raises KeyError."""
    return catalogue()[requirement].clause
