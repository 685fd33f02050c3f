"""The roles around a session: whose link it is, the link as its sessions see it, and who may break what passes. A cut
is a partition in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from conformance.history.dialects import Dialect
from conformance.history.events import Listener
from conformance.history.recorder import Recorder
from conformance.wire.units import Unit

if TYPE_CHECKING:
    from conformance.wire.lane import Lane
    from conformance.wire.relay import Relay


@dataclass(frozen=True, slots=True)
class Pair:
    """Whose link it is: who dials, who is dialled, at which door."""

    client: str
    server: str
    listener: Listener

    def __str__(self) -> str:
        return f"{self.client} -> {self.server} {self.listener}"


class Breaker(Protocol):
    """Who breaks what passes: faults, moments and partitions."""

    def watches(self, pair: Pair) -> bool:
        """Whether any of them may concern the link."""
        ...

    def examine(self, relay: Relay, lane: Lane, unit: Unit, skip: int) -> Unit | None:
        """Return what shall pass instead of a unit; None when it was taken care of."""
        ...

    def passed(self, relay: Relay, lane: Lane, unit: Unit) -> None:
        """Notice that a unit has passed."""
        ...


class Host(Protocol):
    """The link, as its relays see it."""

    pair: Pair
    recorder: Recorder
    dialect: Dialect
    breaker: Breaker

    def begun(self, relay: Relay) -> None:
        """The client has connected."""
        ...

    def established(self, relay: Relay) -> None:
        """The server has been reached."""
        ...

    def ended(self, relay: Relay) -> None:
        """The session is over, though its connections may still be closing."""
        ...

    def forgotten(self, relay: Relay) -> None:
        """Nothing of the session is open any more."""
        ...


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
