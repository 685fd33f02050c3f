"""Where each server of a cell is: which doors it is told to open, where links reach them, and where it finds the links."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from conformance.candidates.cast import Cast
from conformance.candidates.description import Candidate
from conformance.nodes.configuration import Address, listeners_of
from conformance.nodes.ports import PortLeases
from conformance.topology import Server
from conformance.wire.link import LOOPBACK

_PAUSE = 0.05
"""Seconds between two looks whether a server is free."""

EVERYWHERE = "0.0.0.0"  # noqa: S104  # in a container, whose network leads to this machine only


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server is.

    `doors` is what it is told to open; `reached` is where links dial it, None for as long as nobody knows; `hears` says
    where the links that it dials itself have to listen: (party, listener) -> address.
    """

    doors: dict[str, Address]
    reached: dict[str, Address | None]
    hears: Callable[[str, str], Address] = lambda party, listener: LOOPBACK
    engine: Any = None
    network: Any = None


async def find_place(server: Server, cast: Cast, directory: Path, leases: PortLeases, leaving: AsyncExitStack) -> Place:
    """Find a place for a server, and leave it with `leaving`. Raises NodeError, and OSError where no port is left.

    `directory` is the server's own. A door of its role that the candidate does not open is its front door too.
    """
    candidate = cast.plays(server.name)
    roles = listeners_of(server.role)

    def all_doors(opened: dict[str, Address]) -> dict[str, Address]:
        return {door: opened.get(door, opened["frontend"]) for door in roles}

    match candidate.kind:
        case "docker":
            from conformance.nodes.engine import Engine, gateway  # the SDK takes a third of a second

            engine = Engine(server.name, directory)
            leaving.callback(engine.close)
            network = await engine.make_network()
            leaving.push_async_callback(engine.ask, "network", network.remove)
            ports = {} if candidate.container is None else candidate.container.ports
            doors = all_doors({door: (EVERYWHERE, ports[door]) for door in candidate.listeners if door in roles})
            here = (gateway(network), 0)
            return Place(doors, dict.fromkeys(doors), lambda party, listener: here, engine, network)
        case "remote":
            doors = all_doors({door: candidate.addresses[door].at for door in candidate.doors})
            return Place(doors, dict(doors), partial(_set_up, candidate))
        case _:
            doors = all_doors({door: ("127.0.0.1", leases.lease()) for door in candidate.listeners if door in roles})
            return Place(doors, dict(doors))


def _set_up(candidate: Candidate, party: str, listener: str) -> Address:
    """Return where a server was set up to dial a door of a party; one that it does not know may be anywhere."""
    known = candidate.next_hops.get(f"{party}.{listener}" if listener == "delivery" else party)
    return LOOPBACK if known is None else known.at


async def take_turns(cell_servers: Iterable[Server], cast: Cast, leases: PortLeases) -> None:
    """Wait until no other cell, of this run or of another, has one of the servers that run already, or its next hops."""
    remote = [cast.plays(server.name) for server in cell_servers if cast.plays(server.name).kind == "remote"]
    places = [place.at for one in remote for place in (*one.addresses.values(), *one.next_hops.values())]
    for host, port in sorted(set(places)):
        while not leases.hold(f"{host}-{port}"):  # noqa: ASYNC110
            await asyncio.sleep(_PAUSE)  # of what another process lets go there is no event
