"""Which survivors are expected: mutants that cannot be observed, that no requirement binds, and those that are not caught yet.

`fixtures/mutants/` has four files. `equivalent.yaml` and `no-row.yaml` are lists of entries with `mutants` and the `reason`: nothing that
can be observed changes, or no document or RFC binds what changes. `survivors.yaml` has the other survivors seen so far. Each mutant
stands there as its id and the line of source code that it changes: ids have numbers, which may stand for another place when code is
added or removed before it. `groups.yaml` maps each module of the reference, and functions of some, to the groups of requirements
that they are about. A *pin* is the reason why a mutant need not be caught: `equivalent` or `no-row`. A *survivor* is a mutant that
no cell has caught. A *site* is a mutant as a place in the source (operators.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from conformance.mutants.operators import Site

T = TypeVar("T")

Pin = Literal["equivalent", "no-row"]

SURVIVORS = "survivors.yaml"


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

    mutants: dict[str, str] = Field(min_length=1)
    """Id of mutant -> the line of source code that it changes, without indentation and comment."""
    reason: str = Field(min_length=10)


@dataclass(frozen=True, slots=True)
class Pins:
    """The contents of `fixtures/mutants/`."""

    pinned: Mapping[str, Pin]
    """Id of mutant -> its pin."""
    survivors: frozenset[str]
    """Ids of the known survivors."""
    groups: Mapping[str, tuple[str, ...]]
    """Module of the reference, or function or folder of it -> groups of requirements."""
    lines: Mapping[str, str]
    """Id of a pinned mutant or known survivor -> the line of source code that it changed when it was written down."""

    def groups_of(self, mutant: "Mutant") -> tuple[str, ...]:
        """Return the groups of requirements of the code that a mutant changes: those of the longest entry that its id begins with.

        An entry is a module, a folder of modules or a function. Return () if no entry fits.
        """
        entries = [entry for entry in self.groups if mutant.id.startswith((f"{entry}:", f"{entry}/", f"{entry}."))]
        return self.groups[max(entries, key=len)] if entries else ()

    def outdated_ids(self, sites: Iterable[Site]) -> list[str]:
        """Return those ids in the files, sorted, that stand for no mutant any more, or for another line than the one written down.

        `sites` are all mutants of the reference as it is now.
        """
        current = {site.id: site.text for site in sites}
        return sorted(mutant for mutant, line in self.lines.items() if current.get(mutant) != line)


def read_pins(folder: Path) -> Pins:
    """Read the four files of a folder and return what they say; a missing one counts as empty.

    Raises PinsError for a file that cannot be parsed or has another form, and for a mutant that is pinned twice.
    """
    pinned: dict[str, Pin] = {}
    lines: dict[str, str] = {}
    kinds: tuple[Pin, ...] = ("equivalent", "no-row")
    for kind in kinds:
        for entry in _read_yaml(folder / f"{kind}.yaml", TypeAdapter(list[PinnedMutants])) or ():
            for mutant, line in entry.mutants.items():
                if mutant in pinned:
                    raise PinsError(f"{mutant} is pinned twice")
                pinned[mutant], lines[mutant] = kind, line
    survivors = _read_yaml(folder / SURVIVORS, TypeAdapter(dict[str, str])) or {}
    groups = _read_yaml(folder / "groups.yaml", TypeAdapter(dict[str, tuple[str, ...]])) or {}
    return Pins(pinned=pinned, survivors=frozenset(survivors), groups=groups, lines={**survivors, **lines})


def write_survivor_table(folder: Path, survivors: Mapping[str, str]) -> None:
    """Replace the file of survivors in a folder; `survivors` maps the id of each to the line of source code that it changes."""
    yaml = YAML()
    yaml.width = 1000  # characters: one line for each mutant
    with (folder / SURVIVORS).open("w", encoding="utf-8") as file:
        file.write("# Mutants of the reference that no cell notices yet: conformance mutants --write-survivors\n")
        yaml.dump(dict(sorted(survivors.items())), file)


def _read_yaml(path: Path, adapter: TypeAdapter[T]) -> T | None:
    """Return the contents of a YAML file in the form of `adapter`, None when it does not exist or is empty. Raises PinsError."""
    if not path.exists():
        return None
    try:
        contents = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
        return adapter.validate_python(contents) if contents is not None else None
    except (YAMLError, ValidationError) as error:
        raise PinsError(f"{path}: {error}") from None
