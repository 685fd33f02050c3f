"""The published JSON Schemas, by name: what `conformance schema` prints and `docs/schema/` has."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from conformance import PROJECT_URL
from conformance.candidates.description import Candidate
from conformance.nodes.document import InspectDocument, NodeDocument
from conformance.scenarios.schema import scenario_schema, topology_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = MappingProxyType(
    {
        "scenario": scenario_schema,
        "topology": topology_schema,
        "candidate": Candidate.model_json_schema,
        "node": NodeDocument.model_json_schema,
        "inspect": InspectDocument.model_json_schema,
    }
)

NAMES = tuple(_SCHEMAS)


def published_schema(name: str) -> dict[str, Any]:
    """Return a schema of `NAMES` with its dialect and its address (`$id`). Raises KeyError for another name."""
    return {"$schema": DIALECT, "$id": f"{PROJECT_URL}schema/{name}.json", **_SCHEMAS[name]()}
