"""Renders the JSON document that a node reads, from the topology and the addresses of the links.

`conformance.nodes.document` is its model; docs/node-contract.md says what each key means. A *node* is one running
server of the topology, a *peer* another one, a *sink* an SMTP or LMTP server of the harness, and a *link* the address
that one party dials to reach another. `wiring.listen` and `wiring.dial` give the addresses. A *documented* second is
one of the scenario; the node's seconds are shorter under a scaled clock. The document has contract 1 or 2, as the
candidate's description says.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.generations import ROLES, Role
from conformance.parameters import LISTENER_LIMITS, TIME_PARAMETERS, effective_parameters
from conformance.topology import ConnectorRights, Server, Topology

Address = tuple[str, int]


def spelled(topology: Topology, server: str) -> str:
    """Return a server's name as configurations have it: in upper case if the topology's `server_names` says so.

    The key `name`, in which a configuration has the name of its own server, does not pass through here.
    """
    return server.upper() if topology.server_names == "upper" else server


def listeners_of(role: Role) -> tuple[str, ...]:
    """Return the listeners that a server of this role must open."""
    return ROLES[role]


@dataclass(frozen=True, slots=True)
class Wiring:
    """The addresses that a node's configuration needs: its own listeners, and the links that it dials."""

    listen: Callable[[str, str], Address]
    """(server, listener) -> the address that the server's node opens."""
    dial: Callable[[str, str, str], Address]
    """(client, server, listener or protocol) -> the address of the link for exactly that pair."""


@dataclass(frozen=True, slots=True)
class Contract2:
    """The keys that contract 2 adds to a node's document (docs/node-contract.md).

    `scale`: what every time in the document was divided by; `revision` counts the documents written for the node, so
    that the status file can say which of them it answers.
    """

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
    defaults: bool = True,
    contract_2: Contract2 | None = None,
) -> dict[str, Any]:
    """Return a server's configuration; under contract 1 when `contract_2` is None.

    `data_dir` is the node's data directory as the node sees it; `seed` is for its random choices. `duration` converts documented
    seconds to the node's. `changes` (parameter -> value) and `listener_changes` (listener -> setting -> value) are what the
    scenario has configured so far; `mailbox_servers` (database -> server) says where mailbox databases are active now, for
    those that moved; `unknown` are keys outside the contract that the scenario adds. `opened` are the listeners that the candidate
    opens (None: all of its role); `left_out` are transport parameters that are omitted, so that the server uses its own defaults.
    Without `defaults` everything with a documented default is omitted that neither the topology nor the changes set: parameters,
    limits of listeners, and `hub` of sites.
    """
    stated = {**topology.transport, **server.transport, **(changes or {})}
    parameters = effective_parameters(stated, {}) if defaults else stated
    transport = {name: value for name, value in parameters.items() if name not in left_out}
    return {
        **_contract_keys(contract_2),
        "name": server.name,
        "generation": server.generation,
        "role": server.role,
        "site": server.site,
        "dag": server.dag,
        "data_dir": str(data_dir),
        "seed": seed,
        "listeners": {
            listener: settings
            for listener, settings in _listeners(
                topology, server, wiring, duration, listener_changes or {}, defaults=defaults
            ).items()
            if opened is None or listener in opened
        },
        "peers": _peers(topology, server, wiring),
        "sites": _sites(topology, contract_2, defaults=defaults),
        "site_links": [{"between": list(link.between), "cost": link.cost} for link in topology.site_links],
        "routes": _routes(topology, server, wiring),
        "mailboxes": _mailboxes(topology, server, wiring, mailbox_servers or {}),
        "journal": None if topology.journal is None else {"recipient": topology.journal},
        "transport": _convert_times(transport, duration),
        **(unknown or {}),
    }


def _contract_keys(contract_2: Contract2 | None) -> dict[str, Any]:
    """Return the keys that differ between contract 1 (None) and contract 2."""
    if contract_2 is None:
        return {"contract": 1}
    return {
        "contract": 2,
        "scale": contract_2.scale,
        "revision": contract_2.revision,
        "status_file": str(contract_2.status_file),
    }


def _sites(topology: Topology, contract_2: Contract2 | None, *, defaults: bool) -> list[dict[str, Any]]:
    """Return the Active Directory sites; contract 2 adds whether each is a hub site, without `defaults` only where it is one."""
    return [
        {"name": site}
        | ({"hub": site in topology.hub_sites} if contract_2 and (defaults or site in topology.hub_sites) else {})
        for site in topology.all_sites
    ]


def _convert_times(parameters: Mapping[str, Any], duration: Callable[[float], float]) -> dict[str, Any]:
    """Return the parameters with every time (`TIME_PARAMETERS`) converted by `duration`; a value that is not a number stays.

    A scenario may configure anything: the node must refuse it.
    """
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
    *,
    defaults: bool,
) -> dict[str, Any]:
    """Return the address and limits of each listener of a server's role; `changes` are the scenario's, by listener.

    Times are converted by `duration`. The listener `transport` also has `externally_secured`, from the topology unless
    set otherwise. Without `defaults`, limits that nothing sets are left out.
    """
    limits = LISTENER_LIMITS["edge" if server.role == "edge" else ""] if defaults else {}  # '': the other roles
    rendered: dict[str, Any] = {}
    for listener in listeners_of(server.role):
        host, port = wiring.listen(server.name, listener)
        settings = {**limits, **server.listeners.get(listener, {}), **changes.get(listener, {})}
        rendered[listener] = {"host": host, "port": port, **_convert_times(settings, duration)}
    rendered["transport"].setdefault("externally_secured", topology.externally_secured)
    return rendered


def _peers(topology: Topology, server: Server, wiring: Wiring) -> list[dict[str, Any]]:
    """Return every other server of the topology with the links to dial it, and the peer `submission`, which only submits.

    Each listener of a peer but its `frontend` has a link. No link leads to `submission`.
    """
    peers = [
        {
            "name": spelled(topology, other.name),
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
    """Return what a server grants to a peer and holds towards it, and their secret; defaults where the topology says nothing."""
    default = ConnectorRights(server=server, peer=peer)
    right = next((r for r in topology.rights if (r.server, r.peer) == (server, peer)), default)
    return {"accept_xshadow": right.accept_xshadow, "send_xshadow": right.send_xshadow, "secret": right.secret}


def _routes(topology: Topology, server: Server, wiring: Wiring) -> list[dict[str, Any]]:
    """Return the routes that bind a server and do not lead to itself, with the links to dial their next hops.

    A route without `servers` binds all. A next hop that is not a sink is a server: it is dialled at its `transport`.
    """
    protocols: dict[str, str] = {sink.name: sink.protocol for sink in topology.sinks}
    return [
        {
            "domain": route.domain,
            "next_hops": [
                {
                    "name": spelled(topology, hop) if hop in topology.by_name else hop,
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
    """Return all mailboxes with the server that has each now; `active` is the server of each database that moved.

    Those that are at this server now have the sink that it delivers them to: the server's own store, by LMTP.
    """
    rendered = []
    for mailbox in topology.mailboxes:
        host = active.get(mailbox.database, mailbox.server)
        entry: dict[str, Any] = {
            "address": mailbox.address,
            "database": mailbox.database,
            "server": spelled(topology, host),
        }
        if host == server.name:
            dial = wiring.dial(server.name, topology.store_name(server.name), "lmtp")
            entry["sink"] = {"protocol": "lmtp", "dial": list(dial)}
        rendered.append(entry)
    return rendered
