"""Scopes: how many servers, messages and faults are explored together.

Of the numbers of a scope `crashes` counts crashes of servers, `databases` lost disks, `replies` lost replies, `refusals` refused
shadow copies, `failovers` failovers of a mailbox, `cuts` interruptions between the servers: each is how many may happen at most.
`__main__.py`, `page.py` and the tests explore `SCOPES` and `LARGE_SCOPES`.
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
        """The numbers of the servers that the sender may submit to: the first one where there are next hops, else every one."""
        return (0,) if self.next_hops else tuple(range(self.servers))


def _scopes() -> Iterator[Scope]:
    """Yield every scope but the two largest.

    Four with mailbox servers come once for each destination, each mandatory and not.
    """
    two = Scope(
        name="two-servers",
        title="two mailbox servers",
        generation="ex2013",
        servers=2,
        messages=("outside",),
        crashes=2,
        databases=1,
        replies=1,
    )
    disks = Scope(
        name="two-disks",
        title="two mailbox servers that may both lose their disks",
        generation="ex2013",
        servers=2,
        messages=("outside",),
        crashes=2,
        databases=2,
    )
    refused = Scope(
        name="refused-shadow",
        title="two mailbox servers; a shadow copy may be refused",
        generation="ex2013",
        servers=2,
        messages=("outside",),
        crashes=1,
        databases=1,
        refusals=1,
    )
    cut = Scope(
        name="cut-off",
        title="two mailbox servers that may be cut off from each other",
        generation="ex2013",
        servers=2,
        messages=("outside",),
        crashes=1,
        databases=1,
        cuts=1,
    )
    for scope in (two, disks, refused, cut):
        for mandatory in (False, True):
            yield replace(scope, mandatory=mandatory)
            yield replace(scope, mandatory=mandatory, messages=("mailbox",))
    yield Scope(
        name="failover",
        title="two mailbox servers; the mailbox may fail over",
        generation="ex2013",
        servers=2,
        messages=("mailbox",),
        crashes=1,
        failovers=1,
    )
    for destination in DESTINATIONS:
        yield Scope(
            name="hubs",
            title="a hub that sends over a pair of hubs",
            generation="ex2010",
            servers=3,
            messages=(destination,),
            crashes=2,
            databases=1,
            replies=1,
            next_hops=((1, 2), (), ()),
        )
        yield Scope(
            name="edge-and-hub",
            title="an Edge server that sends to a hub",
            generation="ex2010",
            servers=2,
            messages=(destination,),
            crashes=2,
            databases=2,
            replies=1,
            next_hops=((1,), ()),
        )


SCOPES = tuple(_scopes())
"""Every scope but the two largest."""

THREE_SERVERS = Scope(
    name="three-servers",
    title="three mailbox servers",
    generation="ex2013",
    servers=3,
    messages=("outside",),
    crashes=1,
    databases=1,
    replies=1,
)
TWO_MESSAGES = Scope(
    name="two-messages",
    title="two mailbox servers, two messages",
    generation="ex2013",
    servers=2,
    messages=("mailbox", "outside"),
    crashes=2,
    databases=1,
    replies=1,
)
"""Four million states. Messages share the servers only, so that each of them goes through states of a scope with one message."""

LARGE_SCOPES = (THREE_SERVERS, TWO_MESSAGES)
