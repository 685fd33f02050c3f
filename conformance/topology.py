"""The world of a scenario: sites, DAGs, servers, mailboxes, sinks, senders, and who may shadow whom.

A topology is data (fixtures/topologies/*.yaml). From it the nodes' configuration is rendered (conformance.nodes),
the links between every
pair of parties are laid (conformance.run), and the judge knows where the boundary runs.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from conformance.generations import DEFAULT_GENERATION, Generation, Role
from conformance.parameters import editor_schema


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Server(_Closed):
    """A transport server under test (or another one of the reference beside it)."""

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


class Mailbox(_Closed):
    """A mailbox, in a database whose active copy is on one server."""

    address: str
    database: str
    server: str


class SiteLink(_Closed):
    """A link between two sites, with its cost."""

    between: tuple[str, str]
    cost: int = Field(ge=1)


class Sink(_Closed):
    """A server of the harness that takes mail for outside domains."""

    name: str
    domains: tuple[str, ...]
    protocol: Literal["smtp", "lmtp"] = "smtp"


class Route(_Closed):
    """Next hops for a recipient domain: sinks or servers, the first that works is used."""

    domain: str
    next_hops: tuple[str, ...] = Field(alias="next-hops")
    servers: tuple[str, ...] = Field((), description="who has this route; empty: all servers")


class ConnectorRights(_Closed):
    """What differs from the default rights between two servers (both rights held among servers)."""

    server: str = Field(description="whose connector")
    peer: str
    accept_xshadow: bool = Field(True, alias="accept-xshadow")
    send_xshadow: bool = Field(True, alias="send-xshadow")
    secret: str | None = None


class Topology(_Closed):
    """A whole topology; `boundary_of` answers where shadows may be."""

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

    @model_validator(mode="after")
    def _names_are_known(self) -> "Topology":
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
        """Servers by name."""
        return {server.name: server for server in self.servers}

    @cached_property
    def all_sites(self) -> tuple[str, ...]:
        """Every site that is named anywhere, in order of first mention."""
        return tuple(dict.fromkeys([*self.sites, *(server.site for server in self.servers)]))

    def boundary(self, server: str) -> frozenset[str]:
        """Return the names of all servers in the server's transport high-availability boundary, itself included.

        The DAG for a member of one, else the Active Directory site (SR-BND-01, SR-BND-02); a 2010 server has none
        but its site.
        """
        one = self.by_name[server]
        if one.dag is not None:
            return frozenset(other.name for other in self.servers if other.dag == one.dag)
        return frozenset(other.name for other in self.servers if other.dag is None and other.site == one.site)

    def store_name(self, server: str) -> str:
        """Return the party name of the mailbox store behind a server: the LMTP sink that it delivers to."""
        return f"{server}-store"

    def next_hops(self, server: str, recipient: str) -> Iterator[str]:
        """Yield who is next on the way of a message from a server to a recipient."""
        hosts = {mailbox.address: mailbox.server for mailbox in self.mailboxes}
        if (host := hosts.get(recipient.lower())) is not None:
            yield self.store_name(server) if host == server else f"{host}.delivery"
            return
        domain = recipient.rpartition("@")[2].lower()
        routes = [route for route in self.routes if not route.servers or server in route.servers]
        named = [one for one in routes if one.domain == domain] or [one for one in routes if one.domain == "*"]
        for route in named[:1]:
            yield from (hop for hop in route.next_hops if hop != server)
