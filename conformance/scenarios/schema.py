"""Generate the JSON Schemas of scenario and topology files, for editors, from the models.

The schemas allow no unknown keys. They check less than the loader: not the values that `${axis}` stands for, and names only
where they are passed in.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from conformance.invariants import INVARIANTS
from conformance.scenarios.document import NEEDS, Document
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.name_types import referenced_names
from conformance.scenarios.step_parser import BLOCKS
from conformance.scenarios.steps import ACTIONS
from conformance.topology import Topology

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_RULE_OF_THE_MODEL = r"^model\.[A-Z0-9]+-[A-Z0-9]+-[0-9]+$"

_AXIS: Schema = {"$ref": "#/$defs/axis"}
_STEPS: Schema = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}}


def scenario_schema(names: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Schema:
    """Return the schema of one document of a `*.scenario.yaml` file.

    `names` has the values to enumerate, which editors then offer: of the kinds `topology`, `requirement` and `message fixture`. A
    kind that is missing may have any name.
    """
    models: set[type[BaseModel]] = {Document, Topology, *ACTIONS.values(), *EXPECTATIONS.values()}
    definitions = _definitions(sorted(models, key=lambda model: model.__name__), with_axes=True)
    _enumerate_names(models, definitions, names)
    document = definitions.pop("Document")
    document["properties"] |= {
        "topology": {
            "description": document["properties"]["topology"]["description"],
            "anyOf": [
                *([{"enum": list(names["topology"])}, _AXIS] if "topology" in names else [{"type": "string"}]),
                _ref(Topology),
            ],
        },
        "requirements": document["properties"]["requirements"]
        | {"items": {"enum": list(names["requirement"])} if "requirement" in names else {"type": "string"}},
        "axes": {
            "description": "the dimensions of the matrix: a name, and the values that `${name}` stands for",
            "type": "object",
            "propertyNames": {"pattern": "^[a-z][a-z0-9-]*$"},
            "additionalProperties": {"type": "array", "minItems": 1},
        },
        "needs": document["properties"]["needs"] | {"items": {"enum": list(NEEDS)}},
        "waive": document["properties"]["waive"]
        | {"propertyNames": {"anyOf": [{"enum": list(INVARIANTS)}, {"pattern": _RULE_OF_THE_MODEL}]}},
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
    others: Schema = {
        "label": {"type": "string", "description": "a name for the step, which `since` refers to"},
        "when": {"type": "object", "description": "axis values (one or a list) at which the step exists"},
    }
    definitions["step"] = _one_of(steps, others)
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


def _enumerate_names(
    models: set[type[BaseModel]], definitions: dict[str, Schema], names: Mapping[str, Sequence[str]]
) -> None:
    """Restrict each text in the schemas of models that refers to a name to the `names` of its kind; a kind without names stays free.

    `definitions`, the schemas by class name, is changed in place. Fields of models inside other models, such as the lines of a
    `talk`, are left as they are.
    """
    for model in models:
        for field, kind in referenced_names(model).items():
            properties = definitions[model.__name__].get("properties", {})
            if kind in names and field in properties:
                members = properties[field]["anyOf"]
                properties[field]["anyOf"] = [
                    {"enum": list(names[kind])} if member.get("type") == "string" else member for member in members
                ]


def _definitions(models: list[type[BaseModel]], *, with_axes: bool) -> dict[str, Schema]:
    """Return the schemas of models and of the models in their fields, by class name.

    `with_axes`: a field's value may be `${axis}` as well; the fields of Document are left as they are.
    """
    _, whole = models_json_schema([(model, "validation") for model in models], by_alias=True)
    definitions: dict[str, Schema] = whole["$defs"]
    for name, definition in definitions.items():
        if name == "Document":
            continue
        for key, schema in definition.get("properties", {}).items():
            definition["properties"][key] = _field_schema(schema, with_axes=with_axes)
    if "Copies" in definitions:  # a range of numbers, which may be written as one number
        definitions["Copies"] = {"anyOf": [{"type": "integer", "minimum": 0}, definitions["Copies"]]}
    return definitions


def _field_schema(schema: Schema, *, with_axes: bool) -> Schema:
    """Return a field's schema that also allows `yes` and `no` for booleans, and with `with_axes` `${axis}` for any value."""
    annotations: Schema = {key: schema[key] for key in schema if key in ("description", "default")}
    value = _allow_yes_no({key: value for key, value in schema.items() if key not in (*annotations, "title")})
    return {**annotations, **(_or_axis(value) if value and with_axes else value)}


def _allow_yes_no(schema: Schema) -> Schema:
    """Return a schema with `yes` and `no` allowed for booleans, in members of unions too, and with enums sorted."""
    if "enum" in schema:
        return {**schema, "enum": sorted(schema["enum"], key=str)}
    if schema.get("type") == "boolean":
        return {"anyOf": [{"type": "boolean"}, {"enum": ["yes", "no"]}]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [_allow_yes_no(member) for member in schema["anyOf"]]}
    return schema


def _or_axis(schema: Schema) -> Schema:
    """Return a schema that also allows `${axis}`."""
    return {"anyOf": [*schema["anyOf"], _AXIS]} if set(schema) == {"anyOf"} else {"anyOf": [schema, _AXIS]}


def _with_short_form(model: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a verb: a mapping of its fields, and with a short form also the bare value of one field.

    `model.short` names that field, None without a short form. `definitions` are the schemas of models by class name.
    """
    if model.short is None:
        return _ref(model)
    short = definitions[model.__name__]["properties"][model.short]
    return {"anyOf": [_ref(model), {key: value for key, value in short.items() if key != "description"}]}


def _ref(model: type[BaseModel]) -> Schema:
    """Return a reference to a model's definition."""
    return {"$ref": f"#/$defs/{model.__name__}"}


def _closed(properties: Schema, required: list[str]) -> Schema:
    """Return the schema of a mapping with these keys and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _one_of(verbs: dict[str, Schema], others: Schema) -> Schema:
    """Return the schema of a mapping with exactly one of the verbs, and optionally the keys of `others`."""
    return {**_closed({**verbs, **others}, []), "oneOf": [{"required": [verb]} for verb in verbs]}
