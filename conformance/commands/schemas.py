"""The published JSON Schemas, by name: what `conformance schema` prints and `docs/schema/` has.

The scenario and topology schemas are made by `conformance.scenarios.schema`, the others by pydantic from the models of
descriptions, of a node's configuration, and of what a node prints when it is inspected.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from conformance import PROJECT_URL, paths
from conformance.candidates.description import Candidate
from conformance.nodes.document import InspectDocument, NodeDocument
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.fixtures import fixture_names
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


def scenario_schema_with_names() -> dict[str, Any]:
    """Return the schema of scenarios with the names that this installation has: topologies, requirements and messages.

    It has no `$id`, since it is made for one workspace and differs between versions.
    """
    names = {
        "topology": fixture_names(paths.fixtures() / "topologies"),
        "message fixture": fixture_names(paths.fixtures() / "messages"),
        "requirement": sorted(catalogue().ids),
    }
    return {"$schema": DIALECT, **scenario_schema(names)}


def published_schema(name: str) -> dict[str, Any]:
    """Return a schema of `NAMES` with its dialect and its address (`$id`). Raises KeyError for another name."""
    return {"$schema": DIALECT, "$id": f"{PROJECT_URL}schema/{name}.json", **_SCHEMAS[name]()}
