"""What steps change in the configuration of a node while a scenario runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.topology import ConnectorRights, SiteLink, Topology


@dataclass(frozen=True, slots=True)
class ConfigurationChanges:
    """New values in the configuration of one node; what is not named stays as it is.

    `transport` has transport parameters by name, `listeners` settings by the listener's name, `peers` the rights that this node
    grants to a peer or has towards it, by the peer's name (`accept_xshadow`, `send_xshadow`). `site_links` and `hub_sites` take
    the place of those of the topology; None: these stay. `unknown` are top-level keys, which are sent once only.
    """

    transport: Mapping[str, Any] = field(default_factory=dict)
    listeners: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    peers: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    site_links: tuple[SiteLink, ...] | None = None
    hub_sites: tuple[str, ...] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def followed_by(self, later: "ConfigurationChanges") -> "ConfigurationChanges":
        """Return these changes with later ones made after them: the value of the later one counts."""
        return ConfigurationChanges(
            transport={**self.transport, **later.transport},
            listeners=_merged(self.listeners, later.listeners),
            peers=_merged(self.peers, later.peers),
            site_links=self.site_links if later.site_links is None else later.site_links,
            hub_sites=self.hub_sites if later.hub_sites is None else later.hub_sites,
            unknown={**self.unknown, **later.unknown},
        )

    def without_unknown(self) -> "ConfigurationChanges":
        """Return these changes without the top-level keys that are sent once only."""
        return replace(self, unknown={})

    def recorded(self) -> dict[str, Any]:
        """Return the changes as `Configured.changes` has them: of a listener under `listeners.NAME`, of a peer under `peers.NAME`."""
        links = [link.model_dump(mode="json") for link in self.site_links or ()]
        return {
            **self.transport,
            **{f"listeners.{name}": dict(to) for name, to in self.listeners.items()},
            **{f"peers.{name}": dict(to) for name, to in self.peers.items()},
            **({} if self.site_links is None else {"site_links": links}),
            **({} if self.hub_sites is None else {"hub_sites": list(self.hub_sites)}),
            **self.unknown,
        }

    def applied_to(self, topology: Topology, server: str) -> Topology:
        """Return a topology as the configuration of `server` describes it after these changes: rights, site links and hub sites."""
        changed: list[ConnectorRights] = []
        kept = list(topology.rights)
        for peer, rights in self.peers.items():
            earlier = next((r for r in kept if (r.server, r.peer) == (server, peer)), None)
            if earlier is not None:
                kept.remove(earlier)
            changed.append((earlier or ConnectorRights(server=server, peer=peer)).model_copy(update=dict(rights)))
        return topology.model_copy(
            update={
                "rights": (*kept, *changed),
                "site_links": topology.site_links if self.site_links is None else self.site_links,
                "hub_sites": topology.hub_sites if self.hub_sites is None else self.hub_sites,
            }
        )


def _merged(
    before: Mapping[str, Mapping[str, Any]], changes: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return settings by name, after changes of some of them."""
    names = sorted({*before, *changes})
    return {name: {**before.get(name, {}), **changes.get(name, {})} for name in names}
