"""Scopes: how many servers, messages and faults are explored together."""

from dataclasses import dataclass
from typing import Literal

Destination = Literal["mailbox", "outside"]


@dataclass(frozen=True, slots=True)
class Scope:
    """One bounded world. Servers are numbered, and called A, B and C."""

    name: str
    title: str
    generation: Literal["ex2013", "ex2010"]
    servers: int
    messages: tuple[Destination, ...]
    """Where each message goes: a mailbox, which detects duplicates, or another messaging system, which does not."""
    crashes: int = 0
    databases: int = 0
    replies: int = 0
    refusals: int = 0
    failovers: int = 0
    cuts: int = 0
    mandatory: bool = False
    """RejectMessageOnShadowFailure."""
    next_hops: tuple[tuple[int, ...], ...] = ()
    """Exchange 2010: for each server the hubs or edges that can be its next hop; none: it delivers to the destination itself."""

    @property
    def entries(self) -> tuple[int, ...]:
        """The servers that the sender may submit to."""
        return (0,) if self.next_hops else tuple(range(self.servers))
