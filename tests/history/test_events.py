"""Every field of an event that may be None has the default None, so that a written event that lacks it can be read again."""

from dataclasses import Field, fields
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest

from conformance.history.events import AnyEvent, Event, Reply

KINDS = [kind for kind in get_args(get_args(AnyEvent)[0]) if issubclass(kind, Event)]


def nullable_fields(kind: type[Event]) -> "list[Field[Any]]":
    """Return the fields of a kind of event that may be None."""
    hints = get_type_hints(kind)
    return [field for field in fields(kind) if NoneType in get_args(hints[field.name])]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nullable_fields_are_none_by_default(kind: type[Event]):
    """A run's file leaves out what is None: without this default the field could not be read again, or as something else."""
    assert {"enhanced", "recipient", "operation"} <= {field.name for field in nullable_fields(Reply)}, "they are found"
    assert [field.name for field in nullable_fields(kind) if field.default is not None] == []
