"""A parsed step with its place in the file, and the verbs that contain other steps or an expectation."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from conformance.scenarios.expectations import Expectation
from conformance.scenarios.steps.action import Action


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
    """Yield all steps in order, including those inside blocks."""
    for step in steps:
        yield step
        if isinstance(step.action, Parallel | Repeat):
            yield from flattened(step.action.steps)
