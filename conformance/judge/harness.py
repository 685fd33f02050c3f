"""What keeps a cell from proving anything: a fault that never fired, a moment that never came, a node that did not do
what a step asked of it or died unasked."""

from collections.abc import Iterator, Sequence

from conformance.history.events import Attempt, CommandRun, FaultFired, NodeEvent
from conformance.judge.finding import Case
from conformance.judge.rows import binding
from conformance.judge.telling import inconclusive, plain
from conformance.scenarios.steps.blocks import Step
from conformance.scenarios.steps.breaking import Disk, Fault
from conformance.scenarios.steps.nodes import Moment, NodeAction
from conformance.verdicts import Outcome, Reason, Verdict


def obstacles(case: Case, steps: Sequence[Step], *, complete: bool) -> Iterator[Verdict]:
    """Yield a verdict for each obstacle. Of a history that was cut short, what did not happen is no obstacle."""
    if complete:
        yield from _occasions(case, steps)
    yield from _nodes(case)
    yield from _sendings(case)


def _occasions(case: Case, steps: Sequence[Step]) -> Iterator[Verdict]:
    """Yield a verdict for each fault that never fired, and each moment of an action on nodes that never came."""
    rows = binding(case.cell.requirements, case.claims)
    fired = {event.fault for event in case.trace.of(FaultFired)}
    for step in steps:
        match step.action:
            case Fault() | Disk() as fault if not fault.may_not_fire and fault.name not in fired:
                sentence = f"the fault {fault.name!r} never fired: there was no occasion to judge"
                yield inconclusive("harness.fault-fired", Reason.NO_OCCASION, rows, sentence, step)
            case NodeAction(at=Moment(may_not_come=False)) as action if action.occasion not in fired:
                sentence = f"the moment of {action.occasion!r} never came: there was no occasion to judge"
                yield inconclusive("harness.fault-fired", Reason.NO_OCCASION, rows, sentence, step)


def _sendings(case: Case) -> Iterator[Verdict]:
    """Yield a verdict for each message that passed its link with other octets than the scenario means.

    What a fault did to a session is meant. Without this, an attack that the harness defuses by itself proves nothing.
    """
    rows, trace = binding(case.cell.requirements, case.claims), case.trace
    broken = {event.session for event in trace.of(FaultFired)}
    for attempt in trace.of(Attempt):
        passed = [sent for sent in trace.transactions_of(attempt.message) if sent.session == attempt.session]
        meant = trace.messages[attempt.message].digest.sha256
        seen = [sent.digest.sha256 for sent in passed if sent.digest is not None]
        if seen and meant not in seen and attempt.session not in broken:
            sentence = (
                f"{attempt.message} passed the link to {attempt.server} with other octets than the scenario means"
            )
            evidence = (passed[0].dot or passed[0].n, attempt.n)
            yield plain("harness.sent-as-meant", Outcome.ERROR, rows, sentence, evidence=evidence)


def _nodes(case: Case) -> Iterator[Verdict]:
    rows, trace = binding(case.cell.requirements, case.claims), case.trace
    for event in trace.of(NodeEvent):
        if event.action == "exited":
            sentence = f"{event.node} died unasked: {event.detail}; see its log"
            yield inconclusive("harness.node-alive", Reason.NODE, rows, sentence, evidence=(event.n,))
        elif event.action in ("failed", "refused"):
            sentence = f"{event.node} could not be started: {event.detail}; see its log"
            yield inconclusive("harness.node-alive", Reason.NODE, rows, sentence, evidence=(event.n,))
    for command in trace.of(CommandRun):
        if command.failed is not None:
            sentence = f"{command.node} did not do {' '.join((command.command, *command.arguments))}: {command.failed}"
            yield inconclusive("harness.node-did", Reason.NODE, rows, sentence, evidence=(command.n,))
