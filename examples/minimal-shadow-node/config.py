"""The node's file (node contract, "The file"), checked against its published schema: `conformance schema node`."""

import json
from pathlib import Path
from typing import Any

SCHEMA = json.loads(Path(__file__).with_name("node.schema.json").read_text("utf-8"))
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


class Refused(Exception):
    """The file cannot be used; the text is one line that names the parameter."""


def _filled(where: str, value: Any, schema: dict[str, Any], scale: float) -> Any:
    """Return a value with the defaults of what it leaves out, their times divided by `scale`. Raises Refused."""
    schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if "anyOf" in schema:  # this, or null
        return None if value is None else _filled(where, value, schema["anyOf"][0], scale)
    right = isinstance(value, TYPES[schema["type"]]) and isinstance(value, bool) == (schema["type"] == "boolean")
    right = right and value in schema.get("enum", [schema.get("const", value)])
    if right and schema["type"] in ("integer", "number"):
        right = schema.get("minimum", value) <= value <= schema.get("maximum", value)
        right = right and value > schema.get("exclusiveMinimum", value - 1)
    if not right:
        raise Refused(f"{where[1:]}: {value!r} is not as the node contract has it")
    if isinstance(value, list):
        items = schema.get("prefixItems") or [schema["items"]] * len(value)
        return [_filled(f"{where}[{at}]", *pair, scale) for at, pair in enumerate(zip(value, items, strict=True))]
    if isinstance(value, dict):
        items = schema.get("properties") or dict.fromkeys(value, schema["additionalProperties"])
        for key in {*value, *schema.get("required", [])} - (value.keys() & items.keys()):
            raise Refused(f"{where}.{key}"[1:] + (": missing" if key in items else ": unknown parameter"))
        for key, one in items.items():
            if key not in value and "default" in one:
                default = {} if "$ref" in one else one["default"]
                value = value | {key: default / scale if one.get("type") == "number" else default}
        return {key: _filled(f"{where}.{key}", one, items[key], scale) for key, one in value.items()}
    return value


class Config:
    """The whole file, looked up by what the node asks; transport parameters are its items."""

    def __init__(self, given: dict[str, Any]) -> None:
        """Check everything. Raises Refused."""
        self.scale = _filled(".scale", given.get("scale", 1), SCHEMA["properties"]["scale"], 1)
        if given.get("role") == "edge":
            limits = {"connection_timeout": 300 / self.scale, "connection_inactivity_timeout": 60 / self.scale}
            given = given | {"listeners": {name: limits | one for name, one in given["listeners"].items()}}
        file = _filled("", given, SCHEMA, self.scale)
        self.revision, self.status_file, self.data_dir = (
            file["revision"],
            Path(file["status_file"]),
            Path(file["data_dir"]),
        )
        self.name, self.site, self.dag, self.seed = file["name"], file["site"], file["dag"], file["seed"]
        self.fixed = [file[key] for key in ("name", "generation", "role", "site", "dag", "data_dir")]
        self.listeners, self._transport = file["listeners"], file["transport"]
        self.peers = {peer["name"].lower(): peer for peer in file["peers"]}
        self.hubs = {site["name"] for site in file["sites"] if site["hub"]}
        self.links = [(*link["between"], link["cost"]) for link in file["site_links"]]
        self.routes = {route["domain"].lower(): route["next_hops"] for route in file["routes"]}
        self.mailboxes = {box["address"].lower(): box for box in file["mailboxes"]}
        self.domains = {address.rpartition("@")[2] for address in self.mailboxes}
        for name, one in self.listeners.items():
            if one["connection_timeout"] <= one["connection_inactivity_timeout"]:
                raise Refused(f"listeners.{name}: connection_timeout must be above connection_inactivity_timeout")
        if self["ShadowMessagePreferenceSetting"] == "LocalOnly" and self["MaxRetriesForRemoteSiteShadow"] > 0:
            raise Refused("transport: ShadowMessagePreferenceSetting LocalOnly needs MaxRetriesForRemoteSiteShadow 0")

    def __getitem__(self, parameter: str) -> Any:
        """Return a transport parameter."""
        return self._transport[parameter]

    @property
    def tracking_window(self) -> float:
        """How long a delivery is remembered: above 49 days it is 24 hours."""
        window: float = self["DuplicateTrackingWindow"]
        return 86400 / self.scale if window > 49 * 86400 / self.scale else window

    def inside(self, peer: dict[str, Any]) -> bool:
        """Whether a peer is in this node's boundary: the DAG, or the site's servers in no DAG."""
        return bool(peer["dag"] == self.dag and (self.dag is not None or peer["site"] == self.site))

    def shadows(self, peer: dict[str, Any]) -> bool:
        """Whether a peer is a server of the boundary that keeps copies: a mailbox server of 2013 or later."""
        return bool(peer) and peer["role"] == "mailbox" and peer["generation"] != "ex2010" and self.inside(peer)


def read(path: Path) -> Config:
    """Read the file. Raises Refused."""
    try:
        return Config(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def revision(path: Path) -> int:
    """Return the revision of a file, whatever else is wrong in it; 0 where it has none."""
    try:
        return int(json.loads(path.read_text("utf-8"))["revision"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
