"""The register of what does steps: a function for each step verb, found by the model of what stands under the verb."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from conformance.registry import Registry
from conformance.run.world import World
from conformance.scenarios.steps.action import ACTIONS, Action

A = TypeVar("A", bound=Action)
Handler = Callable[[World, A], Awaitable[str]]
"""Does what a step says; returns what is worth noting about it."""

HANDLERS: Registry[Handler[Any]] = Registry("function for the step")


def handles(*models: type[A]) -> Callable[[Handler[A]], Handler[A]]:
    """Declare a function as what does the steps of these models."""
    return HANDLERS.declare(*map(ACTIONS.name_of, models))
