"""The configuration of a node: exactly the JSON document of the node contract, 1 or 2, which the harness writes and the node reads.

Units are octets and real seconds. `scale` is how many documented seconds pass in a real one: the writer of the file has divided
each documented time by it, and defaults are divided here. A parameter that is left out has its documented default. Unknown
parameters, values out of range or of the wrong type, and contradictory parameters are refused with an error that names them
(SR-CFG-01, SR-CFG-02, SR-CFG-03). "This server" is the node that the configuration is for, a *peer* another server that it lists.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Generation = Literal["ex2010", "ex2013", "ex2016"]
Address = tuple[str, Annotated[int, Field(ge=1, le=65535)]]
"""Host (an address, never a name to resolve) and port."""

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SecondsOrNone = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Seconds, or 0 for no time at all."""

Attempts = Annotated[int, Field(ge=0, le=255)]
Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$")]


class ConfigurationError(ValueError):
    """The configuration cannot be read or used; the text is one line, which names the refused parameters, if any."""


class _StrictModel(BaseModel):
    """A frozen model without unknown fields or conversion of types, except of integers to floats and JSON lists to tuples."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Listener(_StrictModel):
    """A receive connector: its address, and the limits of its sessions in real seconds.

    `connection_timeout` limits the age of a session, busy or not (SR-TMO-07), `connection_inactivity_timeout` the silence of the
    client. `externally_secured`: on the listener `transport` a client that has not authenticated is the peer that its EHLO names.
    """

    host: str = "127.0.0.1"
    port: Port
    connection_timeout: Seconds
    connection_inactivity_timeout: Seconds
    externally_secured: bool = False

    @model_validator(mode="after")
    def _age_exceeds_idleness(self) -> "Listener":
        """Raise ValueError, which refuses the configuration, if the age limit does not exceed the idle limit (SR-CFG-01).

        Else return the listener unchanged.
        """
        if self.connection_timeout <= self.connection_inactivity_timeout:
            raise ValueError("connection_timeout must be greater than connection_inactivity_timeout")
        return self


class Listeners(_StrictModel):
    """The listeners of a node; a hub has no `delivery`, a plain relay only `frontend`.

    `frontend` takes mail from any client, `transport` from other servers, with the shadow verbs; `delivery` (LMTP) takes mail of
    other servers for mailboxes of this one.
    """

    frontend: Listener | None = None
    transport: Listener | None = None
    delivery: Listener | None = None


class Dial(_StrictModel):
    """The addresses of a peer, by its listener; None if it has no such listener."""

    transport: Annotated[Address | None, Field(strict=False)] = None
    delivery: Annotated[Address | None, Field(strict=False)] = None


class Peer(_StrictModel):
    """Another transport server of the organisation, or (role `submission`) the Mailbox Transport Submission service.

    `accept_xshadow`: this server grants the peer the right to use the shadow verbs here; `send_xshadow`: the peer grants this
    server that right there. The two servers share `secret`, with which a client proves its name (AUTH); None: they have none.
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


class Site(_StrictModel):
    """An Active Directory site; `hub`: mail between other sites whose route leads through this one stops at a server here."""

    name: str
    hub: bool = False


class SiteLink(_StrictModel):
    """A link between two sites and its cost."""

    between: Annotated[tuple[str, str], Field(strict=False)]
    cost: int = Field(ge=1)


class Hop(_StrictModel):
    """A next hop outside of the organisation."""

    name: Name
    protocol: Literal["smtp", "lmtp"] = "smtp"
    dial: Annotated[Address, Field(strict=False)]


class Route(_StrictModel):
    """The next hops for a recipient domain, which are tried in order; `*` is for any domain without a route of its own."""

    domain: str
    next_hops: Annotated[tuple[Hop, ...], Field(min_length=1, strict=False)]


class Sink(_StrictModel):
    """The mailbox store behind the server that hosts a mailbox: the address of an LMTP server."""

    protocol: Literal["lmtp"] = "lmtp"
    dial: Annotated[Address, Field(strict=False)]


class Mailbox(_StrictModel):
    """A mailbox, its database, and the server where that database is active; `sink` is None unless that is this server."""

    address: str = Field(pattern=r"^[^@\s<>]+@[^@\s<>]+$")
    database: str
    server: str
    sink: Sink | None = None


class Journal(_StrictModel):
    """The recipient of a journal report about each message."""

    recipient: str = Field(pattern=r"^[^@\s<>]+@[^@\s<>]+$")


class Transport(_StrictModel):
    """The transport parameters, under their documented names; times are real seconds."""

    ShadowRedundancyEnabled: bool = True
    RejectMessageOnShadowFailure: bool = False
    ShadowMessagePreferenceSetting: Literal["PreferRemote", "LocalOnly", "RemoteOnly"] = "PreferRemote"
    MaxRetriesForRemoteSiteShadow: Attempts = 4
    MaxRetriesForLocalSiteShadow: Attempts = 2
    ShadowHeartbeatFrequency: Seconds = 120
    ShadowResubmitTimeSpan: Seconds = 10800
    ShadowMessageAutoDiscardInterval: Seconds = 172800
    SafetyNetHoldTime: Seconds = 172800
    MessageExpirationTimeout: Seconds = 172800
    ShadowHeartbeatTimeoutInterval: Seconds = 300
    ShadowHeartbeatRetryCount: int = Field(3, ge=1, le=255)
    MaxAcknowledgementDelay: SecondsOrNone = 30
    SendConnectionInactivityTimeout: Seconds = 600
    DuplicateTrackingWindow: Seconds = 3600
    DuplicateCleanupInterval: Seconds = 600
    MessageRetryInterval: Seconds = 60
    MaxMessageSize: int = Field(36700160, ge=1024)

    @model_validator(mode="after")
    def _local_only_tries_no_remote_site(self) -> "Transport":
        """Raise ValueError, which refuses the configuration, for LocalOnly with attempts in remote sites (SR-CFG-02).

        Else return the parameters unchanged.
        """
        if self.ShadowMessagePreferenceSetting == "LocalOnly" and self.MaxRetriesForRemoteSiteShadow > 0:
            raise ValueError(
                "ShadowMessagePreferenceSetting LocalOnly contradicts MaxRetriesForRemoteSiteShadow above 0"
            )
        return self


DEFAULT_TIMES: dict[str, float] = {
    name: field.default for name, field in Transport.model_fields.items() if field.annotation is float
}
"""The documented defaults of all transport parameters that are times, seconds."""

DEFAULT_LIMITS = {"connection_timeout": 600.0, "connection_inactivity_timeout": 300.0}
EDGE_LIMITS = {"connection_timeout": 300.0, "connection_inactivity_timeout": 60.0}
"""The default time limits of a receive connector, seconds: on most servers, and on an Edge server."""

REAL_TIME = 1.0
"""The `scale` of a configuration that gives none."""


class NodeConfiguration(_StrictModel):
    """The whole configuration of a node."""

    contract: Literal[1, 2]
    scale: Scale = REAL_TIME
    revision: int | None = None
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
        """Return the JSON document with each time that it leaves out set to the documented default divided by `scale`.

        These are the times in `transport` and the limits of listeners; for the latter an Edge server has other defaults
        (SR-TMO-06, SR-TMO-07). Times that the document gives are divided by `scale` already. A document that is not an object, or
        has an invalid `scale`, is returned unchanged; what has a wrong type is left for validation to refuse.
        """
        if not isinstance(document, dict):
            return document
        scale = document.get("scale", REAL_TIME)
        if not isinstance(scale, int | float) or isinstance(scale, bool) or not scale > 0:
            return document  # validation refuses `scale` by name
        try:
            scale = float(scale)
        except OverflowError:
            return document  # an integer above all floats, which validation refuses too
        listeners, transport = document.get("listeners"), document.get("transport", {})
        defaults = EDGE_LIMITS if document.get("role") == "edge" else DEFAULT_LIMITS
        limits = {name: default / scale for name, default in defaults.items()}
        if isinstance(listeners, dict):
            listeners = {
                name: {**limits, **listener} if isinstance(listener, dict) else listener
                for name, listener in listeners.items()
            }
        if isinstance(transport, dict):
            transport = {**{name: default / scale for name, default in DEFAULT_TIMES.items()}, **transport}
        return {**document, "listeners": listeners, "transport": transport}

    @staticmethod
    def peer_spelling(name: str) -> str:
        """Return the spelling by which the node knows the peer that the document calls `name`: lower case."""
        return name.casefold()

    @model_validator(mode="before")
    @classmethod
    def _with_server_names_in_one_spelling(cls, document: Any) -> Any:
        """Return the JSON document with the names of peers in lower case, and those in mailboxes and routes spelled as here.

        Names of servers are compared without regard to letter case (node contract). So the rest of the node can compare them as
        they are, also with those in its database, which an earlier configuration may have spelled otherwise. This server keeps its
        name as it is, and so does any server that is no peer. A document that lacks a name, or has a wrong type there, is returned
        unchanged: validation refuses it.
        """
        try:
            peers = [{**peer, "name": cls.peer_spelling(peer["name"])} for peer in document.get("peers", [])]
            known = [document["name"], *(peer["name"] for peer in peers)]
            spelling = {name.casefold(): name for name in known}

            def spelled(entry: dict[str, Any], key: str) -> dict[str, Any]:
                """Return a copy of a mailbox or next hop with the server's name in `key` as spelled in `known`, if it is known."""
                return {**entry, key: spelling.get(entry[key].casefold(), entry[key])}

            mailboxes = [spelled(mailbox, "server") for mailbox in document.get("mailboxes", ())]
            routes = [
                {**route, "next_hops": [spelled(hop, "name") for hop in route["next_hops"]]}
                for route in document.get("routes", ())
            ]
        except (KeyError, TypeError, AttributeError):
            return document
        return {**document, **({"peers": peers} if peers else {}), "mailboxes": mailboxes, "routes": routes}

    @model_validator(mode="after")
    def _check_contract_keys(self) -> "NodeConfiguration":
        """Return the configuration; raise ValueError if it states version 1 of the node contract and has keys of version 2."""
        contract_2_keys = [name for name in ("scale", "revision", "status_file") if name in self.model_fields_set]
        if self.contract == 1 and (contract_2_keys or any("hub" in site.model_fields_set for site in self.sites)):
            raise ValueError(f"{', '.join(contract_2_keys) or 'sites.hub'}: unknown in contract 1")
        return self

    @model_validator(mode="after")
    def _check_unique_names(self) -> "NodeConfiguration":
        """Return the configuration; raise ValueError if two servers have one name, or two mailboxes one address, but for case."""
        names = [self.name, *(peer.name for peer in self.peers)]
        if len(set(map(str.casefold, names))) != len(names):
            raise ValueError("peers: a name is given to two servers")
        addresses = [mailbox.address.casefold() for mailbox in self.mailboxes]
        if len(set(addresses)) != len(addresses):
            raise ValueError("mailboxes: an address is given twice")
        return self

    @cached_property
    def peers_by_name(self) -> dict[str, Peer]:
        """The peers by name, which is in lower case."""
        return {peer.name: peer for peer in self.peers}

    @cached_property
    def hub_sites(self) -> frozenset[str]:
        """The names of the hub sites, at which mail between other sites stops."""
        return frozenset(site.name for site in self.sites if site.hub)

    @cached_property
    def has_secrets(self) -> bool:
        """Whether any peer has a secret with this server."""
        return any(peer.secret is not None for peer in self.peers)

    @cached_property
    def mailboxes_by_address(self) -> dict[str, Mailbox]:
        """The mailboxes by address in lower case."""
        return {mailbox.address.casefold(): mailbox for mailbox in self.mailboxes}

    @cached_property
    def mailbox_domains(self) -> frozenset[str]:
        """The domains with mailboxes in this organisation, in lower case."""
        return frozenset(address.rpartition("@")[2] for address in self.mailboxes_by_address)


def parse_configuration(text: str, kind: type[NodeConfiguration] = NodeConfiguration) -> NodeConfiguration:
    """Return the configuration in a JSON document, validated by the model `kind`, which a defect may have replaced.

    Raises ConfigurationError with one line that names every wrong parameter found, or says that the text is not JSON.
    """
    try:
        return kind.model_validate(json.loads(text))
    except ValidationError as error:
        raise ConfigurationError("; ".join(_format_problem(e["loc"], e["msg"]) for e in error.errors())) from error
    except ValueError as error:
        raise ConfigurationError(f"the configuration is not a JSON document: {error}") from error


def load_configuration(path: Path, kind: type[NodeConfiguration] = NodeConfiguration) -> NodeConfiguration:
    """Return the configuration in a file, validated by the model `kind`. Raises ConfigurationError if it is unreadable or refused."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration cannot be read: {error}") from error
    return parse_configuration(text, kind)


def read_data_dir(path: Path) -> Path:
    """Return the data directory in a configuration file that may be invalid otherwise.

    So a running node that has refused the file can still be sent commands, through that directory. Raises ConfigurationError if
    the file cannot be read, is not JSON or names no data directory.
    """
    try:
        return Path(json.loads(path.read_text(encoding="utf-8"))["data_dir"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"the configuration names no data_dir: {error}") from error


def read_revision(path: Path) -> int | None:
    """Return the revision in a configuration file, which may be invalid otherwise; None if it has no integer there or is unreadable."""
    try:
        revision = json.loads(path.read_text(encoding="utf-8"))["revision"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return revision if isinstance(revision, int) else None


def _format_problem(location: tuple[int | str, ...], message: str) -> str:
    """Return a validation error as one line that begins with its parameter: `location` joined with dots.

    An error of the whole document has an empty location: the line is the message alone.
    """
    where = " ".join(".".join(map(str, location)).splitlines())
    message = " ".join(message.removeprefix("Value error, ").splitlines())
    return f"{where}: {message}" if where else message
