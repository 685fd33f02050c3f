"""Routes between Active Directory sites, and delayed fan-out: pure functions that bifurcation.py calls.

The route with the least cost is chosen, then the one with the fewest hops, then the alphanumerically lower one (SR-BIF-01).
Recipients whose routes begin alike share one transmission up to where the routes part (delayed fan-out, SR-BIF-03).
"""

import heapq
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import takewhile

from conformance.reference.config import SiteLink

Path = tuple[str, ...]
"""The sites of a route, from the first to the last, both included."""


@lru_cache(maxsize=4096)
def least_cost_path(links: tuple[SiteLink, ...], start: str, end: str) -> Path | None:
    """Return the route between two sites, or None if no links connect them.

    A route from a site to itself is that site alone. Dijkstra's algorithm over (cost, hops, names). It is valid since a route
    never sorts below its own beginning, and of two routes to a site the lower one stays lower when both are continued in the same
    way. Cached.
    """
    queue: list[tuple[int, int, Path]] = [(0, 0, (start,))]
    visited: set[str] = set()
    while queue:
        cost, hops, path = heapq.heappop(queue)
        site = path[-1]
        if site == end:
            return path
        if site in visited:
            continue
        visited.add(site)
        for neighbour, link_cost in _neighbours(links, site):
            if neighbour not in visited:
                heapq.heappush(queue, (cost + link_cost, hops + 1, (*path, neighbour)))
    return None


def _neighbours(links: Sequence[SiteLink], site: str) -> list[tuple[str, int]]:
    """Return the sites that a link connects to `site`, each with the cost of the link."""
    neighbours = []
    for link in links:
        first, second = link.between
        if site in (first, second):
            neighbours.append((second if site == first else first, link.cost))
    return neighbours


def common_beginning(paths: Sequence[Path]) -> Path:
    """Return the sites that all routes have in common from the first one on, up to where they part."""
    return tuple(step[0] for step in takewhile(lambda step: len(set(step)) == 1, zip(*paths, strict=False)))


def shared_transmissions(paths: Iterable[Path], with_servers: Collection[str]) -> list[tuple[Path, list[Path]]]:
    """Return the transmissions for these routes: for each the route that it takes, and the routes that share it.

    `with_servers` are the sites that have a server, among them the last of each route. A shared transmission ends in the last
    common site of its routes that has one, which splits the message. Routes that have no such site after the first in common share
    nothing, but those of them that go on alike may. All routes begin in the sender's site and lead to another.
    """
    return _transmissions_from(1, list(dict.fromkeys(paths)), with_servers)


def _transmissions_from(begin: int, paths: list[Path], with_servers: Collection[str]) -> list[tuple[Path, list[Path]]]:
    """Return the transmissions for different routes whose first `begin` sites are the same, none of which can split a message."""
    by_next_step: dict[str, list[Path]] = {}
    for path in paths:
        by_next_step.setdefault(path[begin], []).append(path)
    transmissions: list[tuple[Path, list[Path]]] = []
    for sharing in by_next_step.values():
        common = common_beginning(sharing)
        ends = [index for index in range(begin, len(common)) if common[index] in with_servers]
        if len(sharing) == 1:
            transmissions.append((sharing[0], sharing))
        elif ends:
            transmissions.append((common[: ends[-1] + 1], sharing))
        else:
            transmissions += _transmissions_from(len(common), sharing, with_servers)
    return transmissions
