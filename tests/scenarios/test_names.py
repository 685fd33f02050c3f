"""Each text field of a step or expectation declares which kind of name it holds, or that it is free text."""

from typing import Annotated

import pytest
from pydantic import BaseModel

from conformance import paths
from conformance.scenarios.expectations import EXPECTATIONS, Expectation, expectation
from conformance.scenarios.fixtures import load_topology
from conformance.scenarios.name_checks import names_of_topology
from conformance.scenarios.name_types import (
    DefinesName,
    Message,
    Servers,
    Text,
    defined_name,
    referenced_names,
    require_name_types,
)
from conformance.scenarios.steps import ACTIONS
from conformance.scenarios.steps.action import Action, step
from conformance.scenarios.values import Label, OneOrMore


def test_a_text_field_without_a_kind_of_name_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Bare: `to` is a text; give it a type of conformance\.scenarios\.name_types"):

        @expectation("bare")
        class Bare(Expectation):
            of: Message
            to: OneOrMore | None = None

    with pytest.raises(TypeError, match="Unnamed: `said` is a text"):

        @step("unnamed")
        class Unnamed(Action):
            said: str

    with pytest.raises(TypeError, match=r"Outermost: `lines\.said` is a text"):

        @step("outermost")
        class Outermost(Action):
            lines: tuple[Line, ...]

    assert "bare" not in EXPECTATIONS
    assert {"unnamed", "outermost"}.isdisjoint(ACTIONS)
    for named in (Inner, Outer):  # each text has a kind of name
        require_name_types(named)


class Line(BaseModel):
    said: str


class Inner(Expectation):
    at: Text
    on: Servers = ()


class Outer(Expectation):
    name: Annotated[Label, DefinesName("message")] = "m"
    of: tuple[Message, ...] | None = None
    inner: tuple[Inner, ...] = ()


def test_names_are_found_in_nested_models() -> None:
    own = {key: kind for key, kind in referenced_names(Outer).items() if key in ("of", "inner.on", "inner.at", "name")}
    assert own == {"of": "message", "inner.on": "server"}
    assert defined_name(Outer) == ("name", "message", "m")
    assert defined_name(Inner) is None


def test_every_kind_of_name_is_known() -> None:
    topology = load_topology(paths.fixtures() / "topologies" / "two-servers-one-dag.yaml")
    kinds = {kind for model in (*EXPECTATIONS.values(), *ACTIONS.values()) for kind in referenced_names(model).values()}
    given = {"message", "message or conversation", "conversation", "fault", "label"}
    assert given < kinds <= set(names_of_topology(topology, (), ())) | given
