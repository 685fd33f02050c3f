"""Reads the steps of a scenario: from nodes, with every axis bound, to the models of their verbs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.scenarios.errors import ProblemReport, did_you_mean, short_repr
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.matrix import Point, matches_condition
from conformance.scenarios.steps import ACTIONS
from conformance.scenarios.steps.blocks import Expect, Parallel, Repeat, Step
from conformance.scenarios.validation import validate
from conformance.scenarios.values import LABEL_PATTERN
from conformance.scenarios.yaml_nodes import Entry, Node

BLOCKS = ("parallel", "repeat")
STEP_VERBS = (*ACTIONS, "expect", *BLOCKS)
"""Every verb that a step can have."""
BESIDE = ("label", "when")
"""What may stand beside the verb."""


@dataclass(frozen=True, slots=True)
class ParsedStep:
    """A step, and the node under its verb (under the expectation's verb, for an `expect`), axes bound.

    `step` is None where the step is wrong; its names can still be checked.
    """

    step: Step | None
    verb: str
    node: Node
    label: Node | None = None
    inner: "tuple[ParsedStep, ...]" = ()
    expectation: str | None = None


def parse_step(node: Node, path: str, point: Point, report: ProblemReport) -> ParsedStep | None:
    """Read one step at a point of the matrix. None where the point has no such step, or where it has no verb."""
    if (when := node.get("when")) is not None and not matches_condition(when, point):
        return None
    found = _verb(node, report)
    if found is None:
        return None
    verb, entry = found
    label = node.get("label")
    text = _label(label, report) if label else None
    if verb == "expect":
        if label:
            report.add(node.entries["label"].key, "an expectation has no label; put it on the step whose time counts")
        return _expect(entry, path, report)
    if verb in BLOCKS:
        return _block(verb, entry, path, text, label, point, report)
    action = validate(ACTIONS[verb], entry.node, report)
    step = Step(path=path, line=entry.key.line, verb=verb, label=text, action=action) if action else None
    return ParsedStep(step, verb, entry.node, label)


def _label(node: Node, report: ProblemReport) -> str | None:
    if isinstance(node.value, str) and re.fullmatch(LABEL_PATTERN, node.value):
        return node.value
    report.add(node.mark, f"{short_repr(node.value)} is no label: lower case letters, digits and hyphens")
    return None


def _verb(node: Node, report: ProblemReport) -> tuple[str, Entry] | None:
    if not node.entries:
        report.add(node.mark, "a step is a mapping with one verb, like `- advance: 2m`")
        return None
    verbs = [key for key in node.entries if key in STEP_VERBS]
    for key, entry in node.entries.items():
        if key not in STEP_VERBS and key not in BESIDE:
            kind = "unknown key beside the verb:" if verbs else "unknown verb"
            report.add(entry.key, f"{kind} {short_repr(key)}{did_you_mean(key, (*STEP_VERBS, *BESIDE))}")
    if len(verbs) > 1:
        report.add(node.entries[verbs[1]].key, f"two verbs in one step: {verbs[0]} and {verbs[1]}")
    elif not verbs and all(key in BESIDE for key in node.entries):
        report.add(node.mark, "this step has no verb")
    return (verbs[0], node.entries[verbs[0]]) if verbs else None


def _expect(under: Entry, path: str, report: ProblemReport) -> ParsedStep | None:
    entries = under.node.entries
    if len(entries) != 1:
        report.add(under.node.mark, "`expect` takes one expectation, like `{reply: {of: m, code: 250}}`")
        return None
    ((verb, entry),) = entries.items()
    if verb not in EXPECTATIONS:
        report.add(entry.key, f"unknown expectation {short_repr(verb)}{did_you_mean(verb, EXPECTATIONS)}")
        return None
    expectation = validate(EXPECTATIONS[verb], entry.node, report)
    if expectation is None:
        return ParsedStep(None, "expect", entry.node, expectation=verb)
    if expectation.within is not None and expectation.after is not None and expectation.after > expectation.within:
        report.add(entry.node.mark, "`after` is later than `within`: this can never hold")
    action = Expect(verb=verb, expectation=expectation)
    step = Step(path=path, line=entry.key.line, verb="expect", action=action)
    return ParsedStep(step, "expect", entry.node, expectation=verb)


def _block(
    verb: str, entry: Entry, path: str, label: str | None, label_node: Node | None, point: Point, report: ProblemReport
) -> ParsedStep | None:
    """Read `parallel: [...]`, `parallel: {steps: [...]}` or `repeat: {times: n, steps: [...]}`."""
    steps = entry.node if verb == "parallel" and entry.node.items else entry.node.get("steps")
    if steps is None or not steps.items:
        report.add(entry.node.mark, f"`{verb}` takes `steps`, a list of at least one")
        return None
    inner = parse_steps(steps, f"{path}.", point, report)
    model = Parallel if verb == "parallel" else Repeat
    frame = {key: e for key, e in entry.node.entries.items() if key != "steps"}
    frame["steps"] = Entry(steps.mark, Node(steps.mark, ()))
    action = validate(model, Node(entry.node.mark, frame), report)
    whole = [read.step for read in inner if read.step]
    step = None
    if action is not None and len(whole) == len(inner):
        action = action.model_copy(update={"steps": tuple(whole)})
        step = Step(path=path, line=entry.key.line, verb=verb, label=label, action=action)
    return ParsedStep(step, verb, entry.node, label_node, inner)


def parse_steps(node: Node, prefix: str, point: Point, report: ProblemReport) -> tuple[ParsedStep, ...]:
    """Read a list of steps; the path of the n-th is `prefix` and n, whether or not the point has the ones before it."""
    read = (parse_step(item, f"{prefix}{n}", point, report) for n, item in enumerate(node.items, start=1))
    return tuple(step for step in read if step is not None)


def when_nodes(steps: Node) -> Iterator[Node]:
    """Yield the `when` of each step, those in blocks too."""
    for step in steps.items:
        yield from when_nodes_of_step(step)


def when_nodes_of_step(step: Node) -> Iterator[Node]:
    """Yield the `when` of a step, and of those inside it."""
    if (when := step.get("when")) is not None:
        yield when
    for block in BLOCKS:
        under = step.get(block)
        if under is not None:
            yield from when_nodes(under if under.items else under.get("steps") or Node(under.mark, ()))
