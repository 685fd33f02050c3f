"""The node's file (node contract, "The file"), checked against its published schema: `conformance schema node`."""

import json
import math
from pathlib import Path
from typing import Any

SCHEMA = json.loads(Path(__file__).with_name("node.schema.json").read_text("utf-8"))
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


class Refused(Exception):
    """The file cannot be used; the text is one line that names the parameter."""


def _filled(where: str, value: Any, schema: dict[str, Any], scale: float) -> Any:
    """Return a value with defaults for its missing parts; default times are divided by `scale`. Raises Refused."""
    schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if "anyOf" in schema:  # this, or null
        return None if value is None else _filled(where, value, schema["anyOf"][0], scale)
    right = isinstance(value, TYPES[schema["type"]]) and isinstance(value, bool) == (schema["type"] == "boolean")
    right = right and value in schema.get("enum", [schema.get("const", value)])
    if right and schema["type"] in ("integer", "number"):
        right = schema.get("minimum", value) <= value <= schema.get("maximum", value)
        right = right and value > schema.get("exclusiveMinimum", value - 1) and math.isfinite(value)
    if not right:
        raise Refused(f"{where[1:]}: {value!r} is not as the node contract has it")
    if isinstance(value, list):
        items = schema.get("prefixItems") or [schema["items"]] * len(value)
        if len(items) != len(value):
            raise Refused(f"{where[1:]}: {value!r} is not as the node contract has it")
        return [_filled(f"{where}[{at}]", *pair, scale) for at, pair in enumerate(zip(value, items, strict=True))]
    if not isinstance(value, dict):
        return value
    items = schema.get("properties") or dict.fromkeys(value, schema["additionalProperties"])
    for key in [key for key in (*value, *schema.get("required", [])) if key not in value or key not in items]:
        raise Refused(f"{where}.{key}"[1:] + (": missing" if key in items else ": unknown parameter"))
    for key, one in items.items():
        if key not in value and "default" in one:
            default = {} if "$ref" in one else one["default"]
            value = value | {key: default / scale if one.get("type") == "number" else default}
    return {key: _filled(f"{where}.{key}", one, items[key], scale) for key, one in value.items()}


class Config:
    """The whole file: its keys are attributes, and transport parameters are items."""

    def __init__(self, given: Any) -> None:
        """Check the whole document and keep it. Raises Refused."""
        scale = _filled("", given, SCHEMA, 1)["scale"]
        if given["role"] == "edge":
            limits = {"connection_timeout": 300 / scale, "connection_inactivity_timeout": 60 / scale}
            given = given | {"listeners": {name: limits | one for name, one in given["listeners"].items()}}
        vars(self).update(_filled("", given, SCHEMA, scale))
        self.peers = {peer["name"].lower(): peer for peer in self.peers}
        self.routes = {route["domain"].lower(): route["next_hops"] for route in self.routes}
        self.mailboxes = {box["address"].lower(): box for box in self.mailboxes}
        self.domains = {address.rpartition("@")[2] for address in self.mailboxes}
        for name, one in self.listeners.items():
            if one["connection_timeout"] <= one["connection_inactivity_timeout"]:
                raise Refused(f"listeners.{name}: connection_timeout must be above connection_inactivity_timeout")
        if self["ShadowMessagePreferenceSetting"] == "LocalOnly" and self["MaxRetriesForRemoteSiteShadow"] > 0:
            raise Refused("transport: ShadowMessagePreferenceSetting LocalOnly needs MaxRetriesForRemoteSiteShadow 0")

    def __getitem__(self, parameter: str) -> Any:
        return self.transport[parameter]

    @property
    def tracking_window(self) -> float:
        """Return how long a delivery is remembered; a parameter above 49 days means 24 hours."""
        window, day = self["DuplicateTrackingWindow"], 86400 / self.scale
        return day if window > 49 * day else window

    def shadows(self, peer: dict[str, Any]) -> bool:
        """Return whether a peer may keep copies for this node: a mailbox server of 2013 or later in its DAG, or in its site without DAGs."""
        able = peer and peer["role"] == "mailbox" and peer["generation"] != "ex2010"
        return bool(able) and peer["dag"] == self.dag and (self.dag is not None or peer["site"] == self.site)


def load(path: Path) -> Any:
    """Read and parse the file without checking its content. Raises Refused."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
