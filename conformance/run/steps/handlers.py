"""The registry of handlers: the function that performs the steps of each verb, registered by the model of the step.

The runner of steps (`conformance.run.step_runner`) finds a handler by its verb. The *model* of a step is the class of its
action in `conformance.scenarios.steps`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from conformance.registry import Registry
from conformance.run.world import World
from conformance.scenarios.steps.action import ACTIONS, Action

A = TypeVar("A", bound=Action)
Handler = Callable[[World, A], Awaitable[str]]
"""Performs a step in a world; returns the detail to record with its end, or ""."""

HANDLERS: Registry[Handler[Any]] = Registry("function for the step")


def handles(*models: type[A]) -> Callable[[Handler[A]], Handler[A]]:
    """Return a decorator that registers a function as the handler of the steps of these models, and returns it unchanged."""
    return HANDLERS.register(*map(ACTIONS.name_of, models))
