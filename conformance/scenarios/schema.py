"""JSON Schemas of scenario and topology files, for editors: made from the models, closed, with their descriptions.

A schema sees less than the loader: names, and what an axis stands for, only the loader can check.
"""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from conformance.invariants import INVARIANTS
from conformance.scenarios.document import NEEDS, Document
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.step_parser import BLOCKS
from conformance.scenarios.steps import ACTIONS
from conformance.topology import Topology

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_AXIS: Schema = {"$ref": "#/$defs/axis"}
_STEPS: Schema = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}}


def scenario_schema() -> Schema:
    """Return the schema of one document of a `*.scenario.yaml` file."""
    models: set[type[BaseModel]] = {Document, Topology, *ACTIONS.values(), *EXPECTATIONS.values()}
    definitions = _definitions(sorted(models, key=lambda model: model.__name__), with_axes=True)
    document = definitions.pop("Document")
    document["properties"] |= {
        "topology": {
            "description": document["properties"]["topology"]["description"],
            "anyOf": [{"type": "string"}, _ref(Topology)],
        },
        "axes": {
            "description": "the dimensions of the matrix: a name, and the values that `${name}` stands for",
            "type": "object",
            "propertyNames": {"pattern": "^[a-z][a-z0-9-]*$"},
            "additionalProperties": {"type": "array", "minItems": 1},
        },
        "needs": document["properties"]["needs"] | {"items": {"enum": list(NEEDS)}},
        "waive": document["properties"]["waive"] | {"propertyNames": {"enum": list(INVARIANTS)}},
        "steps": _STEPS,
    }
    steps = {
        **{verb: _with_short_form(model, definitions) for verb, model in ACTIONS.items()},
        "expect": _one_of({verb: _ref(model) for verb, model in EXPECTATIONS.items()}, {}),
        "parallel": {
            "description": "Do steps at the same time; the block ends when all have.",
            "anyOf": [_STEPS, _closed({"steps": _STEPS}, ["steps"])],
        },
        "repeat": _closed({"times": _or_axis({"type": "integer", "minimum": 1}), "steps": _STEPS}, ["times", "steps"]),
    }
    assert set(BLOCKS) <= set(steps)
    beside: Schema = {
        "label": {"type": "string", "description": "a name for the step, for `since`"},
        "when": {"type": "object", "description": "axis values (one or a list) at which the step exists"},
    }
    definitions["step"] = _one_of(steps, beside)
    definitions["axis"] = {"type": "string", "pattern": r"^\$\{[a-z][a-z0-9-]*\}$", "description": "an axis's value"}
    return {"$schema": DIALECT, **document, "title": "A scenario of the conformance harness", "$defs": definitions}


def topology_schema() -> Schema:
    """Return the schema of a file of fixtures/topologies."""
    definitions = _definitions([Topology], with_axes=False)
    return {
        "$schema": DIALECT,
        **definitions.pop("Topology"),
        "title": "A topology of the conformance harness",
        "$defs": definitions,
    }


def _definitions(models: list[type[BaseModel]], *, with_axes: bool) -> dict[str, Schema]:
    _, whole = models_json_schema([(model, "validation") for model in models], by_alias=True)
    definitions: dict[str, Schema] = whole["$defs"]
    for name, definition in definitions.items():
        if name == "Document":
            continue
        for key, schema in definition.get("properties", {}).items():
            definition["properties"][key] = _field(schema, with_axes=with_axes)
    if "Copies" in definitions:
        definitions["Copies"] = {"anyOf": [{"type": "integer", "minimum": 0}, definitions["Copies"]]}
    return definitions


def _field(schema: Schema, *, with_axes: bool) -> Schema:
    """Return a field's schema as YAML files write it: `yes` and `no`, and `${axis}` for any value."""
    told: Schema = {key: schema[key] for key in schema if key in ("description", "default")}
    rest = _lenient({key: value for key, value in schema.items() if key not in (*told, "title")})
    return {**told, **(_or_axis(rest) if rest and with_axes else rest)}


def _lenient(schema: Schema) -> Schema:
    if "enum" in schema:
        return {**schema, "enum": sorted(schema["enum"], key=str)}
    if schema.get("type") == "boolean":
        return {"anyOf": [{"type": "boolean"}, {"enum": ["yes", "no"]}]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [_lenient(member) for member in schema["anyOf"]]}
    return schema


def _or_axis(schema: Schema) -> Schema:
    return {"anyOf": [*schema["anyOf"], _AXIS]} if set(schema) == {"anyOf"} else {"anyOf": [schema, _AXIS]}


def _with_short_form(model: Any, definitions: dict[str, Schema]) -> Schema:
    """Return a verb's schema: its fields, or the bare value that stands for one of them."""
    if model.short is None:
        return _ref(model)
    short = definitions[model.__name__]["properties"][model.short]
    return {"anyOf": [_ref(model), {key: value for key, value in short.items() if key != "description"}]}


def _ref(model: type[BaseModel]) -> Schema:
    return {"$ref": f"#/$defs/{model.__name__}"}


def _closed(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _one_of(verbs: dict[str, Schema], beside: Schema) -> Schema:
    """Return the schema of a mapping with exactly one of the verbs, and what may stand beside it."""
    return {
        **_closed({**verbs, **beside}, []),
        "oneOf": [{"required": [verb]} for verb in verbs],
    }
