"""The JSON document that a node reads, and the one that its `inspect` prints, as models (node contract 2).

Their JSON Schemas are published: `conformance schema node` and `conformance schema inspect`. Units are seconds and
octets. Defaults are the documented ones (`conformance.parameters`); `conformance.nodes.configuration` renders a node's
document with them.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from conformance.generations import Generation, Role
from conformance.parameters import LISTENER_LIMITS, Seconds, TransportParameters

Listener = Literal["frontend", "transport", "delivery"]

Address = tuple[str, Annotated[int, Field(ge=1, le=65535)]]
"""Host and port."""

_LIMITS = LISTENER_LIMITS[""]


class _Closed(BaseModel):
    """A model that refuses unknown keys and does not convert types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ListenerSettings(_Closed):
    """A receive connector: where it listens, and the limits of its sessions."""

    host: str
    port: int = Field(ge=0, le=65535)
    connection_timeout: Seconds = Field(
        _LIMITS["connection_timeout"], description="a session this old is closed; 300 on an edge"
    )
    connection_inactivity_timeout: Seconds = Field(
        _LIMITS["connection_inactivity_timeout"],
        description="a session idle this long is closed; less than connection_timeout; 60 on an edge",
    )
    externally_secured: bool = Field(False, description="transport: a client is the peer that its EHLO names")


class Dial(_Closed):
    """The addresses to dial for a peer, by its listener."""

    transport: Address | None = None
    delivery: Address | None = None


class Peer(_Closed):
    """Another transport server of the topology; `submission` only submits."""

    name: str
    generation: Generation
    role: Role
    site: str
    dag: str | None = None
    dial: Dial = Dial()
    accept_xshadow: bool = Field(True, description="the right granted to this peer on our connector")
    send_xshadow: bool = Field(True, description="the right that we hold towards this peer")
    secret: str | None = Field(None, description="the pair's SMTP AUTH password; the user is the client's own name")


class Site(_Closed):
    """An Active Directory site."""

    name: str
    hub: bool = Field(False, description="mail between other sites passes through a server here")


class SiteLink(_Closed):
    """A link between two sites, and its cost."""

    between: tuple[str, str]
    cost: int = Field(ge=1)


class NextHop(_Closed):
    """A next hop for recipients outside."""

    name: str
    protocol: Literal["smtp", "lmtp"] = "smtp"
    dial: Address


class Route(_Closed):
    """Next hops for a recipient domain; `*` is every other domain."""

    domain: str
    next_hops: Annotated[tuple[NextHop, ...], Field(min_length=1)]


class Sink(_Closed):
    """The mailbox store behind the server where a mailbox is active."""

    protocol: Literal["lmtp"] = "lmtp"
    dial: Address


class Mailbox(_Closed):
    """A mailbox, its database, and the server where that database is active."""

    address: str
    database: str
    server: str
    sink: Sink | None = Field(None, description="only where `server` is this node")


class Journal(_Closed):
    """The recipient of a journal report for each message."""

    recipient: str


class NodeDocument(_Closed):
    """The document that a node reads from the file that `{config}` names."""

    contract: Literal[2]
    scale: float = Field(1, gt=0, description="every time in here is the documented time divided by this")
    revision: int = Field(1, ge=1, description="counts the versions of this file that were written for this node")
    status_file: str = Field(description="replaced by the node after its start and after each reload")
    name: str
    generation: Generation
    role: Literal["mailbox", "hub", "edge"]
    site: str
    dag: str | None = None
    data_dir: str
    seed: int = 0
    listeners: dict[Listener, ListenerSettings]
    peers: tuple[Peer, ...] = ()
    sites: tuple[Site, ...] = ()
    site_links: tuple[SiteLink, ...] = ()
    routes: tuple[Route, ...] = ()
    mailboxes: tuple[Mailbox, ...] = ()
    journal: Journal | None = None
    transport: TransportParameters = TransportParameters()


class Status(_Closed):
    """What a node writes to its status file: whether it applied the document of a revision."""

    revision: int
    applied: bool
    error: str = ""


class QueueItem(_Closed):
    """A message, or a notification, in a queue."""

    message_id: str | None = Field(description="the Message-ID without its brackets")
    shadow_id: str | None = Field(description="as on the wire; one item for each")
    primary: str | None = Field(
        description="for a shadow copy, the server whose message it is; null for the node's own"
    )
    recipients: tuple[str, ...]
    since: float = Field(description="seconds since 1970 on the node's clock")


class Queue(_Closed):
    """A queue with its items."""

    queue: str = Field(description="its name; queues with different names are different queues")
    kind: Literal["submission", "delivery", "shadow", "safety-net", "shadow-safety-net", "discard"]
    next_hop: str | None
    items: tuple[QueueItem, ...]


class InspectDocument(_Closed):
    """The document that `inspect` prints."""

    database: str
    queues: tuple[Queue, ...]
    delivered_to: int = Field(description="number of rows in the table of duplicate detection")
