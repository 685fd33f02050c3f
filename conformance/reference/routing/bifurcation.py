"""Bifurcation: into which forks a message divides at this server, and where each of them goes."""

from collections.abc import Iterable

from conformance.reference.boundary import shadows_by_receiver
from conformance.reference.config import NodeConfiguration, Peer
from conformance.reference.host import Component
from conformance.reference.message import Recipient
from conformance.reference.routing.next_hop import NextHop, find_next_hop
from conformance.reference.routing.site_routes import Path, least_cost_path, shared_transmissions


def group_by_next_hop(config: NodeConfiguration, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
    """Return the next hops of these recipients, in the order of the recipients.

    Delayed fan-out is for recipients whose delivery group is an Active Directory site, and for nobody else: not where
    it is a DAG, nor a next hop outside (SR-BIF-04).
    """
    alone: dict[NextHop, list[Recipient]] = {}
    by_site: dict[Path, list[Recipient]] = {}
    for recipient in recipients:
        hop = find_next_hop(config, recipient.address)
        path = _path_to(config, hop)
        if path is None:
            alone.setdefault(hop, []).append(recipient)
        else:
            by_site.setdefault(path, []).append(recipient)
    for trunk, together in shared_transmissions(by_site, _sites_with_servers(config)):
        members = [recipient for path in together for recipient in by_site[path]]
        hop = _along(config, trunk, {_hosting(config, member) for member in members})
        alone.setdefault(hop, []).extend(members)
    return alone


def _path_to(config: NodeConfiguration, hop: NextHop) -> Path | None:
    """Return the route to a next hop whose delivery group is another Active Directory site, or None."""
    if hop.kind != "transport":
        return None
    host = config.peers_by_name[hop.name.casefold()]
    if host.dag is not None or host.site == config.site or not _carries(host):
        return None
    path = least_cost_path(config.site_links, config.site, host.site)
    return None if path is None else _to_hub(path, config.hub_sites & _sites_with_servers(config))


def _to_hub(path: Path, hubs: frozenset[str]) -> Path:
    """Return a route up to the first hub site on it: mail passes through a server there."""
    place = next((place for place, site in enumerate(path[1:], 1) if site in hubs), len(path))
    return path[: place + 1]


def _sites_with_servers(config: NodeConfiguration) -> frozenset[str]:
    return frozenset(peer.site for peer in config.peers if _carries(peer))


def _along(config: NodeConfiguration, path: Path, hosts: set[str]) -> NextHop:
    """Return the next hop for a route: the servers of its last site, then of the one before, and so on back.

    So the connection goes directly to the server that is closest to the mailbox and can be reached (SR-BIF-02).
    """
    servers = [peer for site in reversed(path[1:]) for peer in _servers(config, site, hosts)]
    names = tuple(peer.name for peer in servers)
    return NextHop("transport", names[0], tuple(peer.dial.transport for peer in servers if peer.dial.transport), names)


def _servers(config: NodeConfiguration, site: str, hosts: set[str]) -> list[Peer]:
    """Return a site's transport servers, closest to the mailboxes first.

    That is the hosting server itself from 2013 on; before, a hub (a mailbox server was no transport server then).
    """
    found = [peer for peer in config.peers if peer.site == site and _carries(peer)]

    def distance(peer: Peer) -> tuple[bool, bool, str]:
        no_transport_server = peer.role == "mailbox" and not shadows_by_receiver(peer.generation)
        return (no_transport_server, peer.name not in hosts, peer.name)

    return sorted(found, key=distance)


def _carries(peer: Peer) -> bool:
    return peer.role in ("mailbox", "hub") and peer.dial.transport is not None


def _hosting(config: NodeConfiguration, recipient: Recipient) -> str:
    return config.mailboxes_by_address[recipient.address.casefold()].server


class Routing(Component):
    """Finds next hops."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the next hops that a message for these recipients needs (bifurcation)."""
        return group_by_next_hop(self.host.config, recipients)

    def next_hop(self, address: str) -> NextHop:
        """Return the next hop for one recipient."""
        return find_next_hop(self.host.config, address)

    def next_hop_name_in_boundary(self, address: str) -> str:
        """Return the name of the next hop that any server of the boundary, such as a primary, has for a recipient."""
        mailbox = self.host.config.mailboxes_by_address.get(address.casefold())
        return mailbox.server if mailbox is not None else self.next_hop(address).name
