"""Renders the JSON document that a node reads, from the topology and the addresses of the links.

`conformance.nodes.document` is its model; docs/node-contract.md says what each key means.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.generations import ROLES, Role
from conformance.parameters import LISTENER_LIMITS, TIME_PARAMETERS, effective_parameters
from conformance.topology import ConnectorRights, Server, Topology

Address = tuple[str, int]


def listeners_of(role: Role) -> tuple[str, ...]:
    """Return the listeners that a server of this role must open."""
    return ROLES[role]


@dataclass(frozen=True, slots=True)
class Wiring:
    """Where everything is: what a node listens on, and which link it must dial for whom."""

    listen: Callable[[str, str], Address]
    """(server, listener) -> the address that the node itself opens."""
    dial: Callable[[str, str, str], Address]
    """(from, to, listener or protocol) -> the link for exactly that pair."""


@dataclass(frozen=True, slots=True)
class Contract2:
    """What contract 2 adds to a node's document: see docs/node-contract.md for each key."""

    scale: float
    revision: int
    status_file: Path


def render(
    topology: Topology,
    server: Server,
    wiring: Wiring,
    *,
    data_dir: Path,
    seed: int,
    duration: Callable[[float], float] = lambda seconds: seconds,
    changes: Mapping[str, Any] | None = None,
    listener_changes: Mapping[str, Mapping[str, Any]] | None = None,
    mailbox_servers: Mapping[str, str] | None = None,
    unknown: Mapping[str, Any] | None = None,
    opened: Collection[str] | None = None,
    left_out: Collection[str] = (),
    contract_2: Contract2 | None = None,
) -> dict[str, Any]:
    """Render a server's configuration, under contract 1 where `contract_2` is None.

    `changes` and `listener_changes` are what the scenario configured since; `mailbox_servers` says where a mailbox
    database is active now, when not where the topology put it; `duration` turns documented seconds into the node's.
    `doors` are those that the candidate opens, where it does not open all of its role's; `left_out` are transport
    parameters that it is not told, so that it goes by its own default.
    """
    told = {**effective_parameters(topology.transport, server.transport), **(changes or {})}
    transport = {name: value for name, value in told.items() if name not in left_out}
    return {
        **_contract(contract_2),
        "name": server.name,
        "generation": server.generation,
        "role": server.role,
        "site": server.site,
        "dag": server.dag,
        "data_dir": str(data_dir),
        "seed": seed,
        "listeners": {
            listener: settings
            for listener, settings in _listeners(topology, server, wiring, duration, listener_changes or {}).items()
            if opened is None or listener in opened
        },
        "peers": _peers(topology, server, wiring),
        "sites": _sites(topology, contract_2),
        "site_links": [{"between": list(link.between), "cost": link.cost} for link in topology.site_links],
        "routes": _routes(topology, server, wiring),
        "mailboxes": _mailboxes(topology, server, wiring, mailbox_servers or {}),
        "journal": None if topology.journal is None else {"recipient": topology.journal},
        "transport": scaled(transport, duration),
        **(unknown or {}),
    }


def _contract(contract_2: Contract2 | None) -> dict[str, Any]:
    if contract_2 is None:
        return {"contract": 1}
    return {
        "contract": 2,
        "scale": contract_2.scale,
        "revision": contract_2.revision,
        "status_file": str(contract_2.status_file),
    }


def _sites(topology: Topology, contract_2: Contract2 | None) -> list[dict[str, Any]]:
    if contract_2 is None:
        return [{"name": site} for site in topology.all_sites]
    return [{"name": site, "hub": site in topology.hub_sites} for site in topology.all_sites]


def scaled(parameters: Mapping[str, Any], duration: Callable[[float], float]) -> dict[str, Any]:
    """Return the parameters with every time converted; what is no number is left for the node to refuse."""
    return {
        name: duration(value)
        if name in TIME_PARAMETERS and isinstance(value, int | float) and not isinstance(value, bool)
        else value
        for name, value in parameters.items()
    }


def _listeners(
    topology: Topology,
    server: Server,
    wiring: Wiring,
    duration: Callable[[float], float],
    changes: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    limits = LISTENER_LIMITS["edge" if server.role == "edge" else ""]
    rendered: dict[str, Any] = {}
    for listener in listeners_of(server.role):
        host, port = wiring.listen(server.name, listener)
        settings = {**limits, **server.listeners.get(listener, {}), **changes.get(listener, {})}
        rendered[listener] = {"host": host, "port": port, **scaled(settings, duration)}
    rendered["transport"].setdefault("externally_secured", topology.externally_secured)
    return rendered


def _peers(topology: Topology, server: Server, wiring: Wiring) -> list[dict[str, Any]]:
    peers = [
        {
            "name": other.name,
            "generation": other.generation,
            "role": other.role,
            "site": other.site,
            "dag": other.dag,
            "dial": {
                listener: list(wiring.dial(server.name, other.name, listener))
                for listener in listeners_of(other.role)
                if listener != "frontend"
            },
            **_rights(topology, server.name, other.name),
        }
        for other in topology.servers
        if other.name != server.name
    ]
    submission: dict[str, Any] = {
        "name": "submission",
        "generation": server.generation,
        "role": "submission",
        "site": server.site,
        "dag": server.dag,
        "dial": {},
        "accept_xshadow": False,
        "send_xshadow": False,
        "secret": None,
    }
    return [*peers, submission]


def _rights(topology: Topology, server: str, peer: str) -> dict[str, Any]:
    default = ConnectorRights(server=server, peer=peer)
    right = next((r for r in topology.rights if (r.server, r.peer) == (server, peer)), default)
    return {"accept_xshadow": right.accept_xshadow, "send_xshadow": right.send_xshadow, "secret": right.secret}


def _routes(topology: Topology, server: Server, wiring: Wiring) -> list[dict[str, Any]]:
    protocols: dict[str, str] = {sink.name: sink.protocol for sink in topology.sinks}
    return [
        {
            "domain": route.domain,
            "next_hops": [
                {
                    "name": hop,
                    "protocol": protocols.get(hop, "smtp"),
                    "dial": list(wiring.dial(server.name, hop, protocols.get(hop, "transport"))),
                }
                for hop in route.next_hops
                if hop != server.name
            ],
        }
        for route in topology.routes
        if (not route.servers or server.name in route.servers) and server.name not in route.next_hops
    ]


def _mailboxes(topology: Topology, server: Server, wiring: Wiring, active: Mapping[str, str]) -> list[dict[str, Any]]:
    rendered = []
    for mailbox in topology.mailboxes:
        host = active.get(mailbox.database, mailbox.server)
        entry: dict[str, Any] = {"address": mailbox.address, "database": mailbox.database, "server": host}
        if host == server.name:
            dial = wiring.dial(server.name, topology.store_name(server.name), "lmtp")
            entry["sink"] = {"protocol": "lmtp", "dial": list(dial)}
        rendered.append(entry)
    return rendered
