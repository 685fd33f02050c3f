"""Defects in routing between sites: the dearer route, too many stops, fan-out in the wrong place."""

from collections.abc import Iterable
from dataclasses import replace

from conformance.reference.config import NodeConfiguration
from conformance.reference.defects.defect import defect
from conformance.reference.hub2010.outbound import HubRouting
from conformance.reference.message import Recipient
from conformance.reference.routing.bifurcation import Routing, group_by_next_hop
from conformance.reference.routing.next_hop import NextHop

Forks = dict[NextHop, list[Recipient]]


def changed(config: NodeConfiguration, **fields: object) -> NodeConfiguration:
    """Return the configuration with some fields changed, and nothing remembered of the old ones."""
    kept = {name: getattr(config, name) for name in NodeConfiguration.model_fields}
    return NodeConfiguration.model_construct(**{**kept, **fields})


class Misroutes(Routing):
    """What the defects below share: another look at the configuration."""

    def seen(self, config: NodeConfiguration) -> NodeConfiguration:
        """Return what this server takes the configuration for."""
        return config

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> Forks:
        """Return the next hops by that look."""
        return group_by_next_hop(self.seen(self.host.config), recipients)


class TakesTheDearer(Misroutes):
    """Takes the route of highest cost."""

    def seen(self, config: NodeConfiguration) -> NodeConfiguration:
        """Turn the costs round."""
        most = max((link.cost for link in config.site_links), default=0)
        links = tuple(link.model_copy(update={"cost": most + 1 - link.cost}) for link in config.site_links)
        return changed(config, site_links=links)


@defect("takes-the-dearer-route", breaks="SR-BIF-01", part="ex2010.routing", also={"routing": TakesTheDearer})
class HubTakesTheDearer(TakesTheDearer, HubRouting):
    """Takes the route of highest cost."""


class IgnoresCost(Misroutes):
    """Takes the route of fewest hops, whatever it costs."""

    def seen(self, config: NodeConfiguration) -> NodeConfiguration:
        """Let all links cost the same."""
        return changed(config, site_links=tuple(link.model_copy(update={"cost": 1}) for link in config.site_links))


@defect("ignores-the-cost-of-a-route", breaks="SR-BIF-01", part="ex2010.routing", also={"routing": IgnoresCost})
class HubIgnoresCost(IgnoresCost, HubRouting):
    """Takes the route of fewest hops, whatever it costs."""


class TakesManyHops(Misroutes):
    """Takes the route of most hops of those that cost the same."""

    def seen(self, config: NodeConfiguration) -> NodeConfiguration:
        """Let every hop make a route a little cheaper."""
        links = tuple(link.model_copy(update={"cost": link.cost * 100 - 1}) for link in config.site_links)
        return changed(config, site_links=links)


@defect("takes-the-route-of-most-hops", breaks="SR-BIF-01", part="ex2010.routing", also={"routing": TakesManyHops})
class HubTakesManyHops(TakesManyHops, HubRouting):
    """Takes the route of most hops of those that cost the same."""


class TakesTheHigherName(Misroutes):
    """Takes the alphanumerically higher of two routes that are equal in cost and hops."""

    def seen(self, config: NodeConfiguration) -> NodeConfiguration:
        """Let the links of lower names be a little dearer."""
        names = sorted({site for link in config.site_links for site in link.between}, reverse=True)
        links = tuple(
            link.model_copy(update={"cost": link.cost * 10000 + sum(map(names.index, link.between))})
            for link in config.site_links
        )
        return changed(config, site_links=links)


@defect("takes-the-higher-name", breaks="SR-BIF-01", part="ex2010.routing", also={"routing": TakesTheHigherName})
class HubTakesTheHigherName(TakesTheHigherName, HubRouting):
    """Takes the alphanumerically higher of two routes that are equal in cost and hops."""


class DirectlyOrNotAtAll(Misroutes):
    """Tries the server that is closest to the mailbox only, and waits until that can be reached."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> Forks:
        """Know no server but the closest."""
        return {
            replace(hop, servers=hop.servers[:1], addresses=hop.addresses[:1])
            if hop.kind == "transport"
            else hop: members
            for hop, members in super().group_by_next_hop(recipients).items()
        }


@defect("goes-directly-or-not-at-all", breaks="SR-BIF-02", part="ex2010.routing", also={"routing": DirectlyOrNotAtAll})
class HubDirectlyOrNotAtAll(DirectlyOrNotAtAll, HubRouting):
    """Tries the server that is closest to the mailbox only, and waits until that can be reached."""


class StopsEverywhere(Routing):
    """Hands a message to the next site on the route, though the last one can be reached."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> Forks:
        """Turn the order of servers round."""
        return {_backwards(hop): members for hop, members in super().group_by_next_hop(recipients).items()}


def _backwards(hop: NextHop) -> NextHop:
    if hop.kind != "transport":
        return hop
    return replace(hop, servers=tuple(reversed(hop.servers)), addresses=tuple(reversed(hop.addresses)))


@defect("stops-at-every-site", breaks="SR-BIF-02", part="ex2010.routing", also={"routing": StopsEverywhere})
class HubStopsEverywhere(StopsEverywhere, HubRouting):
    """Hands a message to the next site on the route, though the last one can be reached."""


class FansOutAtOnce(Routing):
    """Splits a message at its source, and sends a copy for each site."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> Forks:
        """Route each recipient for itself."""
        found: Forks = {}
        for recipient in recipients:
            for hop, members in super().group_by_next_hop([recipient]).items():
                found.setdefault(hop, []).extend(members)
        return found


@defect("fans-out-at-once", breaks="SR-BIF-03", part="ex2010.routing", also={"routing": FansOutAtOnce})
class HubFansOutAtOnce(FansOutAtOnce, HubRouting):
    """Splits a message at its source, and sends a copy for each site."""


class SplitsTooLate(Routing):
    """Sends one copy for all sites along the route of the first, also where routes have no part in common."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> Forks:
        """Give everybody of another site to the first one's next hop."""
        found: Forks = {}
        for hop, members in super().group_by_next_hop(recipients).items():
            onward = next((other for other in found if hop.kind == other.kind == "transport"), hop)
            found.setdefault(onward, []).extend(members)
        return found


@defect("splits-too-late", breaks="SR-BIF-03", part="ex2010.routing", also={"routing": SplitsTooLate})
class HubSplitsTooLate(SplitsTooLate, HubRouting):
    """Sends one copy for all sites along the route of the first, also where routes have no part in common."""


class TakesDagsForSites(Misroutes):
    """Delays fan-out also towards servers whose delivery group is a DAG."""

    def seen(self, config: NodeConfiguration) -> NodeConfiguration:
        """See no DAG but our own."""
        peers = tuple(
            peer if peer.dag == config.dag else peer.model_copy(update={"dag": None}) for peer in config.peers
        )
        return changed(config, peers=peers)


@defect("delays-fan-out-for-dags", breaks="SR-BIF-04", part="ex2010.routing", also={"routing": TakesDagsForSites})
class HubTakesDagsForSites(TakesDagsForSites, HubRouting):
    """Delays fan-out also towards servers whose delivery group is a DAG."""
