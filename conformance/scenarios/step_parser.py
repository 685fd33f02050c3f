"""Parse the steps of a scenario: from nodes, in which every `${axis}` is substituted, to the models of their verbs.

`when_nodes` and `when_nodes_of_step` read the file's own nodes, before that.
A *node* is a value of the YAML file with its place (line and column): a scalar, a list (`items`) or a mapping (`entries`). An
*entry* has the place of its key and the node of its value. `point` has the value of each axis in the cell that is being made;
`report` collects the problems. A *model* has a verb's fields: those of actions are in `ACTIONS`, of expectations in
`EXPECTATIONS`. A *block* is a step with other steps inside it (`parallel`, `repeat`). `when` is a step's condition on the values
of axes: the step exists at the points that fulfil it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.scenarios.errors import ProblemReport, did_you_mean, short_repr
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.matrix import Point, matches_condition
from conformance.scenarios.steps import ACTIONS
from conformance.scenarios.steps.action import Expect, Parallel, Repeat, Step
from conformance.scenarios.validation import validate
from conformance.scenarios.values import LABEL_PATTERN, MAX_LABEL
from conformance.scenarios.yaml_nodes import Entry, Node

BLOCKS = ("parallel", "repeat")
STEP_VERBS = (*ACTIONS, "expect", *BLOCKS)
"""Every verb that a step can have."""
STEP_KEYS = ("label", "when")
"""The keys that a step can have in addition to its verb."""


@dataclass(frozen=True, slots=True)
class ParsedStep:
    """A step with the nodes that it was parsed from, for the checks of names.

    `step` is None where the step has a problem. `verb` is one of `STEP_VERBS`. `node` is the value of the verb; of an
    `expect`, the value of the expectation's verb, which is `expectation`. `inner` are the steps of a block.
    """

    step: Step | None
    verb: str
    node: Node
    label: Node | None = None
    inner: "tuple[ParsedStep, ...]" = ()
    expectation: str | None = None


def parse_step(node: Node, path: str, point: Point, report: ProblemReport) -> ParsedStep | None:
    """Return a step at a point of the matrix; None where its `when` excludes the point, or it cannot be parsed at all.

    It cannot be parsed without a known verb, as a block without a list of steps, or as an `expect` without exactly one known
    expectation; that is reported. A step with wrong fields is reported and returned with `step` None. An unknown key, a second verb
    or a wrong label is reported, and the step is parsed without it. `path` is the step's number, `3.1` inside a block.
    """
    if (when := node.get("when")) is not None and not matches_condition(when, point):
        return None
    verb_entry = _find_verb(node, report)
    if verb_entry is None:
        return None
    verb, entry = verb_entry
    label = node.get("label")
    text = _parse_label(label, report) if label else None
    if verb == "expect":
        if label:
            report.add(node.entries["label"].key, "an expectation has no label; put it on the step whose time counts")
        return _parse_expect(entry, path, report)
    if verb in BLOCKS:
        return _parse_block(verb, entry, path, text, label, point, report)
    action = validate(ACTIONS[verb], entry.node, report)
    step = Step(path=path, line=entry.key.line, verb=verb, label=text, action=action) if action else None
    return ParsedStep(step, verb, node=entry.node, label=label)


def _parse_label(node: Node, report: ProblemReport) -> str | None:
    """Return a label; None after reporting that it is not a valid one."""
    if not isinstance(node.value, str) or not re.fullmatch(LABEL_PATTERN, node.value):
        report.add(node.mark, f"{short_repr(node.value)} is not a valid label: lower case letters, digits and hyphens")
        return None
    if len(node.value) > MAX_LABEL:
        report.add(node.mark, f"{short_repr(node.value)} is not a valid label: at most {MAX_LABEL} characters")
        return None
    return node.value


def _find_verb(node: Node, report: ProblemReport) -> tuple[str, Entry] | None:
    """Return a step's verb and its entry, of two verbs the first; None after reporting that it has no known verb.

    Reported are also a second verb, and each key that is neither a verb nor one of `STEP_KEYS`.
    """
    if not node.entries:
        report.add(node.mark, "a step is a mapping with one verb, like `- advance: 2m`")
        return None
    verbs = [key for key in node.entries if key in STEP_VERBS]
    for key, entry in node.entries.items():
        if key not in STEP_VERBS and key not in STEP_KEYS:
            kind = "unknown key beside the verb:" if verbs else "unknown verb"
            report.add(entry.key, f"{kind} {short_repr(key)}{did_you_mean(key, (*STEP_VERBS, *STEP_KEYS))}")
    if len(verbs) > 1:
        report.add(node.entries[verbs[1]].key, f"two verbs in one step: {verbs[0]} and {verbs[1]}")
    elif not verbs and all(key in STEP_KEYS for key in node.entries):
        report.add(node.mark, "this step has no verb")
    return (verbs[0], node.entries[verbs[0]]) if verbs else None


def _parse_expect(expect: Entry, path: str, report: ProblemReport) -> ParsedStep | None:
    """Return the step of `expect`, an entry; None after reporting that it does not have exactly one known expectation.

    Where the fields of the expectation are wrong, which is reported too, the result has the `step` None. An `after` later than
    `within` is reported, and the step is returned with both.
    """
    entries = expect.node.entries
    if len(entries) != 1:
        report.add(expect.node.mark, "`expect` takes one expectation, like `{reply: {of: m, code: 250}}`")
        return None
    ((verb, entry),) = entries.items()
    if verb not in EXPECTATIONS:
        report.add(entry.key, f"unknown expectation {short_repr(verb)}{did_you_mean(verb, EXPECTATIONS)}")
        return None
    expectation = validate(EXPECTATIONS[verb], entry.node, report)
    if expectation is None:
        return ParsedStep(None, "expect", node=entry.node, expectation=verb)
    if expectation.within is not None and expectation.after is not None and expectation.after > expectation.within:
        report.add(entry.node.mark, "`after` is later than `within`: this can never hold")
    action = Expect(verb=verb, expectation=expectation)
    step = Step(path=path, line=entry.key.line, verb="expect", action=action)
    return ParsedStep(step, "expect", node=entry.node, expectation=verb)


def _parse_block(
    verb: str, entry: Entry, path: str, label: str | None, label_node: Node | None, point: Point, report: ProblemReport
) -> ParsedStep | None:
    """Return the step of `parallel: [...]`, `parallel: {steps: [...]}` or `repeat: {times: n, steps: [...]}`.

    None after reporting that it has no list of steps. Where a field of the block or of an inner step is wrong, the result has the
    `step` None. Inner steps that `parse_steps` leaves out do not count. `label` is the text of `label_node`.
    """
    steps = entry.node if verb == "parallel" and entry.node.items else entry.node.get("steps")
    if steps is None or not steps.items:
        report.add(entry.node.mark, f"`{verb}` takes `steps`, a list of at least one")
        return None
    inner = parse_steps(steps, f"{path}.", point, report)
    model = Parallel if verb == "parallel" else Repeat
    # The block's own fields are validated without its steps, which are parsed already.
    without_steps = {**entry.node.entries, "steps": Entry(steps.mark, Node(steps.mark, ()))}
    action = validate(model, Node(entry.node.mark, without_steps), report)
    valid = [parsed.step for parsed in inner if parsed.step]
    step = None
    if action is not None and len(valid) == len(inner):
        action = action.model_copy(update={"steps": tuple(valid)})
        step = Step(path=path, line=entry.key.line, verb=verb, label=label, action=action)
    return ParsedStep(step, verb, node=entry.node, label=label_node, inner=inner)


def parse_steps(node: Node, prefix: str, point: Point, report: ProblemReport) -> tuple[ParsedStep, ...]:
    """Return the steps of a list, without those that do not exist at a point or cannot be parsed at all (which is reported).

    The path of the n-th node of the list is `prefix` and n, from 1.
    """
    parsed = (parse_step(item, f"{prefix}{n}", point, report) for n, item in enumerate(node.items, start=1))
    return tuple(step for step in parsed if step is not None)


def when_nodes(steps: Node) -> Iterator[Node]:
    """Yield the `when` of each step in a list, including those inside blocks."""
    for step in steps.items:
        yield from when_nodes_of_step(step)


def when_nodes_of_step(step: Node) -> Iterator[Node]:
    """Yield the `when` of a step, and of each step inside it."""
    if (when := step.get("when")) is not None:
        yield when
    for block in BLOCKS:
        body = step.get(block)
        if body is not None:
            yield from when_nodes(body if body.items else body.get("steps") or Node(body.mark, ()))
