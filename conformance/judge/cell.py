"""Judges a cell: every expectation of its scenario and every invariant, from its history alone."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from conformance.clocks import CLOCKS
from conformance.history.events import AnyEvent, StepEvent
from conformance.invariants import INVARIANTS
from conformance.judge import shortage
from conformance.judge.expectations import CHECKS
from conformance.judge.finding import Case, Finding, View, moment, named, of_2010
from conformance.judge.harness import obstacles
from conformance.judge.invariants import CHECKS as INVARIANT_CHECKS
from conformance.judge.lag import excuse_late_bound, excuse_lateness
from conformance.judge.remarks import apply_should_level
from conformance.judge.rows import binding, unless_nothing_was_acknowledged
from conformance.judge.telling import inconclusive, plain, verdict_of
from conformance.judge.trace import Trace
from conformance.requirements.consequences import independently_violated, root_violations
from conformance.scenarios.document import Cell
from conformance.scenarios.expectations import Expectation
from conformance.scenarios.steps.blocks import Expect, Step
from conformance.verdicts import Outcome, Reason, Verdict, worst_in_cell
from conformance.verdicts.changes import Should


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Under which conditions the history was made. `tolerance` is in documented seconds; `should`: what a broken `should` is."""

    clock: str
    tolerance: float
    claims: frozenset[str]
    complete: bool
    should: Should = "warn"


def judge_cell(cell: Cell, events: Sequence[AnyEvent], setting: JudgeSettings) -> tuple[Verdict, ...]:
    """Return the verdict of every check: the expectations in their order, the harness's own, the invariants.

    Violations that may follow from that of a row which theirs presupposes are behind all others; in front are those
    that explain others (`blame.Blame.explains`), and those of rows that were seen to be broken by themselves.
    """
    steps = cell.all_steps
    whole = Trace()
    found = list(_expectations(cell, steps, events, setting, whole))
    explaining = {verdict.step for verdict, explains in found if explains}
    verdicts = [verdict for verdict, _ in found]
    case = Case(cell, whole, setting.tolerance, setting.claims)
    verdicts += obstacles(case, steps, complete=setting.complete)
    verdicts += [_invariant(name, case, setting) for name in INVARIANTS if name not in cell.waive]
    judged = excuse_lateness(verdicts, events, setting.tolerance, _rooms(steps))
    return _causes_first(
        tuple(apply_should_level(shortage.excuse_shortage(judged, events), setting.should)), explaining
    )


def _rooms(steps: Sequence[Step]) -> dict[str, float]:
    expected = [(step.path, step.action.expectation.room) for step in steps if isinstance(step.action, Expect)]
    return {path: room for path, room in expected if room is not None}


def _causes_first(verdicts: tuple[Verdict, ...], explaining: Container[str | None]) -> tuple[Verdict, ...]:
    failed = [one for one in verdicts if one.outcome is Outcome.FAIL and one.requirements]
    lead = next((one.requirements[0] for one in failed if one.step is not None and one.step in explaining), None)
    by_themselves = independently_violated([verdicts]) if lead is None else {lead: frozenset[str]()}
    violated = {one.requirements[0] for one in failed}.union(*by_themselves.values())
    root = root_violations(violated, independent=by_themselves)
    return tuple(
        sorted(
            verdicts,
            key=lambda one: (
                one.outcome is Outcome.FAIL
                and bool(one.requirements)
                and root[one.requirements[0]] not in one.requirements[:1]
            ),
        )
    )


def find(
    cell: Cell, step: Step, trace: Trace, tolerance: float = 0.0, claims: frozenset[str] = frozenset()
) -> tuple[Finding, View] | None:
    """Judge an expectation on what has happened so far; None when it was not reached or has no check."""
    action = step.action
    assert isinstance(action, Expect)
    reached = trace.step(step.path, "reached")
    if reached is None or action.verb not in CHECKS:
        return None
    label = action.expectation.since
    since = (trace.labelled(label) if label is not None else None) or reached
    view = View(cell, trace, tolerance, claims, since=since.t, since_n=since.n if label is not None else 0)
    if (reason := _not_offered(action.expectation, view)) is not None:
        return Finding(f"what {action.expectation.where} promises", inapplicable=reason), view
    return CHECKS[action.verb].judged(action.expectation, view), view


def _not_offered(expectation: Expectation, view: View) -> str | None:
    """Return that a keyword was offered in no session of the messages of an expectation that wants it; None otherwise."""
    if expectation.where is None:
        return None
    attempts = [a for made in view.messages(getattr(expectation, "of", "")) for a in view.attempts(made.message)]
    sessions = [view.trace.sessions[a.session] for a in attempts if a.session in view.trace.sessions]
    if not sessions or any(expectation.where in (session.keywords or ()) for session in sessions):
        return None
    return f"{sessions[0].server} does not offer {expectation.where}"


def _expectations(
    cell: Cell, steps: Sequence[Step], events: Sequence[AnyEvent], setting: JudgeSettings, trace: Trace
) -> Iterator[tuple[Verdict, bool]]:
    """Yield the verdict of each expectation, judged on the history as it was when the scenario went on, and whether it
    is a violation that explains others.

    Of one that was reached several times (inside a `repeat`) the worst is told. `trace` has taken all events then.
    """
    expected = {step.path: step for step in steps if isinstance(step.action, Expect)}
    verdicts: dict[str, list[tuple[Verdict, bool]]] = {path: [] for path in expected}
    for event in events:
        trace.add(event)
        if isinstance(event, StepEvent) and event.phase == "ended" and event.path in expected:
            verdicts[event.path].append(_expectation(cell, expected[event.path], trace, setting))
    for path, step in expected.items():
        outcome = worst_in_cell(verdict.outcome for verdict, _ in verdicts[path])
        worst_of_all = next((one for one in verdicts[path] if one[0].outcome is outcome), None)
        yield worst_of_all or (_never_reached(cell, step, setting), False)


def _expectation(cell: Cell, step: Step, trace: Trace, setting: JudgeSettings) -> tuple[Verdict, bool]:
    name, requirements, expectation = _parts(cell, step, setting)
    found = find(cell, step, trace, setting.tolerance, setting.claims)
    if found is None:
        return plain(name, Outcome.ERROR, requirements, f"{name} is not judged yet", step), False
    finding, view = found
    _bounds(finding, view, expectation)
    blame, kind = CHECKS[name.removeprefix("expect.")].blame, finding.wrong[0].kind if finding.wrong else ""
    if finding.wrong and not expectation.requirements:
        requirements = binding(blame.ordered(kind, cell.requirements, of_2010=_of_2010(cell)), setting.claims)
    verdict = unless_nothing_was_acknowledged(verdict_of(name, requirements, finding, step), trace)
    explains = bool(finding.wrong) and kind in blame.explains
    early = any(wrong.kind == "early" for wrong in finding.wrong)
    if expectation.within is None or early or CLOCKS[setting.clock].jumps:
        return verdict, explains
    return excuse_late_bound(verdict, trace.events, view.since, expectation.within, setting.tolerance), explains


def _of_2010(cell: Cell) -> bool:
    return all(of_2010(server) for server in cell.topology.servers)


def _never_reached(cell: Cell, step: Step, setting: JudgeSettings) -> Verdict:
    check, requirements, _ = _parts(cell, step, setting)
    return inconclusive(check, Reason.CUT_SHORT, requirements, "the scenario ended before this step", step)


def _parts(cell: Cell, step: Step, setting: JudgeSettings) -> tuple[str, tuple[str, ...], Expectation]:
    action = step.action
    assert isinstance(action, Expect)
    rows = binding(action.expectation.requirements or cell.requirements, setting.claims)
    return f"expect.{action.verb}", rows, action.expectation


def _bounds(finding: Finding, view: View, bounds: Expectation) -> None:
    """Hold when it came true against `after` and `within`."""
    beginning = bounds.since or "this step"
    for met in finding.came_true:
        late = met.t - view.since
        about, message = (f"{named(met.made)}: ", met.made.message) if met.made is not None else ("", None)
        if bounds.after is not None and late < bounds.after - view.slack:
            sentence = f"{about}it came true {moment(late)} after {beginning}, before {moment(bounds.after)}"
            finding.violated(sentence, met.n, message=message, kind="early")
        if bounds.within is not None and late > bounds.within + view.slack:
            sentence = f"{about}it came true only {moment(late)} after {beginning}, not within {moment(bounds.within)}"
            finding.violated(sentence, met.n, message=message, kind="late")


def _invariant(name: str, case: Case, setting: JudgeSettings) -> Verdict:
    check = f"invariant.{name}"
    requirements, judged = INVARIANT_CHECKS[name]
    rows = tuple(r for r in requirements if r in case.cell.requirements) or requirements
    return verdict_of(check, binding(rows, setting.claims), judged(case), complete=setting.complete)
