"""The next hop of a recipient, as a pure function of the configuration of one server ("this server").

The *boundary* of this server is its DAG or, for a server without one, its site (boundary.py).
"""

from dataclasses import dataclass
from typing import Literal

from conformance.reference.boundary import in_boundary, makes_shadows_on_receipt
from conformance.reference.config import Address, NodeConfiguration, Peer, Route
from conformance.reference.message import Fate

HopKind = Literal["mailbox", "delivery", "transport", "redirection", "outside", "nowhere"]


@dataclass(frozen=True, slots=True)
class NextHop:
    """The next hop of a delivery queue.

    `kind` is `mailbox` (hosted on this server), `delivery` (the delivery listener of the hosting server in the boundary),
    `transport` (the transport listener of a server outside of the boundary), `redirection` (that of an administrator's target in
    the boundary), `outside` (of the organisation), or `nowhere`, whose `name` says why. `addresses` are tried in turn; `servers`
    are the names of the servers there, in the same order, and `lmtp_servers` those of them that speak LMTP though the hop is
    `outside`.
    """

    kind: HopKind
    name: str
    addresses: tuple[Address, ...] = ()
    servers: tuple[str, ...] = ()
    lmtp_servers: frozenset[str] = frozenset()

    @property
    def crosses_boundary(self) -> bool:
        """Whether a message that is sent to this next hop leaves the transport high-availability boundary of this server."""
        return self.kind in ("transport", "outside")

    def protocol_of(self, server: str) -> Literal["smtp", "lmtp"]:
        """Return the protocol that one of this hop's servers, given by name, speaks."""
        return "lmtp" if self.kind in ("mailbox", "delivery") or server in self.lmtp_servers else "smtp"

    def fate_when_accepted(self, *, takes_over_reports: bool) -> Fate:
        """Return the fate of a recipient that the next hop has accepted: `delivered`, `redirected`, `passed-on` or `relayed`.

        `takes_over_reports`: the server offers DSN (RFC 3461), and so takes over status notifications: `passed-on`, not `relayed`.
        """
        match self.kind:
            case "mailbox" | "delivery":
                return "delivered"
            case "redirection":
                return "redirected"
            case _:
                return "passed-on" if takes_over_reports else "relayed"


def find_next_hop(config: NodeConfiguration, address: str) -> NextHop:
    """Return the next hop for the recipient `address`, without regard to site routes.

    In order of precedence: a route for exactly this domain, a mailbox hosted here, the server that hosts the mailbox if it has a
    listener for that (`delivery` where `_delivers_itself`, else `transport`), the route for all domains (`*`). This last route does not
    apply to an unknown address in a domain with mailboxes: its hop is `nowhere`, named `no such mailbox`. The hop of any other
    address to which none of these applies is `nowhere` too, named `no route`.
    """
    domain = address.rpartition("@")[2].casefold()
    by_domain = {route.domain.casefold(): route for route in config.routes}
    if domain in by_domain:
        return _hop_of_route(by_domain[domain])
    mailbox = config.mailboxes_by_address.get(address.casefold())
    if mailbox is not None and mailbox.server == config.name and mailbox.sink is not None:
        return NextHop(kind="mailbox", name=config.name, addresses=(mailbox.sink.dial,), servers=(config.name,))
    if mailbox is not None:
        hosting = config.peers_by_name.get(mailbox.server.casefold())
        if hosting is not None and _delivers_itself(config, hosting) and hosting.dial.delivery is not None:
            return NextHop(
                kind="delivery", name=hosting.name, addresses=(hosting.dial.delivery,), servers=(hosting.name,)
            )
        if hosting is not None and hosting.dial.transport is not None:
            return NextHop(
                kind="transport", name=hosting.name, addresses=(hosting.dial.transport,), servers=(hosting.name,)
            )
    if mailbox is None and domain in config.mailbox_domains:
        return NextHop("nowhere", "no such mailbox")
    return _hop_of_route(by_domain["*"]) if "*" in by_domain else NextHop("nowhere", "no route")


def _delivers_itself(config: NodeConfiguration, hosting: Peer) -> bool:
    """Return whether this server gives mail to the mailbox store of the server that hosts the mailbox, not to its transport.

    It does in its boundary. A server of 2010 does so only for a mailbox on another one of 2010: the transport of a later server
    has a copy made first (ruling 34).
    """
    same_kind = makes_shadows_on_receipt(config.generation) or not makes_shadows_on_receipt(hosting.generation)
    return in_boundary(config, hosting) and same_kind


def _hop_of_route(route: Route) -> NextHop:
    """Return the next hop outside of the organisation that a configured route leads to."""
    names = tuple(hop.name for hop in route.next_hops)
    lmtp = frozenset(hop.name for hop in route.next_hops if hop.protocol == "lmtp")
    return NextHop(
        kind="outside",
        name=",".join(names),
        addresses=tuple(hop.dial for hop in route.next_hops),
        servers=names,
        lmtp_servers=lmtp,
    )
