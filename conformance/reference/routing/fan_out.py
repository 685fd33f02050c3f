"""Delayed fan-out: recipients who share part of their routes share one transmission, up to where the routes part
(SR-BIF-03)."""

from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

from conformance.reference.routing.least_cost import Path


def common_beginning(paths: Sequence[Path]) -> Path:
    """Return the sites that all routes pass through before they part."""
    return tuple(step[0] for step in takewhile(lambda step: len(set(step)) == 1, zip(*paths, strict=False)))


def shared(paths: Iterable[Path], with_servers: Collection[str]) -> list[tuple[Path, list[Path]]]:
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
