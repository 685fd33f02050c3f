"""Scopes: how many servers, messages and faults are explored together.

Of the numbers of a scope `crashes` counts crashes of servers, `databases` lost disks, `replies` lost replies, `refusals` refused shadow
copies, `failovers` failovers of a mailbox, `cuts` interruptions between the servers: each is how many may happen at most.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

Destination = Literal["mailbox", "outside"]
DESTINATIONS: tuple[Destination, ...] = ("mailbox", "outside")


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


def _scopes() -> Iterator[Scope]:
    """Yield every scope but the two largest."""
    two = Scope("two-servers", "two mailbox servers", "ex2013", 2, ("outside",), crashes=2, databases=1, replies=1)
    disks = Scope(
        "two-disks",
        "two mailbox servers that may both lose their disks",
        "ex2013",
        2,
        ("outside",),
        crashes=2,
        databases=2,
    )
    refused = Scope(
        "refused-shadow",
        "two mailbox servers; a shadow copy may be refused",
        "ex2013",
        2,
        ("outside",),
        crashes=1,
        databases=1,
        refusals=1,
    )
    cut = Scope(
        "cut-off",
        "two mailbox servers that may be cut off from each other",
        "ex2013",
        2,
        ("outside",),
        crashes=1,
        databases=1,
        cuts=1,
    )
    for scope in (two, disks, refused, cut):
        for mandatory in (False, True):
            yield replace(scope, mandatory=mandatory)
            yield replace(scope, mandatory=mandatory, messages=("mailbox",))
    yield Scope(
        "failover",
        "two mailbox servers; the mailbox may fail over",
        "ex2013",
        2,
        ("mailbox",),
        crashes=1,
        failovers=1,
    )
    for destination in DESTINATIONS:
        yield Scope(
            "hubs",
            "a hub that sends over a pair of hubs",
            "ex2010",
            3,
            (destination,),
            crashes=2,
            databases=1,
            replies=1,
            next_hops=((1, 2), (), ()),
        )
        yield Scope(
            "edge-and-hub",
            "an Edge server that sends to a hub",
            "ex2010",
            2,
            (destination,),
            crashes=2,
            databases=2,
            replies=1,
            next_hops=((1,), ()),
        )


SCOPES = tuple(_scopes())
"""The scopes that a test explores in every run."""

THREE_SERVERS = Scope(
    "three-servers", "three mailbox servers", "ex2013", 3, ("outside",), crashes=1, databases=1, replies=1
)
TWO_MESSAGES = Scope(
    "two-messages",
    "two mailbox servers, two messages",
    "ex2013",
    2,
    ("mailbox", "outside"),
    crashes=2,
    databases=1,
    replies=1,
)
"""Four million states. Messages share the servers only, so that each of them goes through states of a scope with one message."""

LARGE_SCOPES = (THREE_SERVERS, TWO_MESSAGES)
