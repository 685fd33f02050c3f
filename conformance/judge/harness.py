"""Checks of the harness itself: what keeps a cell from proving anything about the servers under test.

Such an *obstacle* is a fault that never fired, a moment for a step that never came, a message that passed its link with
other octets than the scenario means, a node that exited, could not be started, or did not do what a step asked of it. The
judge (`conformance.judge.cell`) calls `find_obstacles` once for a history. The rows of these verdicts are those of the
scenario that bind the candidate (`applicable_rows`).
"""

from collections.abc import Iterator, Sequence

from conformance.history.events import Attempt, CommandRun, FaultFired, NodeEvent
from conformance.judge.blame import applicable_rows
from conformance.judge.verdict_builder import inconclusive_verdict, make_verdict
from conformance.scenarios.steps.action import Step
from conformance.scenarios.steps.breaking import Disk, Fault
from conformance.scenarios.steps.nodes import Moment, NodeAction
from conformance.trace.context import CheckContext
from conformance.verdicts import Outcome, Reason, Verdict


def find_obstacles(context: CheckContext, steps: Sequence[Step], *, complete: bool) -> Iterator[Verdict]:
    """Yield an inconclusive or error verdict for each obstacle; nothing in a cell without obstacles.

    `steps` are all of the scenario. In a history that is not `complete` what did not happen may have been cut off: that is no
    obstacle then.
    """
    if complete:
        yield from _find_missed_occasions(context, steps)
    yield from _find_node_failures(context)
    yield from _find_altered_transmissions(context)


def _find_missed_occasions(context: CheckContext, steps: Sequence[Step]) -> Iterator[Verdict]:
    """Yield a verdict for each fault that never fired, and for each moment of a step on nodes (`at`) that never came.

    `FaultFired` events have both, by the fault's name or the step's `occasion`. What the scenario says need not happen is
    left out. The verdicts are inconclusive.
    """
    rows = applicable_rows(context.cell.requirements, context.claims)
    fired = {event.fault for event in context.trace.events_of(FaultFired)}
    for step in steps:
        match step.action:
            case Fault() | Disk() as fault if not fault.may_not_fire and fault.name not in fired:
                sentence = f"the fault {fault.name!r} never fired: there was no occasion to judge"
                yield inconclusive_verdict("harness.fault-fired", Reason.NO_OCCASION, rows, sentence, step)
            case NodeAction(at=Moment(may_not_come=False)) as action if action.occasion not in fired:
                sentence = f"the moment of {action.occasion!r} never came: there was no occasion to judge"
                yield inconclusive_verdict("harness.fault-fired", Reason.NO_OCCASION, rows, sentence, step)


def _find_altered_transmissions(context: CheckContext) -> Iterator[Verdict]:
    """Yield an error for each attempt in which the harness sent a message with other octets than the scenario means.

    One transaction in the attempt's session with the right octets suffices. Sessions in which a fault fired are left out.
    Without this check an attack that the harness makes harmless by mistake would look like one that the server withstood.
    """
    rows, trace = applicable_rows(context.cell.requirements, context.claims), context.trace
    faulted = {event.session for event in trace.events_of(FaultFired)}
    for attempt in trace.events_of(Attempt):
        sent = [t for t in trace.transactions_of(attempt.message) if t.session == attempt.session]
        expected_hash = trace.messages[attempt.message].digest.sha256
        hashes = [t.digest.sha256 for t in sent if t.digest is not None]
        if hashes and expected_hash not in hashes and attempt.session not in faulted:
            sentence = (
                f"{attempt.message} passed the link to {attempt.server} with other octets than the scenario means"
            )
            evidence = (sent[0].dot_n or sent[0].n, attempt.n)
            yield make_verdict("harness.sent-as-meant", Outcome.ERROR, rows, sentence, evidence=evidence)


def _find_node_failures(context: CheckContext) -> Iterator[Verdict]:
    """Yield an inconclusive verdict for each exit of a node by itself, each failed start, and each command that failed.

    A start has failed too if the node refused its configuration.
    """
    rows, trace = applicable_rows(context.cell.requirements, context.claims), context.trace
    for event in trace.events_of(NodeEvent):
        if event.action == "exited":
            sentence = f"{event.node} exited unexpectedly: {event.detail}; see its log"
            yield inconclusive_verdict("harness.node-alive", Reason.NODE, rows, sentence, evidence=(event.n,))
        elif event.action in ("failed", "refused"):
            sentence = f"{event.node} could not be started: {event.detail}; see its log"
            yield inconclusive_verdict("harness.node-alive", Reason.NODE, rows, sentence, evidence=(event.n,))
    for command in trace.events_of(CommandRun):
        if command.failed is not None:  # its error message
            words = " ".join((command.command, *command.arguments))
            sentence = f"{command.node} did not do {words}: {command.failed}"
            yield inconclusive_verdict("harness.node-did", Reason.NODE, rows, sentence, evidence=(command.n,))
