"""Bifurcation: grouping the recipients of a message by next hop, with one transmission for each group (SR-BIF).

A recipient whose mailbox is on a server of another Active Directory site is reached over the least-cost route of sites.
Recipients with a common part of their routes share one transmission to the last common site that has a server (delayed fan-out).
The connection does not stop at the sites between: it goes directly to the last site of the route, and only if no server there can
be reached to the site before it. The functions are pure; `config` is the configuration of one server ("this server"), and a
`peer` is another server that it lists. `Routing` makes them a component of a node, which the delivery of messages calls. A *hub
site* is one at which mail between other sites has to stop. A *delivery group* is what a next hop stands for: a DAG, a site, or a
server outside of the organisation. The *boundary* of this server is its DAG or, without one, its site (boundary.py).
"""

from collections.abc import Iterable

from conformance.reference.boundary import makes_shadows_on_receipt
from conformance.reference.config import NodeConfiguration, Peer
from conformance.reference.host import Component
from conformance.reference.message import Recipient
from conformance.reference.routing.next_hop import NextHop, find_next_hop
from conformance.reference.routing.site_routes import Path, least_cost_path, shared_transmissions


def group_by_next_hop(config: NodeConfiguration, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
    """Return the recipients by next hop, so that the message needs one transmission to each.

    A recipient without a route, or of an unknown mailbox, is in a group whose next hop has the kind `nowhere`. Delayed fan-out
    applies only to recipients whose delivery group is an Active Directory site: not to a DAG, nor to a next hop outside
    (SR-BIF-04).
    """
    groups: dict[NextHop, list[Recipient]] = {}
    by_route: dict[Path, list[Recipient]] = {}
    for recipient in recipients:
        hop = find_next_hop(config, recipient.address)
        path = _site_route(config, hop)
        if path is None:
            groups.setdefault(hop, []).append(recipient)
        else:
            by_route.setdefault(path, []).append(recipient)
    for route, sharing in shared_transmissions(by_route, _sites_with_servers(config)):
        members = [recipient for path in sharing for recipient in by_route[path]]
        hop = _hop_along(config, route, {_hosting_server(config, member) for member in members})
        groups.setdefault(hop, []).extend(members)
    return groups


def _site_route(config: NodeConfiguration, hop: NextHop) -> Path | None:
    """Return the site route to a next hop whose delivery group is another Active Directory site; None for any other hop.

    Such a hop is a server outside of the boundary (kind `transport`) that is in no DAG and that mail can be sent to. None also if
    no site links lead there. The route ends at its first hub site after the start that has a server.
    """
    if hop.kind != "transport":  # no server outside of the boundary
        return None
    peer = config.peers_by_name[hop.name.casefold()]
    if peer.dag is not None or peer.site == config.site or not _routes_mail(peer):
        return None
    path = least_cost_path(config.site_links, config.site, peer.site)
    return None if path is None else _up_to_hub_site(path, config.hub_sites & _sites_with_servers(config))


def _up_to_hub_site(path: Path, hubs: frozenset[str]) -> Path:
    """Return a route up to its first site of `hubs` after the start, which is its end then; without such a site the whole route."""
    index = next((index for index, site in enumerate(path[1:], 1) if site in hubs), len(path))
    return path[: index + 1]


def _sites_with_servers(config: NodeConfiguration) -> frozenset[str]:
    """Return the sites that have a peer which mail can be sent to (`_routes_mail`)."""
    return frozenset(peer.site for peer in config.peers if _routes_mail(peer))


def _hop_along(config: NodeConfiguration, path: Path, hosting: set[str]) -> NextHop:
    """Return the next hop for a site route: the servers of its last site, then of the site before, and so on back to the second site.

    So the connection goes directly to the reachable server that is closest to the mailbox (SR-BIF-02). `hosting` are the names of
    the servers that host the recipients' mailboxes. The hop has the name of its first server; one of the sites must have a server.
    """
    servers = [peer for site in reversed(path[1:]) for peer in _servers(config, site, hosting)]
    names = tuple(peer.name for peer in servers)
    addresses = tuple(peer.dial.transport for peer in servers if peer.dial.transport)
    return NextHop(kind="transport", name=names[0], addresses=addresses, servers=names)


def _servers(config: NodeConfiguration, site: str, hosting: set[str]) -> list[Peer]:
    """Return the transport servers of a site, closest to the mailboxes first; `hosting` are the names of the servers that host those.

    From 2013 on the hosting server comes first; in 2010 a hub, since a mailbox server was no transport server then. Of equal ones
    the order is that of their names.
    """
    servers = [peer for peer in config.peers if peer.site == site and _routes_mail(peer)]

    def sort_key(peer: Peer) -> tuple[bool, bool, str]:
        """Return what `peer` is sorted by: a mailbox server of 2010 last, a hosting server first, then the name."""
        no_transport_server = peer.role == "mailbox" and not makes_shadows_on_receipt(peer.generation)
        return (no_transport_server, peer.name not in hosting, peer.name)

    return sorted(servers, key=sort_key)


def _routes_mail(peer: Peer) -> bool:
    """Return whether mail can be sent to a peer's transport listener: it has one, and the role `mailbox` or `hub`."""
    return peer.role in ("mailbox", "hub") and peer.dial.transport is not None


def _hosting_server(config: NodeConfiguration, recipient: Recipient) -> str:
    """Return the name of the server that hosts a recipient's mailbox, which must be in the configuration."""
    return config.mailboxes_by_address[recipient.address.casefold()].server


class Routing(Component):
    """Routes recipients by the configuration in force; it has no state."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop: the message needs one transmission to each (bifurcation).

        A recipient without a route, or of an unknown mailbox, is in a group whose next hop has the kind `nowhere`.
        """
        return group_by_next_hop(self.host.config, recipients)

    def next_hop(self, address: str) -> NextHop:
        """Return the next hop for one recipient, without regard to site routes and delayed fan-out; its kind may be `nowhere`."""
        return find_next_hop(self.host.config, address)

    def next_hop_name_in_boundary(self, address: str) -> str:
        """Return the name of the next hop to which any server of the boundary, such as a primary, sends a recipient.

        For a mailbox that is the server that hosts it, for another address the next hop that this server has for it too.
        """
        mailbox = self.host.config.mailboxes_by_address.get(address.casefold())
        return mailbox.server if mailbox is not None else self.next_hop(address).name
