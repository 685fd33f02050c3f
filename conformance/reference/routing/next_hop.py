"""Routing: from a recipient to the next hop. A pure function of the configuration."""

from dataclasses import dataclass
from typing import Literal

from conformance.reference.boundary import in_boundary
from conformance.reference.config import Address, NodeConfiguration, Route
from conformance.reference.message import Fate

HopKind = Literal["mailbox", "delivery", "transport", "redirection", "outside", "nowhere"]


@dataclass(frozen=True, slots=True)
class NextHop:
    """Where a queue leads: into a mailbox hosted here, to the hosting server's `delivery` listener (in the boundary),
    to a server's `transport` listener (across it, or by an administrator's redirection within it), outside, or nowhere.

    `dials` are tried in turn; `servers` are their names.
    """

    kind: HopKind
    name: str
    addresses: tuple[Address, ...] = ()
    servers: tuple[str, ...] = ()

    @property
    def crosses_boundary(self) -> bool:
        """Whether the message leaves the boundary on this way."""
        return self.kind in ("transport", "outside")

    @property
    def protocol(self) -> Literal["smtp", "lmtp"]:
        """What is spoken there."""
        return "lmtp" if self.kind in ("mailbox", "delivery") else "smtp"

    def fate(self, *, reports: bool) -> Fate:
        """Return what became of a recipient that was accepted there; `reports`: the server offers DSN (RFC 3461)."""
        match self.kind:
            case "mailbox" | "delivery":
                return "delivered"
            case "redirection":
                return "redirected"
            case _:
                return "passed-on" if reports else "relayed"


def find_next_hop(config: NodeConfiguration, address: str) -> NextHop:
    """Return the next hop for a recipient.

    A mailbox hosted here comes first; then a route for exactly this domain, which stands above the site of the
    mailbox; then the server that hosts the mailbox; then the route for all domains.
    """
    mailbox = config.mailboxes_by_address.get(address.casefold())
    if mailbox is not None and mailbox.server == config.name and mailbox.sink is not None:
        return NextHop("mailbox", config.name, (mailbox.sink.dial,), (config.name,))
    domain = address.rpartition("@")[2].casefold()
    by_domain = {entry.domain.casefold(): entry for entry in config.routes}
    if domain in by_domain and (mailbox is not None or domain not in config.mailbox_domains):
        return _along(by_domain[domain])
    if mailbox is not None:
        host = config.peers_by_name.get(mailbox.server.casefold())
        if host is not None and in_boundary(config, host) and host.dial.delivery is not None:
            return NextHop("delivery", host.name, (host.dial.delivery,), (host.name,))
        if host is not None and host.dial.transport is not None:
            return NextHop("transport", host.name, (host.dial.transport,), (host.name,))
    if mailbox is None and domain in config.mailbox_domains:
        return NextHop("nowhere", "no such mailbox")
    return _along(by_domain["*"]) if "*" in by_domain else NextHop("nowhere", "no route")


def _along(entry: Route) -> NextHop:
    names = tuple(hop.name for hop in entry.next_hops)
    return NextHop("outside", ",".join(names), tuple(hop.dial for hop in entry.next_hops), names)
