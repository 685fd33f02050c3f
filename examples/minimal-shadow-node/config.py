"""The node's file (node contract 2): read, checked, and with the documented defaults."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Address = tuple[str, int]


class Refused(Exception):
    """The file cannot be used; the text is one line that names the parameter."""


TIMES = {
    "ShadowHeartbeatFrequency": 120, "ShadowResubmitTimeSpan": 10800, "ShadowMessageAutoDiscardInterval": 172800,
    "SafetyNetHoldTime": 172800, "MessageExpirationTimeout": 172800, "ShadowHeartbeatTimeoutInterval": 300,
    "SendConnectionInactivityTimeout": 600, "DuplicateTrackingWindow": 3600, "DuplicateCleanupInterval": 600,
    "MessageRetryInterval": 60, "MaxAcknowledgementDelay": 30,
}  # fmt: skip
COUNTS = {"MaxRetriesForRemoteSiteShadow": 4, "MaxRetriesForLocalSiteShadow": 2, "ShadowHeartbeatRetryCount": 3}
SWITCHES = {"ShadowRedundancyEnabled": True, "RejectMessageOnShadowFailure": False}
PREFERENCES = ("PreferRemote", "LocalOnly", "RemoteOnly")
KEYS = {
    "contract", "scale", "revision", "status_file", "name", "generation", "role", "site", "dag", "data_dir", "seed",
    "listeners", "peers", "sites", "site_links", "routes", "mailboxes", "journal", "transport",
}  # fmt: skip


@dataclass(frozen=True)
class Listener:
    """Where to listen, and the limits of a session there, in seconds."""

    host: str
    port: int
    connection_timeout: float
    connection_inactivity_timeout: float
    externally_secured: bool


class Config:
    """The whole file, looked up by what the node asks."""

    def __init__(self, document: dict[str, Any]) -> None:
        """Check everything. Raises Refused."""
        for key in document:
            if key not in KEYS:
                raise Refused(f"{key}: unknown parameter")
        if document.get("contract") != 2:
            raise Refused("contract: this node was written for contract 2")
        self.scale = _time("scale", document.get("scale", 1))
        self.revision: int = document["revision"]
        self.status_file = Path(document["status_file"])
        self.name: str = document["name"]
        self.site: str = document["site"]
        self.dag: str | None = document.get("dag")
        self.data_dir = Path(document["data_dir"])
        self.seed: int = document.get("seed", 0)
        edge = document["role"] == "edge"
        self.listeners = {name: self._listener(name, one, edge) for name, one in document["listeners"].items()}
        self.peers: dict[str, dict[str, Any]] = {peer["name"].lower(): peer for peer in document.get("peers", [])}
        self.hubs = {site["name"] for site in document.get("sites", []) if site.get("hub")}
        self.links = [(*link["between"], link["cost"]) for link in document.get("site_links", [])]
        self.routes = {route["domain"].lower(): route["next_hops"] for route in document.get("routes", [])}
        self.mailboxes = {box["address"].lower(): box for box in document.get("mailboxes", [])}
        self.domains = {address.rpartition("@")[2] for address in self.mailboxes}
        self._values = self._transport(document.get("transport", {}))
        self.fixed = [document.get(key) for key in ("name", "generation", "role", "site", "dag", "data_dir")]

    def __getitem__(self, parameter: str) -> Any:
        """Return a transport parameter."""
        return self._values[parameter]

    def _listener(self, name: str, given: dict[str, Any], edge: bool) -> Listener:
        if unknown := set(given) - set(Listener.__annotations__):
            raise Refused(f"listeners.{name}.{min(unknown)}: unknown parameter")
        limits = {"connection_timeout": 300, "connection_inactivity_timeout": 60}
        limits = limits if edge else {key: value * f for (key, value), f in zip(limits.items(), (2, 5), strict=True)}
        age, idle = (_time(f"listeners.{name}.{key}", given.get(key, limits[key] / self.scale)) for key in limits)
        if age <= idle:
            raise Refused(f"listeners.{name}: connection_timeout must be greater than connection_inactivity_timeout")
        return Listener(given["host"], given["port"], age, idle, given.get("externally_secured", False))

    def _transport(self, given: dict[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {**SWITCHES, **COUNTS, **{name: time / self.scale for name, time in TIMES.items()}}
        values |= {"MaxMessageSize": 36700160, "ShadowMessagePreferenceSetting": "PreferRemote"}
        for name, value in given.items():
            if name not in values:
                raise Refused(f"transport.{name}: unknown parameter")
            number = isinstance(value, int) and not isinstance(value, bool)
            if name in TIMES:
                _time(f"transport.{name}", value, or_none=name == "MaxAcknowledgementDelay")
            elif name in COUNTS and not (number and 0 <= value <= 255):
                raise Refused(f"transport.{name}: {value!r} is not a number from 0 to 255")
            elif name in SWITCHES and not isinstance(value, bool):
                raise Refused(f"transport.{name}: {value!r} is not true or false")
            elif name == "MaxMessageSize" and not (number and value >= 1024):
                raise Refused(f"transport.{name}: {value!r} is not a number of at least 1024")
            elif name == "ShadowMessagePreferenceSetting" and value not in PREFERENCES:
                raise Refused(f"transport.{name}: {value!r} is not one of {', '.join(PREFERENCES)}")
            values[name] = value
        if values["ShadowMessagePreferenceSetting"] == "LocalOnly" and values["MaxRetriesForRemoteSiteShadow"] > 0:
            raise Refused("transport: ShadowMessagePreferenceSetting LocalOnly needs MaxRetriesForRemoteSiteShadow 0")
        return values

    @property
    def tracking_window(self) -> float:
        """How long a delivery is remembered: above 49 days it is 24 hours."""
        window: float = self["DuplicateTrackingWindow"]
        return 86400 / self.scale if window > 49 * 86400 / self.scale else window

    def inside(self, peer: dict[str, Any]) -> bool:
        """Whether a peer is in this node's boundary: the DAG, or the site's servers in no DAG."""
        if self.dag is not None:
            return peer.get("dag") == self.dag
        return peer.get("dag") is None and peer["site"] == self.site

    def shadows(self, peer: dict[str, Any] | None) -> bool:
        """Whether a peer is a server of the boundary that keeps copies: a mailbox server of 2013 or later."""
        return peer is not None and peer["role"] == "mailbox" and peer["generation"] != "ex2010" and self.inside(peer)


def _time(name: str, value: Any, or_none: bool = False) -> float:
    right = isinstance(value, int | float) and not isinstance(value, bool) and (value > 0 or (or_none and value == 0))
    if not right:
        raise Refused(f"{name}: {value!r} is not a number of seconds above 0")
    return float(value)


def read(path: Path) -> Config:
    """Read the file. Raises Refused."""
    try:
        return Config(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
