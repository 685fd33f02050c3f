"""Which of a scenario's rows a violated expectation is about.

An expectation with `requirements:` of its own says so itself. For the others the verb and the kind of violation decide:
of the scenario's rows, those that this kind of violation speaks of come first, in the scenario's order. Where a
scenario takes something for granted that another row asks for (a shadow that its own steps need), that row is blamed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["", "missing", "partly", "surplus", "elsewhere", "near", "far", "early", "late", "other", "size"]
"""What was wrong: not there at all, there for some messages only, more of it than asked for, in another place, too few or
too many in the server's own site or in others, before or after its time, another one of the same class, called too large
(552, RFC 1870) though it was not."""


@dataclass(frozen=True, slots=True)
class Blame:
    """What a check's violations are about, by their kind.

    `about`: the rows that the kind speaks of. `explains`: kinds that say what was done instead of the right thing; a
    violated row that theirs presupposes may follow from them, and not the other way round (a copy in the wrong place is
    missing at the right one). `granted`: the row to blame where none of the scenario's rows is about it; True: for a
    server of the 2010 generation.
    """

    about: Mapping[Kind, frozenset[str]]
    explains: frozenset[Kind]
    granted: Mapping[Kind, Mapping[bool, str]]

    def ordered(self, kind: Kind, rows: tuple[str, ...], *, of_2010: bool) -> tuple[str, ...]:
        """Return a scenario's rows, those first that a violation of this kind is about."""
        spoken_of = self.about.get(kind, frozenset())
        first = tuple(row for row in rows if row in spoken_of)
        if not first and kind in self.granted:
            first = (self.granted[kind][of_2010],)
        return (*first, *(row for row in rows if row not in first))
