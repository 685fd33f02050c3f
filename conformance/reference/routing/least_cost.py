"""The site selection algorithm: least cost, then fewest hops, then the alphanumerically lower path (SR-BIF-01)."""

import heapq
from collections.abc import Sequence
from functools import lru_cache

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
