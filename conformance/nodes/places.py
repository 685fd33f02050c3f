"""The addresses of each server of a cell: those that it opens, those at which links dial it, those of the links it dials.

A *cell* is one scenario with one candidate for each server. A *link* is the address that one party (a server, a sink) dials to reach
another; the harness listens there and passes the session on.
A port that a node will open is leased: no other run on this machine uses it until the lease is released. A lease is an
abstract Unix socket whose name contains the port's number. Such names are shared by all processes that share the ports,
whatever their users and file systems, and the kernel releases them when a run is killed.
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
"""The range of leased ports, below the one from which the kernel takes the ports of outgoing connections."""


class PortLeases:
    """Leases of ports of 127.0.0.1 and of other names, held until `release`."""

    def __init__(self) -> None:
        self._ports: dict[int, int] = {}
        """Leased port -> descriptor of its socket."""
        self._names: list[int] = []
        """Descriptors of the sockets of other names."""

    def lease(self) -> int:
        """Lease a port on which no process listens, until `release`, and return it. Raises OSError when none is left."""
        start = random.SystemRandom().randrange(FIRST, LAST)
        port: int
        for port in chain(range(start, LAST), range(FIRST, start)):
            if port not in self._ports and self._lease_port(port):
                return port
        raise OSError(f"no loopback port between {FIRST} and {LAST} is free")

    def lease_name(self, name: str) -> bool:
        """Lease a name until `release`; return False when any process, this one included, has leased it already, or it cannot be bound."""
        held = _bind_name(name)
        if held is not None:
            self._names.append(held.detach())
        return held is not None

    def release(self) -> None:
        """Release all leases."""
        for descriptor in (*self._ports.values(), *self._names):
            os.close(descriptor)
        self._names.clear()
        self._ports.clear()

    def _lease_port(self, port: int) -> bool:
        """Lease a port; return False when it is leased already or some process listens on it."""
        held = _bind_name(f"port-{port}")
        if held is None:
            return False
        try:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            return False
        self._ports[port] = held.detach()
        return True


def _bind_name(name: str) -> socket.socket | None:
    """Return an abstract Unix socket bound to a name, whose first octets count; None when another has it, or for another OSError."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0conformance-{name}"[:108])  # as long as the name of a Unix socket can be
    except OSError:
        held.close()
        return None
    return held


_INTERVAL_S = 0.05
"""Seconds between two attempts to lease an address that another cell uses."""

LOOPBACK: Address = ("127.0.0.1", 0)
"""An address to listen on: any free port of this machine."""


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
    """Return an address for each listener of a role: the one in `opened`, else that of the listener `frontend`.

    A server that opens fewer listeners than its role has gets the mail of the others at its `frontend`, which `opened` must have.
    """
    return {listener: opened.get(listener, opened["frontend"]) for listener in listeners_of(role)}


def leased_place(role: Role, candidate: Candidate, leases: PortLeases) -> Place:
    """Return a place with a leased port of 127.0.0.1 for each listener that the candidate opens in this role.

    Its other listeners have the address of its `frontend`. Raises OSError when no port is left.
    """
    own = (listener for listener in candidate.listeners if listener in listeners_of(role))
    addresses = addresses_by_listener(role, {listener: ("127.0.0.1", leases.lease()) for listener in own})
    return Place(listen_addresses=addresses, dial_addresses=dict(addresses))


async def wait_for_exclusive_use(servers: Iterable[Server], assignment: Assignment, leases: PortLeases) -> None:
    """Lease the fixed addresses of servers of kind `remote` and of their next hops; wait while another cell has leased one.

    The other cell may be of another run. There is no deadline. The addresses are leased in sorted order, so that two
    cells cannot wait for each other. Candidates of other kinds have no fixed addresses.
    """
    candidates = assignment.candidates_for(server.name for server in servers)
    external = [c.kind_definition.external_addresses(c).values() for c in candidates]
    for host, port in sorted({address.at for addresses in external for address in addresses}):
        while not leases.lease_name(f"{host}-{port}"):  # noqa: ASYNC110
            await asyncio.sleep(_INTERVAL_S)  # no event comes when another process releases a name
