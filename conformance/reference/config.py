"""The configuration of a node: exactly the JSON document of the node contract, 1 or 2.

Units are seconds and octets. A parameter left out has its documented default; an unknown one, a value out of range or
of the wrong type, and parameters that contradict each other are refused with an error that names them
(SR-CFG-01, SR-CFG-02, SR-CFG-03).
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Generation = Literal["ex2010", "ex2013", "ex2016"]
Address = tuple[str, Annotated[int, Field(ge=1, le=65535)]]
"""Host (an address, never a name to resolve) and port."""

Seconds = Annotated[float, Field(gt=0, le=100 * 86400, allow_inf_nan=False)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$")]


class ConfigurationError(ValueError):
    """The configuration cannot be used. The text is one line and names the parameters."""


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Listener(_Closed):
    """A receive connector. ConnectionTimeout is the absolute age of a session (SR-TMO-07)."""

    host: str = "127.0.0.1"
    port: int = Field(ge=0, le=65535)
    connection_timeout: Seconds = 600
    connection_inactivity_timeout: Seconds = 300
    externally_secured: bool = False

    @model_validator(mode="after")
    def _age_exceeds_idleness(self) -> "Listener":
        if self.connection_timeout <= self.connection_inactivity_timeout:
            raise ValueError("connection_timeout must be greater than connection_inactivity_timeout")
        return self


class Listeners(_Closed):
    """The doors of a node; a hub has no `delivery`, a plain relay only `frontend`."""

    frontend: Listener | None = None
    transport: Listener | None = None
    delivery: Listener | None = None


class Dial(_Closed):
    """The addresses to dial for a peer, by its listener."""

    transport: Annotated[Address | None, Field(strict=False)] = None
    delivery: Annotated[Address | None, Field(strict=False)] = None


class Peer(_Closed):
    """Another transport server of the organisation, or (role `submission`) the Mailbox Transport Submission service.

    `accept_xshadow` is the right granted to it on our connector, `send_xshadow` the one we hold towards it.
    """

    name: Name
    generation: Generation
    role: Literal["mailbox", "hub", "edge", "submission"]
    site: str
    dag: str | None = None
    dial: Dial = Dial()
    accept_xshadow: bool = True
    send_xshadow: bool = True
    secret: str | None = Field(None, repr=False)


class Site(_Closed):
    """An Active Directory site; mail between others passes through a server of a hub site on its route."""

    name: str
    hub: bool = False


class SiteLink(_Closed):
    """A link between two sites and its cost."""

    between: Annotated[tuple[str, str], Field(strict=False)]
    cost: int = Field(ge=1)


class Hop(_Closed):
    """A next hop outside."""

    name: Name
    protocol: Literal["smtp", "lmtp"] = "smtp"
    dial: Annotated[Address, Field(strict=False)]


class Route(_Closed):
    """Next hops for a recipient domain (`*`: any); the first that works is used."""

    domain: str
    next_hops: Annotated[tuple[Hop, ...], Field(min_length=1, strict=False)]


class Sink(_Closed):
    """The mailbox store behind the server that hosts a mailbox."""

    protocol: Literal["lmtp"] = "lmtp"
    dial: Annotated[Address, Field(strict=False)]


class Mailbox(_Closed):
    """A mailbox, its database, and the server where that database is active."""

    address: str = Field(pattern=r"^[^@\s<>]+@[^@\s<>]+$")
    database: str
    server: str
    sink: Sink | None = None


class Journal(_Closed):
    """Who gets a journal report of each message."""

    recipient: str = Field(pattern=r"^[^@\s<>]+@[^@\s<>]+$")


class Transport(_Closed):
    """The transport parameters, under their documented names."""

    ShadowRedundancyEnabled: bool = True
    RejectMessageOnShadowFailure: bool = False
    ShadowMessagePreferenceSetting: Literal["PreferRemote", "LocalOnly", "RemoteOnly"] = "PreferRemote"
    MaxRetriesForRemoteSiteShadow: int = Field(4, ge=0, le=255)
    MaxRetriesForLocalSiteShadow: int = Field(2, ge=0, le=255)
    ShadowHeartbeatFrequency: Seconds = 120
    ShadowResubmitTimeSpan: Seconds = 10800
    ShadowMessageAutoDiscardInterval: Seconds = 172800
    SafetyNetHoldTime: Seconds = 172800
    MessageExpirationTimeout: Seconds = 172800
    ShadowHeartbeatTimeoutInterval: Seconds = 300
    ShadowHeartbeatRetryCount: int = Field(3, ge=1, le=255)
    MaxAcknowledgementDelay: float = Field(30, ge=0, le=86400, allow_inf_nan=False)
    SendConnectionInactivityTimeout: Seconds = 600
    DuplicateTrackingWindow: float = Field(3600, gt=0, le=366 * 86400, allow_inf_nan=False)
    DuplicateCleanupInterval: Seconds = 600
    MessageRetryInterval: Seconds = 60
    MaxMessageSize: int = Field(36700160, ge=1024, le=2**31 - 1)

    @model_validator(mode="after")
    def _local_only_tries_no_remote_site(self) -> "Transport":
        if self.ShadowMessagePreferenceSetting == "LocalOnly" and self.MaxRetriesForRemoteSiteShadow > 0:
            raise ValueError(
                "ShadowMessagePreferenceSetting LocalOnly contradicts MaxRetriesForRemoteSiteShadow above 0"
            )
        return self


TIMES: dict[str, float] = {
    name: field.default for name, field in Transport.model_fields.items() if field.annotation is float
}
"""The documented defaults of all transport parameters that are times, seconds."""

LIMITS = (
    {"connection_timeout": 600.0, "connection_inactivity_timeout": 300.0},
    {"connection_timeout": 300.0, "connection_inactivity_timeout": 60.0},
)
"""The default limits of a receive connector, seconds: of most servers, and of an Edge server."""


class NodeConfiguration(_Closed):
    """The whole document that a node is told."""

    contract: Literal[1, 2]
    scale: float = Field(1.0, gt=0, allow_inf_nan=False)
    revision: int = Field(0, ge=0)
    status_file: str | None = None
    name: Name
    generation: Generation
    role: Literal["mailbox", "hub", "edge"]
    site: str
    dag: str | None = None
    data_dir: str
    seed: int = 0
    listeners: Listeners
    peers: Annotated[tuple[Peer, ...], Field(strict=False)] = ()
    sites: Annotated[tuple[Site, ...], Field(strict=False)] = ()
    site_links: Annotated[tuple[SiteLink, ...], Field(strict=False)] = ()
    routes: Annotated[tuple[Route, ...], Field(strict=False)] = ()
    mailboxes: Annotated[tuple[Mailbox, ...], Field(strict=False)] = ()
    journal: Journal | None = None
    transport: Transport = Transport()

    @model_validator(mode="before")
    @classmethod
    def _with_default_times(cls, document: Any) -> Any:
        """Put the documented default in for each time that is left out, divided by `scale` as all others are.

        An Edge server has limits of its own for its listeners (SR-TMO-06, SR-TMO-07).
        """
        if not isinstance(document, dict):
            return document
        scale = document.get("scale", 1)
        if not isinstance(scale, int | float) or isinstance(scale, bool) or not scale > 0:
            return document  # refused, by its name
        listeners, transport = document.get("listeners"), document.get("transport", {})
        limits = {name: default / scale for name, default in LIMITS[document.get("role") == "edge"].items()}
        if isinstance(listeners, dict):
            listeners = {
                name: {**limits, **listener} if isinstance(listener, dict) else listener
                for name, listener in listeners.items()
            }
        if isinstance(transport, dict):
            transport = {**{name: default / scale for name, default in TIMES.items()}, **transport}
        return {**document, "listeners": listeners, "transport": transport}

    @model_validator(mode="after")
    def _contract_1_has_no_key_of_contract_2(self) -> "NodeConfiguration":
        given = [name for name in ("scale", "revision", "status_file") if name in self.model_fields_set]
        if self.contract == 1 and (given or any("hub" in site.model_fields_set for site in self.sites)):
            raise ValueError(f"{', '.join(given) or 'sites.hub'}: unknown in contract 1")
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> "NodeConfiguration":
        names = [self.name, *(peer.name for peer in self.peers)]
        if len(set(map(str.casefold, names))) != len(names):
            raise ValueError("peers: a name is given to two servers")
        boxes = [mailbox.address.casefold() for mailbox in self.mailboxes]
        if len(set(boxes)) != len(boxes):
            raise ValueError("mailboxes: an address is given twice")
        return self

    @cached_property
    def peers_by_name(self) -> dict[str, Peer]:
        """Peers by their name in lower case, as EHLO names are compared (RFC 5321 2.4)."""
        return {peer.name.casefold(): peer for peer in self.peers}

    @cached_property
    def hub_sites(self) -> frozenset[str]:
        """The names of the hub sites."""
        return frozenset(site.name for site in self.sites if site.hub)

    @cached_property
    def has_secrets(self) -> bool:
        """Whether any peer has a secret with this server."""
        return any(peer.secret is not None for peer in self.peers)

    @cached_property
    def mailboxes_by_address(self) -> dict[str, Mailbox]:
        """Mailboxes by their address in lower case."""
        return {mailbox.address.casefold(): mailbox for mailbox in self.mailboxes}

    @cached_property
    def mailbox_domains(self) -> frozenset[str]:
        """The domains that have mailboxes here."""
        return frozenset(address.rpartition("@")[2] for address in self.mailboxes_by_address)


def parse(text: str, kind: type[NodeConfiguration] = NodeConfiguration) -> NodeConfiguration:
    """Return the configuration that a JSON document describes, checked by the rules of a kind.

    Raises ConfigurationError: one line, naming every parameter that is wrong.
    """
    try:
        return kind.model_validate(json.loads(text))
    except ValidationError as error:
        raise ConfigurationError("; ".join(_problem(e["loc"], e["msg"]) for e in error.errors())) from error
    except ValueError as error:
        raise ConfigurationError(f"the configuration is no JSON document: {error}") from error


def load(path: Path, kind: type[NodeConfiguration] = NodeConfiguration) -> NodeConfiguration:
    """Read and check a configuration file. Raises ConfigurationError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration cannot be read: {error}") from error
    return parse(text, kind)


def read_data_dir(path: Path) -> Path:
    """Return the data directory that a configuration file names, whatever else is wrong in it: a node that refused
    the file goes on, and can be asked. Raises ConfigurationError.
    """
    try:
        return Path(json.loads(path.read_text(encoding="utf-8"))["data_dir"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"the configuration names no data_dir: {error}") from error


def _problem(place: tuple[int | str, ...], message: str) -> str:
    where = ".".join(map(str, place))
    message = message.removeprefix("Value error, ").replace("\n", " ")
    return f"{where}: {message}" if where else message
