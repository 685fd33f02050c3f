"""The base class of step models with the registry of their verbs, and the verbs that contain other steps or an expectation.

A step is a mapping of one verb to its fields, with an optional `label` next to the verb. Some verbs have a short form:
`kill: mbx1` for `kill: {node: mbx1}`, `advance: 2m` for `advance: {by: 2m}`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from conformance.registry import Registry
from conformance.scenarios.expectations import Expectation
from conformance.scenarios.name_types import require_name_types


class Action(BaseModel):
    """The model of a step verb. `short` names the field that a bare value in place of the mapping stands for."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    short: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        """Return the mapping that a bare value stands for, where the verb has a short form; any other value unchanged."""
        return {cls.short: value} if cls.short and not isinstance(value, dict) else value


ACTIONS: Registry[type[Action]] = Registry("step", require_name_types)
"""Verb -> model. `expect`, `parallel` and `repeat` are not here: conformance.scenarios.step_parser parses them."""

step = ACTIONS.register


class Step(BaseModel):
    """A parsed step."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    path: str = Field(description="`2`, or `3.1` inside a block")
    line: int = Field(description="line in the file, 1-based")
    verb: str
    label: str | None = None
    action: Any = Field(description="the model of the verb: an Action")


class Expect(Action):
    """Check an expectation; `verb` is that of the expectation."""

    verb: str
    expectation: Expectation


class Parallel(Action):
    """Do steps at the same time; the block ends when all of them have ended."""

    short = "steps"
    steps: tuple[Step, ...]


class Repeat(Action):
    """Do steps one after another, `times` times."""

    times: int = Field(ge=1, le=100_000)
    steps: tuple[Step, ...]


def flattened(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield all steps in order, a block before those inside it; those of a `repeat` once."""
    for step in steps:
        yield step
        if isinstance(step.action, Parallel | Repeat):
            yield from flattened(step.action.steps)
