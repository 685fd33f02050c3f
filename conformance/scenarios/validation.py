"""Validate a node against a pydantic model, and translate pydantic's errors into messages with their place in the file.

A *node* is a value of the YAML file with its place, `mark` (line and column): a scalar, a list (`items`) or a mapping
(`entries`; of an entry, `key` is the place of its key). `report` collects problems.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from conformance.scenarios.errors import Mark, ProblemReport, did_you_mean, short_repr
from conformance.scenarios.values import LABEL_PATTERN
from conformance.scenarios.yaml_nodes import Node

Model = TypeVar("Model", bound=BaseModel)

_EXPECTED_TYPES = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "yes or no",
    "bool_parsing": "yes or no",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "nothing (null)",
}


def validate(model: type[Model], node: Node, report: ProblemReport) -> Model | None:
    """Return a node's data as an instance of a model; None after reporting everything that is wrong with it."""
    try:
        return model.model_validate(node.data())
    except ValidationError as error:
        for mark, message in _messages(error.errors(include_url=False), node, model):
            report.add(mark, message)
        return None


def _messages(errors: list[ErrorDetails], root: Node, model: type[BaseModel]) -> Iterator[tuple[Mark, str]]:
    """Yield place and message of each error; errors of a union's members about one value become one message.

    `root` is the node that was validated. An error's location, `loc`, is pydantic's path of keys, indexes and union
    members. Where one member of a union fits the value except for something inside it, the errors of other members are
    left out.
    """
    paths = [_document_path(root, error) for error in errors]
    located = [
        (*_locate(root, error), error)
        for path, error in zip(paths, errors, strict=True)
        if not (_expected(error) and any(_is_within(other, path) for other in paths))
    ]
    for _, group in groupby(located, key=lambda place: place[0]):
        expected: list[str] = []
        hint = ""
        errors_here = list(group)
        mark, actual, *_ = errors_here[0]
        for _, _, node, error in errors_here:
            match error["type"]:
                case "too_short" if len(node.items) >= error["ctx"]["min_length"]:
                    continue  # the list is long enough, but for wrong items, which have errors of their own
                case "extra_forbidden":
                    key = str(error["loc"][-1])
                    yield _unknown_key(node, key, _models_at(model, error["loc"][:-1]))
                case "missing":
                    yield mark, f"the key {str(error['loc'][-1])!r} is missing"
                case "value_error":
                    yield mark, str(error["ctx"]["error"])
                case _ if what := _expected(error):
                    expected.append(what)
                    hint = hint or _hint(error)
                case _:
                    yield mark, f"{error['msg']}, not {short_repr(error['input'])}"
        if expected:
            yield mark, f"expected {' or '.join(dict.fromkeys(expected))}, not {actual}{hint}"


def _document_path(root: Node, error: ErrorDetails) -> tuple[int | str, ...]:
    """Return an error's location without the parts that are not in the document, such as names of union members.

    The path of a missing key ends with '', as something within its mapping.
    """
    node, path = root, list[int | str]()
    for part in error["loc"]:
        if isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        elif isinstance(part, str) and part in node.entries:
            node = node.entries[part].node
        else:
            continue
        path.append(part)
    return (*path, "") if error["type"] == "missing" else tuple(path)


def _is_within(path: tuple[int | str, ...], value: tuple[int | str, ...]) -> bool:
    """Return whether a path leads to something inside a value, not to the value itself.

    An error at such a path shows that one member of a union fits the value, except for something inside it.
    """
    return len(path) > len(value) and path[: len(value)] == value


def _expected(error: ErrorDetails) -> str | None:
    """Return what was expected in place of a value, for a message `expected ...`; None for errors of other kinds."""
    context = error.get("ctx", {})
    match error["type"]:
        case "literal_error" | "enum":
            *most, last = sorted(re.findall(r"'[^']*'|\S+", context["expected"].replace(" or ", " ").replace(",", "")))
            return f"{', '.join(most)} or {last}" if most else last
        case "greater_than_equal":
            return f"a number of at least {context['ge']}"
        case "less_than_equal":
            return f"a number of at most {context['le']}"
        case "string_pattern_mismatch":
            is_label = context["pattern"] == LABEL_PATTERN
            return "lower case letters, digits and hyphens" if is_label else f"a text like {context['pattern']}"
        case "string_too_short":
            return f"a text of at least {context['min_length']} characters"
        case "string_too_long":
            return f"a text of at most {context['max_length']} characters"
        case "too_short":
            return f"at least {context['min_length']} of them"
        case "too_long":
            return f"at most {context['max_length']} of them"
        case kind:
            return _EXPECTED_TYPES.get(kind)


def _hint(error: ErrorDetails) -> str:
    """Return ` (did you mean 'x'?)` where one of the permitted words is similar to the one that was written, else ''."""
    if error["type"] not in ("literal_error", "enum") or not isinstance(error["input"], str):
        return ""
    return did_you_mean(error["input"], re.findall(r"'([^']*)'", error["ctx"]["expected"]))


def _describe(node: Node) -> str:
    """Return a node's value for a message: 'a mapping', 'nothing', or the scalar itself."""
    if isinstance(node.value, dict):
        return "a mapping" if node.value else "an empty mapping"
    if isinstance(node.value, tuple):
        return "a list" if node.value else "an empty list"
    return "nothing" if node.value is None else short_repr(node.value)


def _locate(root: Node, error: ErrorDetails) -> tuple[Mark, str, Node]:
    """Return the place that an error is about, a description of what stands there, and its node.

    For an unknown or missing key that is its mapping; for a key that is wrong itself, the place and text of the key. Parts of
    the location that are not in the document are skipped.
    """
    loc = error["loc"]
    # pydantic adds "[key]" where a mapping's key is wrong, not its value.
    of_key = bool(loc) and loc[-1] == "[key]"
    node, key = root, root.mark
    for part in loc[:-1] if error["type"] in ("extra_forbidden", "missing") else loc:
        if isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        elif isinstance(part, str) and part in node.entries:
            key, node = node.entries[part].key, node.entries[part].node
    return (key, short_repr(loc[-2]), node) if of_key else (node.mark, _describe(node), node)


def _unknown_key(node: Node, key: str, models: list[type[BaseModel]]) -> tuple[Mark, str]:
    """Return place and message for a key of a mapping that none of the models has."""
    names = {field.alias or name for model in models for name, field in model.model_fields.items()}
    entry = node.entries.get(key)
    return (entry.key if entry else node.mark), f"unknown key {short_repr(key)}{did_you_mean(key, names)}"


def _models_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[type[BaseModel]]:
    """Return the models that the value at a location below a model may have; several where a field is a union."""
    models = [model]
    for part in loc:
        fields = [
            field
            for candidate in models
            for name, field in candidate.model_fields.items()
            if isinstance(part, str) and part in (field.alias, name)
        ]
        if fields:
            models = [inner for field in fields for inner in _models_in(field.annotation)]
    return models


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type annotation, such as the members of a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
