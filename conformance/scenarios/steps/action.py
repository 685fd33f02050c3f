"""How a step is written, whatever its verb, and the register of all verbs.

A step is a mapping of one verb to its fields, with an optional `label` beside the verb. Several verbs take a short
form: `kill: mbx1` for `kill: {node: mbx1}`, `advance: 2m` for `advance: {by: 2m}`.
"""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from conformance.registry import Registry
from conformance.scenarios.name_types import require_name_types


class Action(BaseModel):
    """What all step verbs share. `short` names the field that a bare value stands for."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    short: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {cls.short: value} if cls.short and not isinstance(value, dict) else value


ACTIONS: Registry[type[Action]] = Registry("step", require_name_types)
"""Verb -> model. `expect`, `parallel` and `repeat` hold other verbs: they are read by conformance.scenarios.step_parser."""

step = ACTIONS.register
