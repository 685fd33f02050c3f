"""The topology of a scenario: sites, DAGs, servers, mailboxes, sinks, routes, and which servers may hold whose shadows.

Topologies are YAML files (fixtures/topologies/). The configuration of the nodes is rendered from them, links are opened between
their parties, and the judge asks them for boundaries and sites. A *party* is a server, a sink or a sender; a *sink* receives
mail and belongs to the harness. A *DAG* (database availability group) is a set of servers that share mailbox databases.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from conformance.generations import DEFAULT_GENERATION, Generation, Role
from conformance.parameters import editor_schema

NameSpelling = Literal["same", "upper"]
"""How the configuration of a server writes names of servers: as the topology does, or in upper case."""


class _StrictModel(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Server(_StrictModel):
    """A transport server; each candidate, or the reference server beside it, runs one or more of them."""

    name: str
    generation: Generation = DEFAULT_GENERATION
    role: Role = "mailbox"
    site: str
    dag: str | None = None
    transport: dict[str, JsonValue] = Field(
        {}, description="parameters that differ from the documents' defaults", json_schema_extra=editor_schema()
    )
    listeners: dict[str, dict[str, JsonValue]] = Field(
        {}, description="listener settings that differ from the defaults"
    )


class Mailbox(_StrictModel):
    """A mailbox, in a database whose active copy is on one server."""

    address: str
    database: str
    server: str


class SiteLink(_StrictModel):
    """A link between two sites, with its cost."""

    between: tuple[str, str]
    cost: int = Field(ge=1)


class Sink(_StrictModel):
    """A server of the harness that accepts mail for domains outside."""

    name: str
    domains: tuple[str, ...]
    protocol: Literal["smtp", "lmtp"] = "smtp"


class Route(_StrictModel):
    """The next hops (sinks or servers) for a recipient domain, or `*`; a server uses the first that works."""

    domain: str
    next_hops: tuple[str, ...] = Field(alias="next-hops")
    servers: tuple[str, ...] = Field((), description="servers with this route; empty: all servers")


class ConnectorRights(_StrictModel):
    """The rights of `peer` on a connector of `server`; without such an entry servers have both rights."""

    server: str = Field(description="the server whose connector it is")
    peer: str
    accept_xshadow: bool = Field(True, alias="accept-xshadow")
    send_xshadow: bool = Field(True, alias="send-xshadow")
    secret: str | None = None


class Topology(_StrictModel):
    """A topology; a reference to an unknown party is refused."""

    name: str
    title: str = ""
    servers: tuple[Server, ...] = Field(min_length=1)
    mailboxes: tuple[Mailbox, ...] = ()
    sinks: tuple[Sink, ...] = ()
    routes: tuple[Route, ...] = ()
    sites: tuple[str, ...] = ()
    site_links: tuple[SiteLink, ...] = Field((), alias="site-links")
    hub_sites: tuple[str, ...] = Field(
        (),
        alias="hub-sites",
        description="sites that mail between other sites passes through, where they lie on its route",
    )
    rights: tuple[ConnectorRights, ...] = ()
    journal: str | None = None
    transport: dict[str, JsonValue] = Field(
        {}, description="parameters for all servers", json_schema_extra=editor_schema()
    )
    externally_secured: bool = Field(True, alias="externally-secured")
    server_names: NameSpelling = Field(
        "same",
        alias="server-names",
        description="upper: a server's configuration has the names of servers in upper case, but for its own name",
    )

    @model_validator(mode="after")
    def _check_names(self) -> "Topology":
        """Raise ValueError where two parties have one name, or a reference names an unknown party or site."""
        servers = [server.name for server in self.servers]
        hops = [*servers, *(sink.name for sink in self.sinks)]
        if len(set(hops)) != len(hops):
            raise ValueError("a name is given to two parties")
        for mailbox in self.mailboxes:
            if mailbox.server not in servers:
                raise ValueError(f"mailbox {mailbox.address}: no server {mailbox.server!r}")
        for route in self.routes:
            if unknown := [hop for hop in route.next_hops if hop not in hops]:
                raise ValueError(f"route for {route.domain}: no party {unknown[0]!r}")
            if unknown := [server for server in route.servers if server not in servers]:
                raise ValueError(f"route for {route.domain}: no server {unknown[0]!r}")
        for right in self.rights:
            if unknown := [name for name in (right.server, right.peer) if name not in servers]:
                raise ValueError(f"rights: no server {unknown[0]!r}")
        if unknown := [site for site in self.hub_sites if site not in self.all_sites]:
            raise ValueError(f"hub-sites: no site {unknown[0]!r}")
        for link in self.site_links:
            if unknown := [site for site in link.between if site not in self.all_sites]:
                raise ValueError(f"site link: no site {unknown[0]!r}")
        return self

    @cached_property
    def by_name(self) -> dict[str, Server]:
        """The servers by name, in the topology's order."""
        return {server.name: server for server in self.servers}

    @cached_property
    def all_sites(self) -> tuple[str, ...]:
        """The names of all sites: those of `sites`, then those of servers."""
        return tuple(dict.fromkeys([*self.sites, *(server.site for server in self.servers)]))

    def boundary(self, server: str) -> frozenset[str]:
        """Return the names of all servers in the server's transport high-availability boundary, itself included.

        The boundary is the DAG of a member of one (SR-BND-01), else the servers without a DAG in the same Active Directory
        site (SR-BND-02).
        """
        dag, site = self.by_name[server].dag, self.by_name[server].site
        if dag is not None:
            return frozenset(other.name for other in self.servers if other.dag == dag)
        return frozenset(other.name for other in self.servers if other.dag is None and other.site == site)

    def store_name(self, server: str) -> str:
        """Return the party name of a server's mailbox store, the LMTP sink that it delivers to."""
        return f"{server}-store"

    def next_hop_servers(self, server: str, address: str) -> frozenset[str]:
        """Return the parties that `next_hops` names, without the listener: of `SERVER.delivery` the server."""
        return frozenset(hop.removesuffix(".delivery") for hop in self.next_hops(server, address))

    def next_hops(self, server: str, recipient: str) -> Iterator[str]:
        """Yield the parties to which a server may pass a message for a recipient.

        For a mailbox of the topology that is the server's own mailbox store, or `SERVER.delivery`, the delivery listener of the
        server that has the mailbox. For any other recipient these are the next hops, without the server itself, of the first of its
        routes for the recipient's domain, or else for `*`. Nothing without such a route.
        """
        mailbox_servers = {mailbox.address: mailbox.server for mailbox in self.mailboxes}
        if (mailbox_server := mailbox_servers.get(recipient.lower())) is not None:
            yield self.store_name(server) if mailbox_server == server else f"{mailbox_server}.delivery"
            return
        domain = recipient.rpartition("@")[2].lower()
        routes = [route for route in self.routes if not route.servers or server in route.servers]
        matching = [route for route in routes if route.domain == domain] or [r for r in routes if r.domain == "*"]
        for route in matching[:1]:
            yield from (hop for hop in route.next_hops if hop != server)
