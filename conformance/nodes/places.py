"""Where each server of a cell is: which doors it is told to open, where links reach them, and where it finds the
links. The ports that a node will open are leased: kept from every other run on this machine until they are given
back.
"""

import asyncio
import os
import random
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from conformance.candidates.cast import Cast
from conformance.candidates.description import Candidate
from conformance.generations import Role
from conformance.nodes.configuration import Address, listeners_of
from conformance.topology import Server

FIRST, LAST = 20_000, 32_000
"""Below the range from which the kernel takes the ports of outgoing connections."""


class PortLeases:
    """Leases of loopback ports. Each is held by an abstract socket that has the port's number in its name.

    Such names are one space for everybody to whom the ports are one, whoever he is and wherever he has his files, and a
    killed run gives them back too. Raises OSError when no port is left.
    """

    def __init__(self) -> None:
        self._held: dict[int, int] = {}
        self._named: list[int] = []

    def lease(self) -> int:
        """Return a port of 127.0.0.1 that nobody listens on and nobody else has leased."""
        start = random.SystemRandom().randrange(FIRST, LAST)
        port: int
        for port in chain(range(start, LAST), range(FIRST, start)):
            if port not in self._held and self._take(port):
                return port
        raise OSError(f"no loopback port between {FIRST} and {LAST} is free")

    def hold(self, name: str) -> bool:
        """Lease what has another name than a port: return whether it is ours now, and nobody else's."""
        held = _named(name)
        if held is not None:
            self._named.append(held.detach())
        return held is not None

    def release(self) -> None:
        """Give all leases back."""
        for handle in (*self._held.values(), *self._named):
            os.close(handle)
        self._named.clear()
        self._held.clear()

    def _take(self, port: int) -> bool:
        held = _named(f"port-{port}")
        if held is None:
            return False
        try:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            return False
        self._held[port] = held.detach()
        return True


def _named(name: str) -> socket.socket | None:
    """Return an abstract socket with a name, or None where somebody has it."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0conformance-{name}"[:108])
    except OSError:
        held.close()
        return None
    return held


_PAUSE = 0.05
"""Seconds between two looks whether a server is free."""

LOOPBACK: Address = ("127.0.0.1", 0)
"""Any free port of this machine."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server is.

    `doors` is what it is told to open; `reached` is where links dial it, None for as long as nobody knows; `hears` says
    where the links that it dials itself have to listen: (party, listener) -> address.
    """

    doors: dict[str, Address]
    reached: dict[str, Address | None]
    hears: Callable[[str, str], Address] = lambda party, listener: LOOPBACK
    held: Any = None
    """What its kind has made for it besides."""


def addresses_by_listener(role: Role, opened: Mapping[str, Address]) -> dict[str, Address]:
    """Return an address for each door of a role: one that the candidate does not open is its front door too."""
    return {door: opened.get(door, opened["frontend"]) for door in listeners_of(role)}


def leased_place(role: Role, candidate: Candidate, leases: PortLeases) -> Place:
    """Return a place with ports of this machine that are leased. Raises OSError where none is left."""
    own = (door for door in candidate.listeners if door in listeners_of(role))
    doors = addresses_by_listener(role, {door: ("127.0.0.1", leases.lease()) for door in own})
    return Place(doors, dict(doors))


async def wait_for_exclusive_use(cell_servers: Iterable[Server], cast: Cast, leases: PortLeases) -> None:
    """Wait until no other cell, of this run or of another, has one of the servers that run already, or its next hops."""
    players = cast.players(server.name for server in cell_servers)
    places = [address.at for one in players for address in one.its_kind.elsewhere(one).values()]
    for host, port in sorted(set(places)):
        while not leases.hold(f"{host}-{port}"):  # noqa: ASYNC110
            await asyncio.sleep(_PAUSE)  # of what another process lets go there is no event
