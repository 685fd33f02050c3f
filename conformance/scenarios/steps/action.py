"""How a step is written, whatever its verb, and the register of all verbs.

A step is a mapping of one verb to its fields, with an optional `label` beside the verb. Several verbs take a short
form: `kill: mbx1` for `kill: {node: mbx1}`, `advance: 2m` for `advance: {by: 2m}`.
"""

from collections.abc import Callable
from typing import ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator

from conformance.counterparts import Register
from conformance.scenarios.named import check_marks


class Action(BaseModel):
    """What all step verbs share. `NAME` is the verb, `short` names the field that a bare value stands for."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    NAME: ClassVar[str] = ""
    short: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {cls.short: value} if cls.short and not isinstance(value, dict) else value


A = TypeVar("A", bound=Action)

ACTIONS: Register[type[Action]] = Register("step")
"""Verb -> model. `expect`, `parallel` and `repeat` hold other verbs: they are read by conformance.scenarios.script."""


def step(verb: str) -> Callable[[type[A]], type[A]]:
    """Declare a model as that of a step verb."""

    def declare(model: type[A]) -> type[A]:
        check_marks(model)
        model.NAME = verb
        ACTIONS.add(verb, model)
        return model

    return declare
