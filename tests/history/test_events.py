"""Every field of an event, or of a value in it, that may be None has that default: what lacks it can be read again."""

from dataclasses import Field, fields
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

from conformance.history import values
from conformance.history.events import AnyEvent, Event, Reply
from conformance.history.values import RecordedValue

KINDS = [kind for kind in get_args(get_args(AnyEvent)[0]) if issubclass(kind, Event)]
VALUES = [
    value
    for value in vars(values).values()
    if isinstance(value, type) and issubclass(value, RecordedValue) and value is not RecordedValue
]


def nullable_fields(kind: type[RecordedValue]) -> "list[Field[Any]]":
    """Return the fields of a kind of event, or of value in one, that may be None."""
    hints = get_type_hints(kind)
    return [field for field in fields(kind) if NoneType in get_args(hints[field.name])]


@pytest.mark.parametrize("kind", [*KINDS, *VALUES], ids=lambda kind: kind.__name__)
def test_nullable_fields_are_none_by_default(kind: type[RecordedValue]):
    """A run's file leaves out what is None: without this default the field could not be read again, or as something else."""
    assert {"enhanced", "recipient", "operation"} <= {field.name for field in nullable_fields(Reply)}, "they are found"
    assert {value.__name__ for value in VALUES} >= {"Digest", "Operation", "TalkExchange"}
    assert [field.name for field in nullable_fields(kind) if field.default is not None] == []
