"""Types for the text fields of steps and expectations: a reference to a name, the definition of a name, or free text.

A field's type declares which. The checks of names (`name_checks`) and the reference in docs/writing-scenarios.md derive from it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from conformance.scenarios.values import Label, OneOrMore


@dataclass(frozen=True, slots=True)
class RefersTo:
    """Annotates a text that refers to a name of a kind, such as 'server'; None: free text.

    The kinds are those of `name_checks.names_of_topology` and of names that earlier steps define.
    """

    kind: str | None


@dataclass(frozen=True, slots=True)
class DefinesName:
    """Annotates a text by which a step defines a name of a kind, for later steps to refer to."""

    kind: str


Text = Annotated[str, RefersTo(None)]
"""Free text: an address, a reply."""
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
Databases = Annotated[OneOrMore, RefersTo("database")]
Mailboxes = Annotated[OneOrMore, RefersTo("mailbox")]
Requirement = Annotated[str, RefersTo("requirement")]
Place = Annotated[str, RefersTo("place")]
PlaceOrContent = Annotated[str, RefersTo("place or content")]
StepLabel = Annotated[Label, RefersTo("label")]
Conversation = Annotated[Label, RefersTo("conversation")]
FaultInForce = Annotated[str, RefersTo("fault")]


@cache
def referenced_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the fields of a model that refer to a name, with the kind of name; nested fields as `field.inner`.

    Fields have the names that they have in YAML, their aliases.
    """
    return {key: mark.kind for key, mark in _text_fields(model) if isinstance(mark, RefersTo) and mark.kind is not None}


@cache
def defined_name(model: type[BaseModel]) -> tuple[str, str, object] | None:
    """Return field, kind and default of the name that a step of a model defines; None where it defines none.

    The default of a field that is required is pydantic's `PydanticUndefined`.
    """
    for key, mark in _text_fields(model):
        if isinstance(mark, DefinesName):
            (default,) = (f.default for name, f in model.model_fields.items() if (f.alias or name) == key)
            return key, mark.kind, default
    return None


def require_name_types(model: type[BaseModel]) -> None:
    """Raise TypeError when a text field of a model has no type of this module."""
    for key, mark in _text_fields(model):
        if mark is None:
            raise TypeError(f"{model.__name__}: `{key}` is a text; give it a type of conformance.scenarios.name_types")


def _text_fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, RefersTo | DefinesName | None]]:
    """Yield the path of each text field of a model, nested ones too, with its RefersTo or DefinesName; None where it has neither.

    A path has the fields' names in YAML, such as `field.inner`, after `prefix`.
    """
    for name, field in model.model_fields.items():
        yield from _texts_in(field.annotation, tuple(field.metadata), prefix + (field.alias or name))


def _texts_in(
    annotation: Any, metadata: tuple[Any, ...], key: str
) -> Iterator[tuple[str, RefersTo | DefinesName | None]]:
    """Yield what `_text_fields` does for a field with this type annotation and metadata; nothing for a mapping.

    Of a union or a tuple each member counts. `metadata` are the annotations around the type, the inner ones first.
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from _texts_in(inner, (*more, *metadata), key)
    elif annotation is str:
        yield key, next((mark for mark in metadata if isinstance(mark, RefersTo | DefinesName)), None)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _text_fields(annotation, key + ".")
    elif not (isinstance(origin, type) and issubclass(origin, Mapping)):
        for argument in get_args(annotation):
            yield from _texts_in(argument, metadata, key)
