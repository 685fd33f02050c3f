"""Judges a cell: every expectation of its scenario and every invariant, from its history alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.history.events import AnyEvent, FaultFired, NodeEvent, StepEvent
from conformance.judge.expectations.table import CHECKS
from conformance.judge.finding import Finding, View
from conformance.judge.invariants.table import INVARIANTS
from conformance.judge.lag import excused
from conformance.judge.trace import Trace
from conformance.judge.verdicts import Outcome, Verdict, worst
from conformance.scenarios.document import Cell
from conformance.scenarios.steps import Disk, Expect, Fault, NodeAction, Parallel, Repeat, Step


@dataclass(frozen=True, slots=True)
class Setting:
    """Under which conditions the history was made. `tolerance` is in documented seconds."""

    clock: str
    tolerance: float
    claims: frozenset[str]
    complete: bool


def judge_cell(cell: Cell, events: Sequence[AnyEvent], setting: Setting) -> tuple[Verdict, ...]:
    """Return the verdict of every check; the expectations in their order, then the harness's own, then the invariants."""
    steps = list(flattened(cell.steps))
    verdicts = list(_followed(cell, steps, events, setting))
    verdicts += _occasions(cell, steps, events, setting)
    whole = Trace(events)
    for name, (requirements, check) in INVARIANTS.items():
        if name not in cell.waive:
            bound = tuple(r for r in requirements if r in cell.requirements) or requirements
            verdicts.append(_invariant(f"invariant.{name}", bound, check(cell, whole), setting))
    return tuple(excused(verdicts, events, setting.tolerance))


def flattened(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield all steps, those inside blocks too."""
    for step in steps:
        yield step
        if isinstance(step.action, Parallel | Repeat):
            yield from flattened(step.action.steps)


def find(cell: Cell, step: Step, trace: Trace) -> tuple[Finding, View] | None:
    """Judge an expectation on what has happened so far; None when it was not reached or has no check."""
    action = step.action
    assert isinstance(action, Expect)
    reached = trace.step(step.path, "reached")
    if reached is None or action.verb not in CHECKS:
        return None
    label = action.expectation.since
    since = (trace.labelled(label) if label is not None else None) or reached
    view = View(cell, trace, since.t, since.n if label is not None else 0)
    return CHECKS[action.verb](action.expectation, view), view


def _followed(cell: Cell, steps: Sequence[Step], events: Sequence[AnyEvent], setting: Setting) -> Iterator[Verdict]:
    """Yield the verdict of each expectation, judged on the history as it was when the scenario went on.

    Of one that was reached several times (inside a `repeat`) the worst is told.
    """
    expected = {step.path: step for step in steps if isinstance(step.action, Expect)}
    verdicts: dict[str, list[Verdict]] = {path: [] for path in expected}
    trace = Trace()
    for event in events:
        trace.add(event)
        if isinstance(event, StepEvent) and event.phase == "ended" and event.path in expected:
            verdicts[event.path].append(_expectation(cell, expected[event.path], trace, setting))
    for path, step in expected.items():
        found = verdicts[path]
        outcome = worst(verdict.outcome for verdict in found)
        yield next((v for v in found if v.outcome is outcome), None) or _never(cell, step)


def _expectation(cell: Cell, step: Step, trace: Trace, setting: Setting) -> Verdict:
    action = step.action
    assert isinstance(action, Expect)
    check, requirements = f"expect.{action.verb}", action.expectation.requirements or cell.requirements
    found = find(cell, step, trace)
    if found is None:
        return _verdict(check, Outcome.ERROR, requirements, step, f"{action.verb} is not judged yet")
    finding, view = found
    _bounds(finding, view, action, setting)
    return _told(check, requirements, finding, step)


def _never(cell: Cell, step: Step) -> Verdict:
    action = step.action
    assert isinstance(action, Expect)
    requirements = action.expectation.requirements or cell.requirements
    sentence = "the scenario ended before this step"
    return _verdict(f"expect.{action.verb}", Outcome.INCONCLUSIVE, requirements, step, sentence)


def _bounds(finding: Finding, view: View, action: Expect, setting: Setting) -> None:
    """Hold when it came true against `after` and `within`."""
    bounds, slack = action.expectation, setting.tolerance + 1e-6
    for time, n in zip(finding.times, finding.evidence, strict=False):
        late = time - view.since
        if bounds.after is not None and late < bounds.after - slack:
            finding.violated(
                f"it came true {late:g} s after {bounds.since or 'this step'}, before {bounds.after:g} s", n
            )
        if bounds.within is not None and late > bounds.within + slack:
            finding.violated(
                f"it came true only {late:g} s after {bounds.since or 'this step'}, not within {bounds.within:g} s", n
            )


def _told(check: str, requirements: tuple[str, ...], finding: Finding, step: Step) -> Verdict:
    if finding.wrong:
        sentence, evidence, message = finding.wrong[0]
        more = f" (and {len(finding.wrong) - 1} more)" if len(finding.wrong) > 1 else ""
        return Verdict(
            check=check,
            outcome=Outcome.FAIL,
            requirements=requirements,
            sentence=f"{requirements[0]}: expected {finding.expected}; seen: {sentence}{more}",
            expected=finding.expected,
            seen=sentence + more,
            evidence=evidence,
            occasions=max(finding.occasions, 1),
            step=step.path,
            line=step.line,
            message=message,
        )
    if finding.occasions == 0:
        return _verdict(check, Outcome.INCONCLUSIVE, requirements, step, f"vacuous: no occasion for {finding.expected}")
    return Verdict(
        check=check,
        outcome=Outcome.PASS,
        requirements=requirements,
        expected=finding.expected,
        evidence=tuple(finding.evidence[:20]),
        occasions=finding.occasions,
        step=step.path,
        line=step.line,
    )


def _verdict(check: str, outcome: Outcome, requirements: tuple[str, ...], step: Step, sentence: str) -> Verdict:
    return Verdict(
        check=check, outcome=outcome, requirements=requirements, sentence=sentence, step=step.path, line=step.line
    )


def _invariant(check: str, requirements: tuple[str, ...], finding: Finding, setting: Setting) -> Verdict:
    if finding.wrong:
        sentence, evidence, message = finding.wrong[0]
        more = f" (and {len(finding.wrong) - 1} more)" if len(finding.wrong) > 1 else ""
        return Verdict(
            check=check,
            outcome=Outcome.FAIL if setting.complete else Outcome.INCONCLUSIVE,
            requirements=requirements,
            sentence=f"{requirements[0]}: expected {finding.expected}; seen: {sentence}{more}",
            expected=finding.expected,
            seen=sentence + more,
            evidence=evidence,
            occasions=max(finding.occasions, 1),
            message=message,
        )
    outcome = Outcome.PASS if finding.occasions else Outcome.NOT_APPLICABLE
    return Verdict(
        check=check,
        outcome=outcome,
        requirements=requirements,
        expected=finding.expected,
        sentence="" if finding.occasions else "no occasion in this cell",
        occasions=finding.occasions,
    )


def _occasions(cell: Cell, steps: list[Step], events: Sequence[AnyEvent], setting: Setting) -> Iterator[Verdict]:
    """Yield what makes a cell inconclusive: a fault that never fired, a node that died unasked."""
    fired = {event.fault for event in events if isinstance(event, FaultFired)}
    for step in steps:
        fault = step.action
        if not setting.complete:
            break
        if isinstance(fault, Fault | Disk) and not fault.may_not_fire and fault.name not in fired:
            sentence = f"the fault {fault.name!r} never fired: there was no occasion to judge"
            yield _verdict("harness.fault-fired", Outcome.INCONCLUSIVE, cell.requirements, step, sentence)
        elif isinstance(fault, NodeAction) and fault.at and not fault.at.may_not_come and fault.occasion not in fired:
            sentence = f"the moment of {fault.occasion!r} never came: there was no occasion to judge"
            yield _verdict("harness.fault-fired", Outcome.INCONCLUSIVE, cell.requirements, step, sentence)
    for event in events:
        if isinstance(event, NodeEvent) and event.action == "exited":
            yield Verdict(
                check="harness.node-alive",
                outcome=Outcome.INCONCLUSIVE,
                requirements=cell.requirements,
                sentence=f"{event.node} died unasked: {event.detail}; see its log",
                evidence=(event.n,),
            )
