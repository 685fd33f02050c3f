"""The tables that say which fields hold names: complete, and each of them checked."""

from collections.abc import Mapping
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from conformance.scenarios.expectations import VERBS
from conformance.scenarios.names import EXPECTED_FIELDS, FIELDS
from conformance.scenarios.steps.table import ACTIONS

FREE = {
    "send": {"as", "from", "to", "headers", "notify", "envid"},
    "submit": {"as", "from", "to", "headers", "notify", "envid"},
    "talk": {"as", "lines.say", "lines.octets", "lines.enhanced", "lines.has", "lines.lacks", "lines.where"},
    "fault": {"as", "reply"},
    "partition": {"as"},
    "disk": {"as"},
    "answer": {"reply", "recipient"},
    "configure": {"transport", "listeners", "unknown"},
    "reply": {"enhanced", "text"},
    "delivered": {"to"},
    "route": {"to"},
    "advertised": {"keyword"},
    "issued": {"verb"},
    "closed": {"enhanced"},
    "report": {"to"},
    "journaled": {"to"},
    "refused": {"names"},
}
"""Fields that hold text of the scenario's own: addresses, replies, names that the step itself gives."""


OF_EXPECTATIONS = {"where"}
"""The same, of every expectation."""


def texts(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Return the fields of a model that take any text, as files write them."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        inner = [one for one in _inside(field.annotation) if isinstance(one, type)]
        if str in inner:
            found.add(key)
        for one in inner:
            if issubclass(one, BaseModel):
                found |= texts(one, key + ".")
    return found


def _inside(annotation: Any) -> list[Any]:
    arguments = get_args(annotation)
    return [inner for argument in arguments for inner in _inside(argument)] if arguments else [annotation]


@pytest.mark.parametrize(
    ("models", "tables"), [(ACTIONS, FIELDS), (VERBS, EXPECTED_FIELDS)], ids=["steps", "expectations"]
)
def test_every_text_is_a_name_of_a_kind_or_free(
    models: Mapping[str, type[BaseModel]], tables: Mapping[str, Mapping[str, str]]
) -> None:
    for verb, model in models.items():
        named, free = set(tables.get(verb, {})), FREE.get(verb, set()) | OF_EXPECTATIONS & set(model.model_fields)
        assert texts(model) == named | free, verb
        assert not named & free, verb
    assert set(tables) <= set(models)
