"""Where each server of a cell is: which doors it is told to open, where links reach them, and where it finds the links."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.candidates.cast import Cast
from conformance.candidates.description import Candidate
from conformance.generations import Role
from conformance.nodes.configuration import Address, listeners_of
from conformance.nodes.ports import PortLeases
from conformance.topology import Server

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


def all_doors(role: Role, opened: Mapping[str, Address]) -> dict[str, Address]:
    """Return an address for each door of a role: one that the candidate does not open is its front door too."""
    return {door: opened.get(door, opened["frontend"]) for door in listeners_of(role)}


def leased_place(role: Role, candidate: Candidate, leases: PortLeases) -> Place:
    """Return a place with ports of this machine that are leased. Raises OSError where none is left."""
    own = (door for door in candidate.listeners if door in listeners_of(role))
    doors = all_doors(role, {door: ("127.0.0.1", leases.lease()) for door in own})
    return Place(doors, dict(doors))


async def take_turns(cell_servers: Iterable[Server], cast: Cast, leases: PortLeases) -> None:
    """Wait until no other cell, of this run or of another, has one of the servers that run already, or its next hops."""
    players = cast.players(server.name for server in cell_servers)
    places = [address.at for one in players for address in one.its_kind.elsewhere(one).values()]
    for host, port in sorted(set(places)):
        while not leases.hold(f"{host}-{port}"):  # noqa: ASYNC110
            await asyncio.sleep(_PAUSE)  # of what another process lets go there is no event
