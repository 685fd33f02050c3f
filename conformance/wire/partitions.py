"""Partitions: which links are cut, and how."""

from dataclasses import dataclass
from typing import Literal

from conformance.wire.roles import Pair


@dataclass(frozen=True, slots=True)
class Cut:
    """A partition in force.

    `refuse` resets what is open and refuses what comes; `blackhole` lets nothing through, and keeps it until it is
    healed: late, not lost.
    """

    name: str
    how: Literal["refuse", "blackhole"]
    pairs: frozenset[Pair]

    @property
    def action(self) -> str:
        """How the history names it."""
        return f"partition-{self.how}"

    @property
    def reason(self) -> str:
        """Under which name it holds lanes."""
        return f"partition {self.name}"
