"""Which survivors are expected: mutants that cannot be observed, that no requirement binds, and those that are not caught yet.

`fixtures/mutants/` has four files. `equivalent.yaml` and `no-row.yaml` are lists of entries with the `ids` of mutants and the
`reason`: nothing that anybody can observe changes, or no document or RFC binds what changes. `survivors.txt` has the ids of the
other survivors seen so far. `groups.yaml` maps each module of the reference, and functions of some, to the groups of requirements that
they are about. A *pin*
is the reason why a mutant need not be caught: `equivalent` or `no-row`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from ruamel.yaml import YAML

T = TypeVar("T")

Pin = Literal["equivalent", "no-row"]


class Mutant(Protocol):
    """Something with the id of a mutant: file, function, operator and number."""

    @property
    def id(self) -> str:
        """The stable id."""


class PinsError(ValueError):
    """A file of pins cannot be used; the text says why."""


class PinnedMutants(BaseModel):
    """Mutants that are pinned for the same reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ids: tuple[str, ...] = Field(min_length=1)
    reason: str = Field(min_length=10)


@dataclass(frozen=True, slots=True)
class Pins:
    """The contents of `fixtures/mutants/`: pin by id of mutant, known survivors, groups by module of the reference."""

    pinned: Mapping[str, Pin]
    survivors: frozenset[str]
    groups: Mapping[str, tuple[str, ...]]

    def groups_of(self, mutant: "Mutant") -> tuple[str, ...]:
        """Return the groups of requirements of the code that a mutant changes; those of the longest entry that its id begins with."""
        entries = [entry for entry in self.groups if mutant.id.startswith((f"{entry}:", f"{entry}/", f"{entry}."))]
        return self.groups[max(entries, key=len)] if entries else ()


def read_pins(folder: Path) -> Pins:
    """Read the files of a folder; a missing one counts as empty. Raises PinsError."""
    pinned: dict[str, Pin] = {}
    kinds: tuple[Pin, ...] = ("equivalent", "no-row")
    for kind in kinds:
        for entry in _read_yaml(folder / f"{kind}.yaml", TypeAdapter(list[PinnedMutants])) or ():
            for mutant in entry.ids:
                if mutant in pinned:
                    raise PinsError(f"{mutant} is pinned twice")
                pinned[mutant] = kind
    groups = _read_yaml(folder / "groups.yaml", TypeAdapter(dict[str, tuple[str, ...]])) or {}
    path = folder / "survivors.txt"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return Pins(
        pinned=pinned, survivors=frozenset(line for line in lines if line and not line.startswith("#")), groups=groups
    )


def _read_yaml(path: Path, adapter: TypeAdapter[T]) -> T | None:
    """Return the contents of a YAML file, None when it does not exist or is empty."""
    if not path.exists():
        return None
    contents = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
    try:
        return adapter.validate_python(contents) if contents is not None else None
    except ValidationError as error:
        raise PinsError(f"{path}: {error}") from None
