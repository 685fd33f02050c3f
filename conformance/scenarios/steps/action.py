"""The base class of step models, and the registry of their verbs.

A step is a mapping of one verb to its fields, with an optional `label` next to the verb. Some verbs have a short form:
`kill: mbx1` for `kill: {node: mbx1}`, `advance: 2m` for `advance: {by: 2m}`.
"""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from conformance.registry import Registry
from conformance.scenarios.name_types import require_name_types


class Action(BaseModel):
    """The model of a step verb. `short` names the field that a bare value in place of the mapping stands for."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    short: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {cls.short: value} if cls.short and not isinstance(value, dict) else value


ACTIONS: Registry[type[Action]] = Registry("step", require_name_types)
"""Verb -> model. `expect`, `parallel` and `repeat` are not here: conformance.scenarios.step_parser parses them."""

step = ACTIONS.register
