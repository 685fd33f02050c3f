"""What a text in a step or an expectation stands for: a name that is looked up, a name that the step gives, or free text.

Each type says it once, where the field is declared; the checks of names and the reference derive from it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from conformance.scenarios.values import Label, Names


@dataclass(frozen=True, slots=True)
class Of:
    """Marks a text that is a name of this kind (`conformance.scenarios.names.world_of`), or free where there is none."""

    kind: str | None


@dataclass(frozen=True, slots=True)
class Gives:
    """Marks a name of this kind that a step gives, for later steps to use."""

    kind: str


Text = Annotated[str, Of(None)]
"""Text of the scenario's own: an address, a reply."""
Texts = Annotated[Names, Of(None)]

Message = Annotated[str, Of("message")]
MessageOrConversation = Annotated[str, Of("message or conversation")]
MessageFixture = Annotated[str, Of("message fixture")]
Server = Annotated[str, Of("server")]
Servers = Annotated[Names, Of("server")]
ServersOrAll = Annotated[Names, Of("server or all")]
Sender = Annotated[str, Of("sender")]
Party = Annotated[str, Of("party")]
Parties = Annotated[Names, Of("party")]
PartyOrAny = Annotated[str, Of("party or *")]
Sink = Annotated[str, Of("sink")]
Hop = Annotated[str, Of("hop")]
Site = Annotated[str, Of("site")]
Sites = Annotated[Names, Of("site")]
Database = Annotated[str, Of("database")]
Mailboxes = Annotated[Names, Of("mailbox")]
Requirement = Annotated[str, Of("requirement")]
Place = Annotated[str, Of("place")]
PlaceOrContent = Annotated[str, Of("place or content")]
StepLabel = Annotated[Label, Of("label")]
Conversation = Annotated[Label, Of("conversation")]
FaultInForce = Annotated[str, Of("fault")]


@cache
def names_held(model: type[BaseModel]) -> dict[str, str]:
    """Return which fields of a model (as written, a dot for what is nested) hold a name of what kind."""
    return {key: mark.kind for key, mark in _marks(model) if isinstance(mark, Of) and mark.kind is not None}


@cache
def name_given(model: type[BaseModel]) -> tuple[str, str, object] | None:
    """Return field, kind and default of the name that a step of this model gives; None where it gives none."""
    for key, mark in _marks(model):
        if isinstance(mark, Gives):
            (default,) = (one.default for name, one in model.model_fields.items() if (one.alias or name) == key)
            return key, mark.kind, default
    return None


def check_marks(model: type[BaseModel]) -> None:
    """Raise TypeError when a text of a model says neither what kind of name it is, nor that it is free."""
    for key, mark in _marks(model):
        if mark is None:
            raise TypeError(f"{model.__name__}: `{key}` is a text; give it a type of conformance.scenarios.named")


def _marks(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Of | Gives | None]]:
    for name, field in model.model_fields.items():
        yield from _marks_in(field.annotation, tuple(field.metadata), prefix + (field.alias or name))


def _marks_in(annotation: Any, about: tuple[Any, ...], key: str) -> Iterator[tuple[str, Of | Gives | None]]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from _marks_in(inner, (*more, *about), key)
    elif annotation is str:
        yield key, next((mark for mark in about if isinstance(mark, Of | Gives)), None)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _marks(annotation, key + ".")
    elif not (isinstance(origin, type) and issubclass(origin, Mapping)):
        for argument in get_args(annotation):
            yield from _marks_in(argument, about, key)
