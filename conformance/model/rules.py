"""The registry of the model's rules: each is one function, registered with the requirements that it judges.

A rule is named `model.<row id>` after its first requirement. The rules of version 0.1.0 keep their published names
(`invariant.<name>`): baselines, waivers and Spark's queries use these. Modules of `conformance.model` use the two decorators when
they are imported; `conformance.judge.cell` then calls every rule of `RULES` once for a history, except those that the scenario
waives. A rule returns a `Finding`: how many occasions it had to fail, and the violations.
"""

from collections.abc import Callable
from dataclasses import dataclass

from conformance.model.facts import Facts
from conformance.registry import Registry
from conformance.trace.context import CheckContext
from conformance.trace.finding import Finding


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its check, and the requirements that it judges.

    A violation that names no requirement is blamed on the first of `requirements` that the scenario names, or the first of all
    where it names none. `timed` says whether the check compares times: then a late harness excuses its violations.
    """

    check: Callable[[Facts], Finding]
    requirements: tuple[str, ...]
    timed: bool


RULES: Registry[Rule] = Registry("rule of the model")
"""The rules by the names of their checks in verdicts."""


def rule(
    *requirements: str, timed: bool = True, published: str | None = None
) -> Callable[[Callable[[Facts], Finding]], Callable[[Facts], Finding]]:
    """Return a decorator that registers a function as the rule of these requirements and returns it unchanged.

    The rule's name is `model.` and the first requirement, or `invariant.` and `published` for a rule that had a name in version
    0.1.0. `timed` says whether the check compares times, so that a late harness excuses its violations. The decorator raises
    `RegistryError` where the name is taken.
    """

    def register(check: Callable[[Facts], Finding]) -> Callable[[Facts], Finding]:
        """Register `check` in `RULES` and return it unchanged."""
        name = f"model.{requirements[0]}" if published is None else f"invariant.{published}"
        RULES.add(name, Rule(check=check, requirements=requirements, timed=timed))
        return check

    return register


def invariant(
    name: str, *requirements: str, timed: bool = True
) -> Callable[[Callable[[CheckContext], Finding]], Callable[[CheckContext], Finding]]:
    """Return a decorator that registers a check of a `CheckContext` as the rule `invariant.<name>`, and returns it unchanged.

    The registered rule calls the check with `Facts.context`. `requirements` are the ids of what it judges; `timed` says whether it
    compares times, so that a late harness excuses its violations. The decorator raises `RegistryError` where the name is taken.
    """

    def register(check: Callable[[CheckContext], Finding]) -> Callable[[CheckContext], Finding]:
        """Register a rule that calls `check` with the context of the facts, and return `check` unchanged."""
        RULES.add(
            f"invariant.{name}", Rule(check=lambda facts: check(facts.context), requirements=requirements, timed=timed)
        )
        return check

    return register
