"""What a text in a step or an expectation stands for: a name that is looked up, a name that the step gives, or free text.

Each type says it once, where the field is declared; the checks of names and the reference derive from it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from conformance.scenarios.values import Label, OneOrMore


@dataclass(frozen=True, slots=True)
class RefersTo:
    """Marks a text that is a name of this kind (`conformance.scenarios.name_checks.names_of_topology`), or free where there is none."""

    kind: str | None


@dataclass(frozen=True, slots=True)
class DefinesName:
    """Marks a name of this kind that a step gives, for later steps to use."""

    kind: str


Text = Annotated[str, RefersTo(None)]
"""Text of the scenario's own: an address, a reply."""
Texts = Annotated[OneOrMore, RefersTo(None)]

Message = Annotated[str, RefersTo("message")]
MessageOrConversation = Annotated[str, RefersTo("message or conversation")]
MessageFixture = Annotated[str, RefersTo("message fixture")]
Server = Annotated[str, RefersTo("server")]
Servers = Annotated[OneOrMore, RefersTo("server")]
ServersOrAll = Annotated[OneOrMore, RefersTo("server or all")]
Sender = Annotated[str, RefersTo("sender")]
Party = Annotated[str, RefersTo("party")]
Parties = Annotated[OneOrMore, RefersTo("party")]
PartyOrAny = Annotated[str, RefersTo("party or *")]
Sink = Annotated[str, RefersTo("sink")]
Hop = Annotated[str, RefersTo("hop")]
Site = Annotated[str, RefersTo("site")]
Sites = Annotated[OneOrMore, RefersTo("site")]
Database = Annotated[str, RefersTo("database")]
Mailboxes = Annotated[OneOrMore, RefersTo("mailbox")]
Requirement = Annotated[str, RefersTo("requirement")]
Place = Annotated[str, RefersTo("place")]
PlaceOrContent = Annotated[str, RefersTo("place or content")]
StepLabel = Annotated[Label, RefersTo("label")]
Conversation = Annotated[Label, RefersTo("conversation")]
FaultInForce = Annotated[str, RefersTo("fault")]


@cache
def referenced_names(model: type[BaseModel]) -> dict[str, str]:
    """Return which fields of a model (as written, a dot for what is nested) hold a name of what kind."""
    return {key: mark.kind for key, mark in _marks(model) if isinstance(mark, RefersTo) and mark.kind is not None}


@cache
def defined_name(model: type[BaseModel]) -> tuple[str, str, object] | None:
    """Return field, kind and default of the name that a step of this model gives; None where it gives none."""
    for key, mark in _marks(model):
        if isinstance(mark, DefinesName):
            (default,) = (one.default for name, one in model.model_fields.items() if (one.alias or name) == key)
            return key, mark.kind, default
    return None


def require_name_types(model: type[BaseModel]) -> None:
    """Raise TypeError when a text of a model says neither what kind of name it is, nor that it is free."""
    for key, mark in _marks(model):
        if mark is None:
            raise TypeError(f"{model.__name__}: `{key}` is a text; give it a type of conformance.scenarios.name_types")


def _marks(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, RefersTo | DefinesName | None]]:
    for name, field in model.model_fields.items():
        yield from _marks_in(field.annotation, tuple(field.metadata), prefix + (field.alias or name))


def _marks_in(annotation: Any, about: tuple[Any, ...], key: str) -> Iterator[tuple[str, RefersTo | DefinesName | None]]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from _marks_in(inner, (*more, *about), key)
    elif annotation is str:
        yield key, next((mark for mark in about if isinstance(mark, RefersTo | DefinesName)), None)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _marks(annotation, key + ".")
    elif not (isinstance(origin, type) and issubclass(origin, Mapping)):
        for argument in get_args(annotation):
            yield from _marks_in(argument, about, key)
