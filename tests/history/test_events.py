"""Every kind of event can be written without what it does not know, and read again."""

from types import NoneType
from typing import get_args

import pytest

from conformance.history.events import AnyEvent, Event

KINDS = [kind for kind in get_args(get_args(AnyEvent)[0]) if issubclass(kind, Event)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_may_be_unknown_may_be_left_out(kind: type[Event]):
    """A run's file leaves out what is None: a field that may be None and must stand there could not be read again."""
    nullable = {name: field for name, field in kind.model_fields.items() if NoneType in get_args(field.annotation)}
    assert [name for name, field in nullable.items() if field.is_required()] == []
