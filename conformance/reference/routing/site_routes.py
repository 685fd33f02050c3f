"""The site selection algorithm: least cost, then fewest hops, then the alphanumerically lower path (SR-BIF-01)."""

import heapq
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import takewhile

from conformance.reference.config import SiteLink

Path = tuple[str, ...]
"""The sites of a route, from the first to the last, both included."""


@lru_cache(maxsize=4096)
def least_cost_path(links: tuple[SiteLink, ...], start: str, end: str) -> Path | None:
    """Return the route between two sites, or None when no links lead there.

    Dijkstra's algorithm over (cost, hops, names): a longer route never sorts below its own beginning, and of two that
    reach the same site the lower one stays the lower however both go on.
    """
    waiting: list[tuple[int, int, Path]] = [(0, 0, (start,))]
    done: set[str] = set()
    while waiting:
        cost, hops, path = heapq.heappop(waiting)
        here = path[-1]
        if here == end:
            return path
        if here in done:
            continue
        done.add(here)
        for there, more in _neighbours(links, here):
            if there not in done:
                heapq.heappush(waiting, (cost + more, hops + 1, (*path, there)))
    return None


def _neighbours(links: Sequence[SiteLink], site: str) -> list[tuple[str, int]]:
    found = []
    for link in links:
        one, other = link.between
        if site in (one, other):
            found.append((other if site == one else one, link.cost))
    return found


def common_beginning(paths: Sequence[Path]) -> Path:
    """Return the sites that all routes pass through before they part."""
    return tuple(step[0] for step in takewhile(lambda step: len(set(step)) == 1, zip(*paths, strict=False)))


def shared_transmissions(paths: Iterable[Path], with_servers: Collection[str]) -> list[tuple[Path, list[Path]]]:
    """Return which routes share a transmission: for each the route that it takes, and the routes that share it.

    It ends in the last common site that has a server to split the message; where there is none, every route has a
    transmission of its own. The routes all begin in the sender's own site, and each leads out of it.
    """
    by_first_step: dict[str, list[Path]] = {}
    for path in dict.fromkeys(paths):
        by_first_step.setdefault(path[1], []).append(path)
    found: list[tuple[Path, list[Path]]] = []
    for together in by_first_step.values():
        trunk = common_beginning(together)
        while len(trunk) > 1 and trunk[-1] not in with_servers:
            trunk = trunk[:-1]
        if len(together) == 1 or len(trunk) == 1:
            found += [(path, [path]) for path in together]
        else:
            found.append((trunk, together))
    return found
