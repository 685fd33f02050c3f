"""What a planted mistake is, the decorator that declares a class as one, and what a node notes about its faults."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.reference.components import SLOTS
from conformance.reference.defects.catalogue import DEFECTS
from conformance.reference.defects.defect import Defect
from conformance.reference.host import Host

P = TypeVar("P", bound=type)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A planted mistake: the part of the server that it is about, its scenario, and a pair of faults that shows it.

    `scenario` is the id of a scenario, of which the first cell is taken, or of a cell. `pair` has the texts of the two faults (`Injection.text`).
    """

    name: str
    about: str
    scenario: str
    pair: tuple[str, str]
    says: str
    classes: Mapping[str, type]

    @contextmanager
    def planted(self) -> Iterator[Assignment]:
        """Yield an assignment of the reference with this mistake; processes that are forked meanwhile know it too."""
        DEFECTS[self.name] = Defect(self.name, breaks="", says=self.says, classes=self.classes)
        try:
            yield Assignment(REFERENCE.model_copy(update={"defect": self.name}))
        finally:
            del DEFECTS[self.name]


MISTAKES: dict[str, Mistake] = {}
"""All planted mistakes by name."""


def plant(
    name: str, *, about: str, scenario: str, pair: tuple[str, str], slot: str, also: Mapping[str, type] | None = None
) -> Callable[[P], P]:
    """Return a class decorator that declares a mistake: the class takes a slot of `SLOTS`, those in `also` take further ones.

    Raises ValueError for a name that is taken and for an unknown slot.
    """

    def declare(component: P) -> P:
        classes: dict[str, type] = {slot: component, **(also or {})}
        if name in MISTAKES or name in DEFECTS or not classes.keys() <= SLOTS:
            raise ValueError(f"mistake {name}: the name is taken, or a slot is unknown")
        says = " ".join((component.__doc__ or "").split())
        MISTAKES[name] = Mistake(name, about, scenario, pair, says, classes)
        return component

    return declare


class Notes:
    """What a node has noted about faults, by text: how often each. It survives a restart, and is lost with the disk."""

    def __init__(self, host: Host) -> None:
        self._path = Path(host.config.data_dir) / "planted.json"
        self._counts: Counter[str] = Counter(json.loads(self._path.read_text()) if self._path.exists() else {})

    def add(self, text: object) -> int:
        """Note something once more, and return how often it has been noted."""
        self._counts[str(text)] += 1
        self._path.write_text(json.dumps(self._counts))
        return self._counts[str(text)]

    def count(self, text: object) -> int:
        """Return how often something has been noted."""
        return self._counts[str(text)]

    def __contains__(self, text: object) -> bool:
        """Return whether something has been noted."""
        return str(text) in self._counts
