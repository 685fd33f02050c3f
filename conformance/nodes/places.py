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

from conformance.candidates.assignment import Assignment
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
    """The addresses of one server of a cell."""

    listen_addresses: dict[str, Address]
    """Listener -> the address that the server's configuration has it open."""
    dial_addresses: dict[str, Address | None]
    """Listener -> the address at which links dial the server; None as long as it is not known."""
    link_address: Callable[[str, str], Address] = lambda party, listener: LOOPBACK
    """(party, listener) -> the address at which the link from this server to that party must listen."""
    resources: Any = None
    """What `find_place` of the server's kind made for its node; only that kind reads it."""


def addresses_by_listener(role: Role, opened: Mapping[str, Address]) -> dict[str, Address]:
    """Return an address for each listener of a role: the one in `opened`, else that of the listener `frontend`."""
    return {listener: opened.get(listener, opened["frontend"]) for listener in listeners_of(role)}


def leased_place(role: Role, candidate: Candidate, leases: PortLeases) -> Place:
    """Return a place on leased ports of 127.0.0.1. Raises OSError when no port is left."""
    own = (listener for listener in candidate.listeners if listener in listeners_of(role))
    addresses = addresses_by_listener(role, {listener: ("127.0.0.1", leases.lease()) for listener in own})
    return Place(addresses, dict(addresses))


async def wait_for_exclusive_use(cell_servers: Iterable[Server], assignment: Assignment, leases: PortLeases) -> None:
    """Wait until no other cell, of this run or of another, has one of the servers that run already, or its next hops."""
    players = assignment.candidates_for(server.name for server in cell_servers)
    places = [address.at for one in players for address in one.kind_definition.external_addresses(one).values()]
    for host, port in sorted(set(places)):
        while not leases.hold(f"{host}-{port}"):  # noqa: ASYNC110
            await asyncio.sleep(_PAUSE)  # of what another process lets go there is no event
