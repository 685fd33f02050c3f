"""Where a message goes next (node contract, "Where a message goes" and "Site routing")."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from config import Config


@dataclass(frozen=True)
class Hop:
    """A next hop: `tries` are (protocol, host, port, server), in turn. `kind`: mailbox, delivery, transport, outside, none."""

    kind: str
    name: str
    tries: tuple[tuple[str, str, int, str], ...] = ()


def next_hop(config: Config, address: str) -> Hop:
    """Return the next hop of one recipient, without regard to others."""
    domain = address.rpartition("@")[2].lower()
    box = config.mailboxes.get(address.lower())
    if domain in config.routes:
        return _outside(config, domain)
    if box is not None and box["server"].lower() == config.name.lower() and box["sink"]:
        return Hop("mailbox", config.name, (("lmtp", *box["sink"]["dial"], ""),))
    host = config.peers.get(box["server"].lower()) if box else None
    if host is not None and config.shadows(host) and host["dial"]["delivery"]:
        return Hop("delivery", host["name"], (("lmtp", *host["dial"]["delivery"], host["name"]),))
    if host is not None and host["dial"]["transport"]:
        return Hop("transport", host["name"], (("smtp", *host["dial"]["transport"], host["name"]),))
    if box is not None or domain in config.domains or "*" not in config.routes:
        return Hop("none", domain)
    return _outside(config, "*")


def _outside(config: Config, domain: str) -> Hop:
    hops = config.routes[domain]
    tries = tuple((hop["protocol"], *hop["dial"], hop["name"]) for hop in hops)
    return Hop("outside", ",".join(hop["name"] for hop in hops), tries)


def forks(config: Config, addresses: Iterable[str]) -> dict[Hop, list[str]]:
    """Return the transmissions that a message needs: next hops, with their recipients."""
    found: dict[Hop, list[str]] = {}
    by_path: dict[tuple[str, ...], list[str]] = {}
    for address in addresses:
        hop = next_hop(config, address)
        host = config.peers.get(hop.name.lower()) if hop.kind == "transport" else None
        path = _path(config, host["site"]) if host and host["dag"] is None and host["site"] != config.site else None
        if path is None:
            found.setdefault(hop, []).append(address)
        else:
            by_path.setdefault(path, []).append(address)
    for trunk, members in _shared(config, by_path):
        found.setdefault(_along(config, trunk, members), []).extend(members)
    return found


def _path(config: Config, end: str) -> tuple[str, ...] | None:
    """Return the sites of the route: least cost, then fewest hops, then the lower names; up to a hub site on it."""
    paths = [found for found in _paths(config, (config.site,), 0) if found[2][-1] == end]
    path = min(paths)[2] if paths else None
    hub = next((at for at, site in enumerate(path or ()) if at and site in config.hubs), None)
    return path if path is None or hub is None else path[: hub + 1]


def _paths(config: Config, path: tuple[str, ...], cost: int) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    yield cost, len(path), path
    for one, other, more in config.links:
        for here, there in ((one, other), (other, one)):
            if here == path[-1] and there not in path:
                yield from _paths(config, (*path, there), cost + more)


def _shared(config: Config, by_path: dict[tuple[str, ...], list[str]]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Delayed fan-out: routes with the same first step share a transmission to their last common site with a server."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for path in by_path:
        groups.setdefault(path[1], []).append(path)
    found = []
    for paths in groups.values():
        together = takewhile(lambda sites: len(set(sites)) == 1, zip(*paths, strict=False))
        trunk = tuple(sites[0] for sites in together)
        while len(trunk) > 1 and not _servers(config, trunk[-1], []):
            trunk = trunk[:-1]
        if len(paths) > 1 and len(trunk) > 1:
            found.append((trunk, [address for path in paths for address in by_path[path]]))
        else:
            found += [(path, by_path[path]) for path in paths]
    return found


def _servers(config: Config, site: str, hosts: list[str]) -> list[tuple[str, str, int, str]]:
    """Return the servers of a site to dial, those that host the mailboxes first."""
    peers = [peer for peer in config.peers.values() if peer["site"] == site and peer["dial"]["transport"]]
    peers.sort(key=lambda peer: (peer["name"].lower() not in hosts, peer["name"]))
    return [("smtp", *peer["dial"]["transport"], peer["name"]) for peer in peers]


def _along(config: Config, path: tuple[str, ...], members: list[str]) -> Hop:
    """Return the next hop at the end of a route; the sites before it stand in when it cannot be reached."""
    hosts = [config.mailboxes[address.lower()]["server"].lower() for address in members]
    tries = [one for site in reversed(path[1:]) for one in _servers(config, site, hosts)]
    return Hop("transport", tries[0][3], tuple(tries))
