"""Where a message goes next (node contract, "Where a message goes" and "Site routing")."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from config import Config

Route = tuple[str, ...]  # the sites, from this node's own


@dataclass(frozen=True)
class Hop:
    """A next hop: `tries` are (protocol, host, port, server), in order. `kind`: mailbox, delivery, transport, outside, none."""

    kind: str
    name: str
    tries: tuple[tuple[str, str, int, str], ...] = ()


def next_hop(config: Config, address: str) -> Hop:
    """Return the next hop of one recipient, considered alone."""
    domain = address.rpartition("@")[2].lower()
    box = config.mailboxes.get(address.lower())
    if domain in config.routes or (box is None and domain not in config.domains and "*" in config.routes):
        hops = config.routes[domain if domain in config.routes else "*"]
        tries = tuple((hop["protocol"], *hop["dial"], hop["name"]) for hop in hops)
        return Hop("outside", ",".join(hop["name"] for hop in hops), tries)
    if box is not None and box["server"].lower() == config.name.lower() and box["sink"]:
        return Hop("mailbox", config.name, (("lmtp", *box["sink"]["dial"], ""),))
    host = config.peers.get(box["server"].lower()) if box else None
    if host is not None and config.shadows(host) and host["dial"]["delivery"]:
        return Hop("delivery", host["name"], (("lmtp", *host["dial"]["delivery"], host["name"]),))
    if host is not None and host["dial"]["transport"]:
        return Hop("transport", host["name"], (("smtp", *host["dial"]["transport"], host["name"]),))
    return Hop("none", domain)


def forks(config: Config, addresses: Iterable[str]) -> dict[Hop, list[str]]:
    """Return the transmissions that a message needs: next hops, with their recipients."""
    found: dict[Hop, list[str]] = {}
    by_path: dict[Route, list[str]] = {}
    for address in addresses:
        hop = next_hop(config, address)
        host = config.peers.get(hop.name.lower()) if hop.kind == "transport" else None
        if host and host["dag"] is None and host["site"] != config.site and (path := _path(config, host["site"])):
            by_path.setdefault(path, []).append(address)
        else:
            found.setdefault(hop, []).append(address)
    for trunk, members in _shared(config, by_path):
        found.setdefault(_along(config, trunk, members), []).extend(members)
    return found


def _path(config: Config, end: str) -> Route | None:
    """Return the sites of the route: least cost, then fewest hops, then the lower names; up to a hub site on it."""
    paths = [found for found in _paths(config, (config.site,), 0) if found[2][-1] == end]
    if not paths:
        return None
    here, *others = min(paths)[2]
    hubs = {site["name"] for site in config.sites if site["hub"]}
    before = list(takewhile(lambda site: site not in hubs, others))
    return (here, *others[: len(before) + 1])


def _paths(config: Config, path: Route, cost: int) -> Iterator[tuple[int, int, Route]]:
    yield cost, len(path), path
    for link in config.site_links:
        for here, there in (link["between"], reversed(link["between"])):
            if here == path[-1] and there not in path:
                yield from _paths(config, (*path, there), cost + link["cost"])


def _shared(config: Config, by_path: dict[Route, list[str]], at: int = 1) -> Iterator[tuple[Route, list[str]]]:
    """Apply delayed fan-out: routes with the same step at `at` share a transmission to their last common site with a server."""
    for step in dict.fromkeys(path[at] for path in by_path):
        paths = {path: addresses for path, addresses in by_path.items() if path[at] == step}
        together = takewhile(lambda sites: len(set(sites)) == 1, zip(*paths, strict=False))
        trunk = common = tuple(sites[0] for sites in together)
        while len(paths) > 1 and len(trunk) > at and not _servers(config, trunk[-1], []):
            trunk = trunk[:-1]
        if len(trunk) > at:
            yield trunk, [address for addresses in paths.values() for address in addresses]
        else:  # there is no such site, but some of the routes may have one further on
            yield from _shared(config, paths, len(common))


def _servers(config: Config, site: str, hosts: list[str]) -> list[tuple[str, str, int, str]]:
    """Return the servers of a site to dial, those that host the mailboxes first."""
    peers = [peer for peer in config.peers.values() if peer["site"] == site and peer["dial"]["transport"]]
    peers.sort(key=lambda peer: (peer["name"].lower() not in hosts, peer["name"]))
    return [("smtp", *peer["dial"]["transport"], peer["name"]) for peer in peers]


def _along(config: Config, path: Route, members: list[str]) -> Hop:
    """Return the next hop at the end of a route; if it cannot be reached, the sites before it replace it."""
    hosts = [config.mailboxes[address.lower()]["server"].lower() for address in members]
    tries = [one for site in reversed(path[1:]) for one in _servers(config, site, hosts)]
    return Hop("transport", tries[0][3], tuple(tries))
