"""From what a check found to a verdict, with a sentence for a stranger."""

from conformance.judge.finding import Finding
from conformance.scenarios.steps.blocks import Step
from conformance.verdicts import Outcome, Reason, Verdict

CUT_SHORT = "nothing wrong as far as the history goes, but it was cut short"


def verdict_of(
    check: str, requirements: tuple[str, ...], finding: Finding, step: Step | None = None, *, complete: bool = True
) -> Verdict:
    """Return the verdict of a finding.

    A violation that was seen stays one, however the history ends. Without occasion an expectation is inconclusive, an
    invariant (without `step`) has nothing to say. What passed in a history that was cut short might yet have failed.
    """
    if finding.inapplicable:
        return plain(check, Outcome.NOT_APPLICABLE, requirements, finding.inapplicable, step)
    told = finding.wrong or finding.unclear
    if told:
        first = told[0]
        if first.row is not None:
            requirements = (first.row, *(row for row in requirements if row != first.row))
        more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        return Verdict(
            check=check,
            outcome=Outcome.FAIL if finding.wrong else Outcome.INCONCLUSIVE,
            reason=None if finding.wrong else Reason.UNDECIDED,
            requirements=requirements,
            sentence=f"{requirements[0]}: expected {finding.expected}; seen: {first.sentence}{more}",
            expected=finding.expected,
            seen=first.sentence + more,
            evidence=first.evidence,
            occasions=max(finding.occasions, 1),
            step=step.path if step else None,
            line=step.line if step else None,
            message=first.message,
        )
    if finding.occasions == 0 and step is not None:
        return inconclusive(
            check, Reason.NO_OCCASION, requirements, f"vacuous: no occasion for {finding.expected}", step
        )
    outcome, sentence, reason = Outcome.PASS, "", None
    if finding.occasions == 0:
        outcome, sentence = Outcome.NOT_APPLICABLE, "no occasion in this cell"
    elif not complete and step is None:
        outcome, sentence, reason = Outcome.INCONCLUSIVE, CUT_SHORT, Reason.CUT_SHORT
    return Verdict(
        check=check,
        outcome=outcome,
        reason=reason,
        requirements=requirements,
        sentence=sentence,
        expected=finding.expected,
        evidence=tuple(finding.evidence[:20]),
        occasions=finding.occasions,
        step=step.path if step else None,
        line=step.line if step else None,
    )


def plain(
    check: str,
    outcome: Outcome,
    requirements: tuple[str, ...],
    sentence: str,
    step: Step | None = None,
    evidence: tuple[int, ...] = (),
) -> Verdict:
    """Return a verdict that needs no finding."""
    return Verdict(
        check=check,
        outcome=outcome,
        requirements=requirements,
        sentence=sentence,
        evidence=evidence,
        step=step.path if step else None,
        line=step.line if step else None,
    )


def inconclusive(
    check: str,
    reason: Reason,
    requirements: tuple[str, ...],
    sentence: str,
    step: Step | None = None,
    evidence: tuple[int, ...] = (),
) -> Verdict:
    """Return a verdict that nothing could be judged, and why."""
    verdict = plain(check, Outcome.INCONCLUSIVE, requirements, sentence, step, evidence)
    return verdict.model_copy(update={"reason": reason})
