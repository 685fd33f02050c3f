"""Defects in routing between sites: the dearer route, too many stops, fan-out in the wrong place.

Where both generations of servers make a mistake, it is one class for servers since 2013 and a subclass for Exchange 2010. To group
recipients by next hop is to decide how many copies of a message are sent, and to which server each; a next hop has several servers if it
is in another site: those of the last site on the route first, to be tried in order.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from conformance.reference.boundary import in_boundary
from conformance.reference.config import NodeConfiguration
from conformance.reference.defects.defect import defect
from conformance.reference.host import Host
from conformance.reference.hub2010.outbound import HubRouting
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.routing.bifurcation import Routing, group_by_next_hop
from conformance.reference.routing.next_hop import NextHop

RecipientsByHop = dict[NextHop, list[Recipient]]


def with_fields(config: NodeConfiguration, **fields: object) -> NodeConfiguration:
    """Return a copy of the configuration with some fields replaced, without validation, and without the properties that it has cached."""
    kept = {name: getattr(config, name) for name in NodeConfiguration.model_fields}
    return NodeConfiguration.model_construct(**{**kept, **fields})


class RoutesByAlteredConfiguration(Routing):
    """Base class of defects that route correctly by an altered configuration."""

    def altered_configuration(self, config: NodeConfiguration) -> NodeConfiguration:
        """Return the configuration that routes are computed from; here `config` itself, for subclasses to override."""
        return config

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> RecipientsByHop:
        """Return the recipients by next hop, computed from the altered configuration."""
        return group_by_next_hop(self.altered_configuration(self.host.config), recipients)


class TakesTheDearer(RoutesByAlteredConfiguration):
    """Takes the route of highest cost."""

    def altered_configuration(self, config: NodeConfiguration) -> NodeConfiguration:
        """Return the configuration with the costs of site links reversed: each is the highest cost plus 1, minus its own."""
        most = max((link.cost for link in config.site_links), default=0)
        links = tuple(link.model_copy(update={"cost": most + 1 - link.cost}) for link in config.site_links)
        return with_fields(config, site_links=links)


@defect("takes-the-dearer-route", breaks="SR-BIF-01", slot="ex2010.routing", also={"routing": TakesTheDearer})
class HubTakesTheDearer(TakesTheDearer, HubRouting):
    """Takes the route of highest cost."""


class IgnoresCost(RoutesByAlteredConfiguration):
    """Takes the route of fewest hops, whatever it costs."""

    def altered_configuration(self, config: NodeConfiguration) -> NodeConfiguration:
        """Return the configuration with a cost of 1 for each site link, so that the number of links decides."""
        return with_fields(config, site_links=tuple(link.model_copy(update={"cost": 1}) for link in config.site_links))


@defect("ignores-the-cost-of-a-route", breaks="SR-BIF-01", slot="ex2010.routing", also={"routing": IgnoresCost})
class HubIgnoresCost(IgnoresCost, HubRouting):
    """Takes the route of fewest hops, whatever it costs."""


class TakesManyHops(RoutesByAlteredConfiguration):
    """Takes the route of most hops of those that cost the same."""

    def altered_configuration(self, config: NodeConfiguration) -> NodeConfiguration:
        """Return the configuration with each cost multiplied by 100, minus 1: of routes of equal cost that of most hops is the cheapest."""
        links = tuple(link.model_copy(update={"cost": link.cost * 100 - 1}) for link in config.site_links)
        return with_fields(config, site_links=links)


@defect("takes-the-route-of-most-hops", breaks="SR-BIF-01", slot="ex2010.routing", also={"routing": TakesManyHops})
class HubTakesManyHops(TakesManyHops, HubRouting):
    """Takes the route of most hops of those that cost the same."""


class TakesTheHigherName(RoutesByAlteredConfiguration):
    """Takes the alphanumerically higher of two routes that are equal in cost and hops."""

    def altered_configuration(self, config: NodeConfiguration) -> NodeConfiguration:
        """Return the configuration with each cost multiplied by 10000, and a little more the lower the names of the link's sites are.

        So of routes that are equal in cost and hops the one with the higher names is the cheapest.
        """
        names = sorted({site for link in config.site_links for site in link.between}, reverse=True)
        links = tuple(
            link.model_copy(update={"cost": link.cost * 10000 + sum(map(names.index, link.between))})
            for link in config.site_links
        )
        return with_fields(config, site_links=links)


@defect("takes-the-higher-name", breaks="SR-BIF-01", slot="ex2010.routing", also={"routing": TakesTheHigherName})
class HubTakesTheHigherName(TakesTheHigherName, HubRouting):
    """Takes the alphanumerically higher of two routes that are equal in cost and hops."""


class DirectlyOrNotAtAll(RoutesByAlteredConfiguration):
    """Tries the server that is closest to the mailbox only, and waits until that can be reached."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> RecipientsByHop:
        """Return the recipients by next hop; a hop in another boundary has its first server, the one closest to the mailbox, only."""
        return {
            replace(hop, servers=hop.servers[:1], addresses=hop.addresses[:1])
            if hop.kind == "transport"
            else hop: members
            for hop, members in super().group_by_next_hop(recipients).items()
        }


@defect("goes-directly-or-not-at-all", breaks="SR-BIF-02", slot="ex2010.routing", also={"routing": DirectlyOrNotAtAll})
class HubDirectlyOrNotAtAll(DirectlyOrNotAtAll, HubRouting):
    """Tries the server that is closest to the mailbox only, and waits until that can be reached."""


class StopsEverywhere(Routing):
    """Hands a message to the next site on the route, though the last one can be reached."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> RecipientsByHop:
        """Return the recipients by next hop; one in another boundary has its servers in reverse order: the closest to this server first."""
        return {_reverse_servers(hop): members for hop, members in super().group_by_next_hop(recipients).items()}


def _reverse_servers(hop: NextHop) -> NextHop:
    """Return a next hop with its servers in reverse order; unchanged unless it is in another boundary (`transport`)."""
    if hop.kind != "transport":
        return hop
    return replace(hop, servers=tuple(reversed(hop.servers)), addresses=tuple(reversed(hop.addresses)))


@defect("stops-at-every-site", breaks="SR-BIF-02", slot="ex2010.routing", also={"routing": StopsEverywhere})
class HubStopsEverywhere(StopsEverywhere, HubRouting):
    """Hands a message to the next site on the route, though the last one can be reached."""


class FansOutAtOnce(Routing):
    """Splits a message at its source, and sends a copy for each site."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> RecipientsByHop:
        """Return the recipients by next hop, each routed alone, so that no copy is shared between sites."""
        recipients_by_hop: RecipientsByHop = {}
        for recipient in recipients:
            for hop, members in super().group_by_next_hop([recipient]).items():
                recipients_by_hop.setdefault(hop, []).extend(members)
        return recipients_by_hop


@defect("fans-out-at-once", breaks="SR-BIF-03", slot="ex2010.routing", also={"routing": FansOutAtOnce})
class HubFansOutAtOnce(FansOutAtOnce, HubRouting):
    """Splits a message at its source, and sends a copy for each site."""


class SplitsTooLate(Routing):
    """Sends one copy for all sites along the route of the first, also where routes have no part in common."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> RecipientsByHop:
        """Return the recipients by next hop; all in other boundaries (`transport`) have the first such next hop in common."""
        recipients_by_hop: RecipientsByHop = {}
        for hop, members in super().group_by_next_hop(recipients).items():
            onward = next((other for other in recipients_by_hop if hop.kind == other.kind == "transport"), hop)
            recipients_by_hop.setdefault(onward, []).extend(members)
        return recipients_by_hop


@defect("splits-too-late", breaks="SR-BIF-03", slot="ex2010.routing", also={"routing": SplitsTooLate})
class HubSplitsTooLate(SplitsTooLate, HubRouting):
    """Sends one copy for all sites along the route of the first, also where routes have no part in common."""


class TakesDagsForSites(RoutesByAlteredConfiguration):
    """Delays fan-out also towards servers whose delivery group is a DAG."""

    def altered_configuration(self, config: NodeConfiguration) -> NodeConfiguration:
        """Return the configuration with other servers in no DAG, except those in the DAG of this server.

        Only recipients whose server is in no DAG are reached by site routes with delayed fan-out (SR-BIF-04).
        """
        peers = tuple(
            peer if peer.dag == config.dag else peer.model_copy(update={"dag": None}) for peer in config.peers
        )
        return with_fields(config, peers=peers)


@defect("delays-fan-out-for-dags", breaks="SR-BIF-04", slot="ex2010.routing", also={"routing": TakesDagsForSites})
class HubTakesDagsForSites(TakesDagsForSites, HubRouting):
    """Delays fan-out also towards servers whose delivery group is a DAG."""


@defect(
    "prefers-a-hub-of-the-site",
    breaks="SR-BIF-02",
    slot="routing",
    needs_expectation="the rule takes every server of the last site on the route for equally close",
)
class PrefersAHubOfTheSite(Routing):
    """Sends mail for another site to a hub of that site, if it has one, before the server that hosts the mailbox."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop; among the servers of one in another boundary (`transport`) hubs come first.

        Correct, from 2013 on, is that the server which hosts the mailbox comes first.
        """
        found: dict[NextHop, list[Recipient]] = {}
        roles = {peer.name: peer.role for peer in self.host.config.peers}
        for hop, members in super().group_by_next_hop(recipients).items():
            pairs = sorted(
                zip(hop.servers, hop.addresses, strict=True), key=lambda one: roles.get(one[0], "mailbox") != "hub"
            )
            hubs_first = replace(
                hop, servers=tuple(server for server, _ in pairs), addresses=tuple(address for _, address in pairs)
            )
            found.setdefault(hubs_first if hop.kind == "transport" else hop, []).extend(members)
        return found


@defect("first-message-goes-by-a-neighbour", breaks="SR-BIF-02", slot="routing")
class FirstMessageGoesByANeighbour(Routing):
    """Sends the first message for each mailbox of its own to another server of the boundary, which sends it back."""

    def start(self) -> None:
        """Begin with no recipient seen; `seen` has the addresses to which a message was sent by a neighbour."""
        self.seen: set[str] = set()

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop; the first time for a mailbox of this server its hop is another server of the boundary.

        Correct is always the mailbox store of this server, as here if the boundary has no other server.
        """
        found: dict[NextHop, list[Recipient]] = {}
        config = self.host.config
        near = [(p.name, p.dial.transport) for p in config.peers if in_boundary(config, p) and p.dial.transport]
        for hop, members in super().group_by_next_hop(recipients).items():
            for recipient in members:
                other = hop
                if hop.kind == "mailbox" and near and recipient.address not in self.seen:
                    self.seen.add(recipient.address)
                    name, address = near[0]
                    other = replace(hop, kind="redirection", name=name, servers=(name,), addresses=(address,))
                found.setdefault(other, []).append(recipient)
        return found


@defect(
    "routes-a-message-once",
    breaks="SR-BIF-02",
    slot="delivery",
    needs_expectation="what waits for a server that is down is tried there and tried again, as is its duty to where the mailbox was",
)
class RoutesAMessageOnce(Delivery):
    """Routes each message once: a retry goes where the mailbox was before, also after its database has moved."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._routes: dict[tuple[int, tuple[Recipient, ...]], RecipientsByHop] = {}

    def _queue_attempts(self, message: Message, recipients: Iterable[Recipient]) -> None:
        """Queue one attempt for each next hop of the recipients, by the route of the first time that they were pending together."""
        key = (message.id, tuple(recipients))
        if key not in self._routes:
            self._routes[key] = self.host.routing.group_by_next_hop(key[1])
        for hop, group in self._routes[key].items():
            finished = asyncio.get_running_loop().create_future()
            attempt = DeliveryAttempt(message, recipients=tuple(group), hop=hop, finished=finished)
            self._attempts[attempt] = None
            self._queue_for(hop).add(attempt)


@defect("takes-the-later-of-two-links", breaks="SR-BIF-01", slot="routing")
class TakesTheLaterOfTwoLinks(Routing):
    """Where several links join the same two sites, goes by the cost of the last one."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop as if each two sites were joined by the last of their links only."""
        config = self.host.config
        links = {frozenset(link.between): link for link in config.site_links}
        return group_by_next_hop(config.model_copy(update={"site_links": tuple(links.values())}), recipients)
