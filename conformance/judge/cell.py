"""Judges a cell from its recorded history alone: by its scenario's expectations, the model's rules, and checks of the harness.

Theory of operation
-------------------
A *cell* is one scenario with one value for each axis and one candidate for each server. An expectation is judged on the
history up to the event with which its step ended: what happened later neither fulfils nor violates it. Therefore
`judge_cell` adds the events one by one to a `Trace`, and calls the check of an expectation whenever such an event comes.
The rules of the model and the checks of the harness are judged once, on the whole history.

Each check returns a `Finding`; the bounds `after` and `within` of an expectation are compared with the times of its
confirmations. The finding becomes a verdict, blamed on a *row* (a requirement of the catalogue) as `blame` says. A
failure *explains* others when it says what was done instead of the right thing (`BlameRules.explaining_kinds`). Then
verdicts change for causes outside of the server (`adjustments`), and failures that may follow from another one are
moved to the end, since reports show the first. Times are documented seconds since the cell began; `context.slack` is by
how many seconds a time may miss a bound (the clock's tolerance).
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from conformance.clocks import CLOCKS
from conformance.history.events import AnyEvent, StepEvent, Talked
from conformance.invariants import is_waived
from conformance.judge.adjustments import (
    apply_should_level,
    excuse_late_bound,
    excuse_lateness,
    excuse_shortage,
    excuse_unacknowledged,
)
from conformance.judge.blame import applicable_rows
from conformance.judge.expectations import EXPECTATION_CHECKS
from conformance.judge.harness import find_obstacles
from conformance.judge.verdict_builder import build_verdict, inconclusive_verdict, make_verdict
from conformance.model import RULES
from conformance.model.facts import Facts
from conformance.requirements.consequences import independently_violated, root_violations
from conformance.scenarios.document import Cell
from conformance.scenarios.expectations import Expectation
from conformance.scenarios.steps.action import Expect, Step
from conformance.trace.context import CheckContext, ExpectationContext, is_generation_2010
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.trace import Trace
from conformance.verdicts import Outcome, Reason, Verdict, worst_in_cell
from conformance.verdicts.changes import Should


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """How the history was made, and how it is to be judged.

    `clock` is a name in `CLOCKS`, `tolerance` that clock's, in seconds. `claims` are the candidate's. `complete` is False
    when the history was cut short. `should` says whether a violated `should` row leaves a remark or fails.
    """

    clock: str
    tolerance: float
    claims: frozenset[str]
    complete: bool
    should: Should = "warn"


def judge_cell(cell: Cell, events: Sequence[AnyEvent], settings: JudgeSettings) -> tuple[Verdict, ...]:
    """Return the verdicts of all checks: expectations in their order, then the harness's own, then the model's rules.

    Failures that may follow from the violation of another row are moved after all other verdicts.
    """
    steps = cell.all_steps
    trace = Trace()
    judged = list(_judge_expectations(cell, steps, events, settings, trace))
    explaining_steps = {verdict.step for verdict, explains in judged if explains}
    verdicts = [verdict for verdict, _ in judged]
    context = CheckContext(cell=cell, trace=trace, tolerance=settings.tolerance, claims=settings.claims)
    verdicts += find_obstacles(context, steps, complete=settings.complete)
    verdicts += _judge_by_rules(context, settings)
    adjusted = excuse_shortage(excuse_lateness(verdicts, events, settings.tolerance, _rooms_by_path(steps)), events)
    return _move_consequences_back(tuple(apply_should_level(adjusted, settings.should)), explaining_steps)


def find_on_events_so_far(
    cell: Cell, step: Step, trace: Trace, tolerance: float = 0.0, claims: frozenset[str] = frozenset()
) -> tuple[Finding, ExpectationContext] | None:
    """Return what the check of an expectation finds on the events so far, and the context that it was given.

    None when the scenario has not reached the step yet. The finding is inapplicable where the keyword of `where:` was not
    offered: then no check is made. The bounds `after` and `within` are not compared here. They count from the step labelled
    `since`; without a label, or before that step began, from when the expectation was reached.
    """
    action = step.action
    assert isinstance(action, Expect)
    reached = trace.find_step_event(step.path, "reached")
    if reached is None:
        return None
    label = action.expectation.since
    since = (trace.find_label_event(label) if label is not None else None) or reached
    context = ExpectationContext(
        cell, trace, tolerance, claims, since=since.t, since_n=since.n if label is not None else 0
    )
    if (reason := _unoffered_keyword(action.expectation, context)) is not None:
        return Finding(f"what {action.expectation.where} promises", inapplicable=reason), context
    return EXPECTATION_CHECKS[action.verb].check(action.expectation, context), context


def _unoffered_keyword(expectation: Expectation, context: ExpectationContext) -> str | None:
    """Return why an expectation with `where: KEYWORD` does not apply, None where it does.

    It does not apply where no session of its messages, or of its conversation, offered the keyword. Without `where`, and
    where there was no session, it applies. Within TLS the link records nothing: there the harness's own record of the
    replies to EHLO counts.
    """
    if expectation.where is None:
        return None
    messages = context.messages(getattr(expectation, "of", ""))  # a verb without `of` has no messages here
    attempts = [attempt for message in messages for attempt in context.attempts(message.message)]
    conversation = getattr(expectation, "conversation", None)
    talks = [talk for talk in context.trace.events_of(Talked) if talk.conversation == conversation]
    names = [*(attempt.session for attempt in attempts), *(talk.session for talk in talks)]
    sessions = [context.trace.sessions[name] for name in names if name in context.trace.sessions]
    if not sessions or any(expectation.where in (session.keywords or ()) for session in sessions):
        return None
    greetings = (x.text for talk in talks for x in talk.exchanges if x.said.upper().startswith(("EHLO ", "LHLO ")))
    if any(expectation.where in text.upper().split() for text in greetings):  # offered within TLS
        return None
    return f"{sessions[0].server} does not offer {expectation.where}"


def _judge_expectations(
    cell: Cell, steps: Sequence[Step], events: Sequence[AnyEvent], settings: JudgeSettings, trace: Trace
) -> Iterator[tuple[Verdict, bool]]:
    """Add all events to `trace`, then yield each expectation's verdict and whether it is a failure that explains others.

    An expectation is judged at each event with which its step ended. One whose step ended several times, inside a `repeat`, has
    the worst of its verdicts, the first of several that are as bad; one whose step never ended is inconclusive.
    """
    expected = {step.path: step for step in steps if isinstance(step.action, Expect)}
    verdicts: dict[str, list[tuple[Verdict, bool]]] = {path: [] for path in expected}
    for event in events:
        trace.add(event)
        if isinstance(event, StepEvent) and event.phase == "ended" and event.path in expected:
            verdicts[event.path].append(_judge_expectation(cell, expected[event.path], trace, settings))
    for path, step in expected.items():
        outcome = worst_in_cell(verdict.outcome for verdict, _ in verdicts[path])
        worst = next((judged for judged in verdicts[path] if judged[0].outcome is outcome), None)
        yield worst or (_verdict_not_reached(cell, step, settings), False)


def _judge_expectation(cell: Cell, step: Step, trace: Trace, settings: JudgeSettings) -> tuple[Verdict, bool]:
    """Return an expectation's verdict on the events so far, and whether it is a failure that explains others.

    The kind of its first violation decides which rows it is blamed on, unless the expectation names its own. A loss of what was
    never acknowledged is excused (`excuse_unacknowledged`). On a clock that does not jump over waits, a failure with `within` is
    excused if the lags since the bound began add up to too much, but not one that came too early. A step that ended before it was
    reached is an error.
    """
    check, requirements, expectation = _check_and_rows(cell, step, settings)
    result = find_on_events_so_far(cell, step, trace, settings.tolerance, settings.claims)
    if result is None:
        return make_verdict(check, Outcome.ERROR, requirements, "the step ended before it was reached", step), False
    finding, context = result
    _compare_with_bounds(finding, context, expectation)
    blame = EXPECTATION_CHECKS[check.removeprefix("expect.")].blame
    kind = finding.violations[0].kind if finding.violations else ""
    if finding.violations and not expectation.requirements:
        rows = blame.order_rows(kind, cell.requirements, all_2010=all(map(is_generation_2010, cell.topology.servers)))
        requirements = applicable_rows(rows, settings.claims)
    verdict = excuse_unacknowledged(build_verdict(check, requirements, finding, step), trace)
    explains = bool(finding.violations) and kind in blame.explaining_kinds
    early = any(violation.kind == "early" for violation in finding.violations)
    if expectation.within is None or early or CLOCKS[settings.clock].jumps:  # nothing is late on a clock that jumps
        return verdict, explains
    return excuse_late_bound(verdict, trace.events, context.since, expectation.within, settings.tolerance), explains


def _verdict_not_reached(cell: Cell, step: Step, settings: JudgeSettings) -> Verdict:
    """Return the inconclusive verdict of an expectation whose step the scenario did not come to."""
    check, requirements, _ = _check_and_rows(cell, step, settings)
    return inconclusive_verdict(check, Reason.CUT_SHORT, requirements, "the scenario ended before this step", step)


def _check_and_rows(cell: Cell, step: Step, settings: JudgeSettings) -> tuple[str, tuple[str, ...], Expectation]:
    """Return the name of an expectation's check, the rows that bind the candidate, and the expectation itself.

    The rows are those that the expectation names, else those of the scenario.
    """
    action = step.action
    assert isinstance(action, Expect)
    rows = applicable_rows(action.expectation.requirements or cell.requirements, settings.claims)
    return f"expect.{action.verb}", rows, action.expectation


def _compare_with_bounds(finding: Finding, context: ExpectationContext, expectation: Expectation) -> None:
    """Add a violation to the finding for each confirmation before `after` or later than `within` of the expectation.

    Both count in seconds from `context.since`; a violation is of the kind `early` or `late`. None sets no bound.
    """
    beginning = expectation.since or "this step"
    for confirmation in finding.confirmations:
        delay, message = confirmation.t - context.since, confirmation.message
        when = f"{format_seconds(delay)} after {beginning}"
        if expectation.after is not None and delay < expectation.after - context.slack:
            sentence = f"it came true {when}, before {format_seconds(expectation.after)}"
            finding.add_message_violation(message, sentence, confirmation.n, kind="early")
        if expectation.within is not None and delay > expectation.within + context.slack:
            sentence = f"it came true only {when}, not within {format_seconds(expectation.within)}"
            finding.add_message_violation(message, sentence, confirmation.n, kind="late")


def _judge_by_rules(context: CheckContext, settings: JudgeSettings) -> list[Verdict]:
    """Return the verdicts of the model's rules that the scenario does not waive, in the order of their registration.

    A rule named after its row (`model.<row>`) has no verdict where it had no occasion; a published invariant
    (`invariant.<name>`) is not applicable then.
    """
    facts = Facts(context)
    verdicts = []
    for name, rule in RULES.items():
        if is_waived(name, context.cell.waive):
            continue
        rows = applicable_rows(_rows_named_by_scenario(rule.requirements, context.cell.requirements), settings.claims)
        verdict = build_verdict(name, rows, rule.check(facts), complete=settings.complete)
        if verdict.outcome is not Outcome.NOT_APPLICABLE or name.startswith("invariant."):
            verdicts.append(verdict)
    return verdicts


def _rows_named_by_scenario(judged: tuple[str, ...], named: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of a rule's rows that the scenario names, all where it names none of them."""
    return tuple(row for row in judged if row in named) or judged


def _rooms_by_path(steps: Sequence[Step]) -> dict[str, float]:
    """Return the `room` (a lag in seconds that cannot matter) of each expectation that has one, by the path of its step."""
    rooms = [(step.path, step.action.expectation.room) for step in steps if isinstance(step.action, Expect)]
    return {path: room for path, room in rooms if room is not None}


def _move_consequences_back(
    verdicts: tuple[Verdict, ...], explaining_steps: Container[str | None]
) -> tuple[Verdict, ...]:
    """Return the verdicts with those failures at the end whose row presupposes another violated row, otherwise in their order.

    The row of the first failure that explains others (its step is in `explaining_steps`) counts as violated by itself, whatever
    it presupposes. Without such a failure `independently_violated` says which rows are. A row's *root* is the violated row
    from which its violation may follow, or the row itself.
    """
    failures = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL and verdict.requirements]
    explaining = (v.requirements[0] for v in failures if v.step is not None and v.step in explaining_steps)
    lead = next(explaining, None)  # the row of the first failure that explains others
    independent = independently_violated([verdicts]) if lead is None else {lead: frozenset[str]()}
    violated = {verdict.requirements[0] for verdict in failures}.union(*independent.values())
    roots = root_violations(violated, independent=independent)

    def is_consequence(verdict: Verdict) -> bool:
        """Return whether a failure may follow from the violation of another row: its root is not its own first row."""
        rows = verdict.requirements[:1]
        return verdict.outcome is Outcome.FAIL and bool(rows) and roots[rows[0]] not in rows

    return tuple(sorted(verdicts, key=is_consequence))
