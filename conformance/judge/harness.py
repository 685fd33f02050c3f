"""What keeps a cell from proving anything: a fault that never fired, a moment that never came, a node that did not do
what a step asked of it or died unasked."""

from collections.abc import Iterator, Sequence

from conformance.history.events import CommandRun, FaultFired, NodeEvent
from conformance.judge.telling import plain
from conformance.judge.trace import Trace
from conformance.judge.verdicts import Outcome, Verdict
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.blocks import Step
from conformance.scenarios.steps.breaking import Disk, Fault
from conformance.scenarios.steps.nodes import Moment, NodeAction


def obstacles(cell: Cell, steps: Sequence[Step], trace: Trace, *, complete: bool) -> Iterator[Verdict]:
    """Yield a verdict for each obstacle. Of a history that was cut short, what did not happen is no obstacle."""
    if complete:
        yield from _occasions(cell, steps, trace)
    yield from _nodes(cell, trace)


def _occasions(cell: Cell, steps: Sequence[Step], trace: Trace) -> Iterator[Verdict]:
    """Yield a verdict for each fault that never fired, and each moment of an action on nodes that never came."""
    fired = {event.fault for event in trace.of(FaultFired)}
    for step in steps:
        match step.action:
            case Fault() | Disk() as fault if not fault.may_not_fire and fault.name not in fired:
                sentence = f"the fault {fault.name!r} never fired: there was no occasion to judge"
                yield plain("harness.fault-fired", Outcome.INCONCLUSIVE, cell.requirements, sentence, step)
            case NodeAction(at=Moment(may_not_come=False)) as action if action.occasion not in fired:
                sentence = f"the moment of {action.occasion!r} never came: there was no occasion to judge"
                yield plain("harness.fault-fired", Outcome.INCONCLUSIVE, cell.requirements, sentence, step)


def _nodes(cell: Cell, trace: Trace) -> Iterator[Verdict]:
    for event in trace.of(NodeEvent):
        if event.action == "exited":
            sentence = f"{event.node} died unasked: {event.detail}; see its log"
            yield plain("harness.node-alive", Outcome.INCONCLUSIVE, cell.requirements, sentence, evidence=(event.n,))
        elif event.action in ("failed", "refused"):
            sentence = f"{event.node} could not be started: {event.detail}; see its log"
            yield plain("harness.node-alive", Outcome.INCONCLUSIVE, cell.requirements, sentence, evidence=(event.n,))
    for command in trace.of(CommandRun):
        if command.failed is not None:
            sentence = f"{command.node} did not do {' '.join((command.command, *command.arguments))}: {command.failed}"
            yield plain("harness.node-did", Outcome.INCONCLUSIVE, cell.requirements, sentence, evidence=(command.n,))
