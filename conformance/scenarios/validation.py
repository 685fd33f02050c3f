"""Checks a node against a pydantic model, and tells what is wrong in the language's own words, at its place."""

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

_EXPECTED = {
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
    """Return the model of what a node says, or None after everything that is wrong with it was reported."""
    try:
        return model.model_validate(node.data())
    except ValidationError as error:
        for mark, message in _told(error.errors(include_url=False), node, model):
            report.add(mark, message)
        return None


def _told(errors: list[ErrorDetails], root: Node, model: type[BaseModel]) -> Iterator[tuple[Mark, str]]:
    """Yield place and message of each error; what the members of a union say of one value becomes one message."""
    paths = [_path(root, error) for error in errors]
    located = [
        (*_place(root, error), error)
        for path, error in zip(paths, errors, strict=True)
        if not (_expectation(error) and any(_is_within(other, path) for other in paths))
    ]
    for _, group in groupby(located, key=lambda place: place[0]):
        expected: list[str] = []
        hint = ""
        errors_here = list(group)
        mark, said, *_ = errors_here[0]
        for _, _, node, error in errors_here:
            match error["type"]:
                case "too_short" if len(node.items) >= error["ctx"]["min_length"]:
                    continue  # the list is long enough: its wrong items were left out, and are told themselves
                case "extra_forbidden":
                    key = str(error["loc"][-1])
                    yield _unknown_key(node, key, _models_at(model, error["loc"][:-1]))
                case "missing":
                    yield mark, f"the key {str(error['loc'][-1])!r} is missing"
                case "value_error":
                    yield mark, str(error["ctx"]["error"])
                case _ if what := _expectation(error):
                    expected.append(what)
                    hint = hint or _hint(error)
                case _:
                    yield mark, f"{error['msg']}, not {short_repr(error['input'])}"
        if expected:
            yield mark, f"expected {' or '.join(dict.fromkeys(expected))}, not {said}{hint}"


def _path(root: Node, error: ErrorDetails) -> tuple[int | str, ...]:
    """Return the location of an error as far as the document has it; an unknown or missing key is within its mapping."""
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
    """Whether a member of a union has read a value, and found something wrong in it: then no other member is meant."""
    return len(path) > len(value) and path[: len(value)] == value


def _expectation(error: ErrorDetails) -> str | None:
    """Return what was expected, where the error says just that."""
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
            named = context["pattern"] == LABEL_PATTERN
            return "lower case letters, digits and hyphens" if named else f"a text like {context['pattern']}"
        case "string_too_short":
            return f"a text of at least {context['min_length']} characters"
        case "string_too_long":
            return f"a text of at most {context['max_length']} characters"
        case "too_short":
            return f"at least {context['min_length']} of them"
        case "too_long":
            return f"at most {context['max_length']} of them"
        case kind:
            return _EXPECTED.get(kind)


def _hint(error: ErrorDetails) -> str:
    """Return which of the words that may stand here is like the one that does."""
    if error["type"] not in ("literal_error", "enum") or not isinstance(error["input"], str):
        return ""
    return did_you_mean(error["input"], re.findall(r"'([^']*)'", error["ctx"]["expected"]))


def _said(node: Node) -> str:
    if isinstance(node.value, dict):
        return "a mapping" if node.value else "an empty mapping"
    if isinstance(node.value, tuple):
        return "a list" if node.value else "an empty list"
    return "nothing" if node.value is None else short_repr(node.value)


def _place(root: Node, error: ErrorDetails) -> tuple[Mark, str, Node]:
    """Return the place that an error is about, what is said there, and its node.

    The location also holds names of union members and the like, which are no part of the document: those are passed
    over.
    """
    loc = error["loc"]
    of_key = bool(loc) and loc[-1] == "[key]"
    node, key = root, root.mark
    for part in loc[:-1] if error["type"] in ("extra_forbidden", "missing") else loc:
        if isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        elif isinstance(part, str) and part in node.entries:
            key, node = node.entries[part].key, node.entries[part].node
    return (key, short_repr(loc[-2]), node) if of_key else (node.mark, _said(node), node)


def _unknown_key(node: Node, key: str, models: list[type[BaseModel]]) -> tuple[Mark, str]:
    names = {field.alias or name for one in models for name, field in one.model_fields.items()}
    entry = node.entries.get(key)
    return (entry.key if entry else node.mark), f"unknown key {short_repr(key)}{did_you_mean(key, names)}"


def _models_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[type[BaseModel]]:
    """Return the models that may stand at a location below a model."""
    models = [model]
    for part in loc:
        fields = [
            field
            for one in models
            for name, field in one.model_fields.items()
            if isinstance(part, str) and part in (field.alias, name)
        ]
        if fields:
            models = [inner for field in fields for inner in _models_in(field.annotation)]
    return models


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
