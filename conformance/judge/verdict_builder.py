"""Makes verdicts of findings. Their sentences are read by someone who knows neither the scenario nor the harness.

`requirements` are the rows of the catalogue that a verdict is about; the first is the one that a failure is blamed on.
`check` is the name of the check. `step` is the expectation's step, or that of a fault that did not fire; None for a rule of
the model and for other checks of the harness. The judge (`conformance.judge.cell`) and the checks of the harness call these
functions.
"""

from conformance.scenarios.steps.action import Step
from conformance.trace.finding import Finding
from conformance.verdicts import Outcome, Reason, Verdict

_CUT_SHORT = "nothing wrong as far as the history goes, but it was cut short"
_MAX_EVIDENCE = 20
"""Events that confirm are shown in a passed verdict up to this number."""


def build_verdict(
    check: str, requirements: tuple[str, ...], finding: Finding, step: Step | None = None, *, complete: bool = True
) -> Verdict:
    """Return the verdict of a finding; its sentence is that of the first violation, or of the first undecided thing ("": a pass).

    An inapplicable finding is not applicable. A violation fails, however the history ends; without violations an undecided
    thing is inconclusive. Without an occasion an expectation is inconclusive, and a rule of the model (`step` is None) not
    applicable. A rule that found nothing wrong is inconclusive where the history is not `complete`; otherwise the check
    passes. A row that the first violation, or undecided thing, names is put in front.
    """
    if finding.inapplicable:
        return make_verdict(check, Outcome.NOT_APPLICABLE, requirements, finding.inapplicable, step)
    observations = finding.violations or finding.undecided
    if observations:
        first = observations[0]
        if first.row is not None:
            requirements = (first.row, *(row for row in requirements if row != first.row))
        more = f" (and {len(observations) - 1} more)" if len(observations) > 1 else ""
        return Verdict(
            check=check,
            outcome=Outcome.FAIL if finding.violations else Outcome.INCONCLUSIVE,
            reason=None if finding.violations else Reason.UNDECIDED,
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
        return inconclusive_verdict(
            check, Reason.NO_OCCASION, requirements, f"vacuous: no occasion for {finding.expected}", step
        )
    outcome, sentence, reason = Outcome.PASS, "", None
    if finding.occasions == 0:
        outcome, sentence = Outcome.NOT_APPLICABLE, "no occasion in this cell"
    elif not complete and step is None:
        outcome, sentence, reason = Outcome.INCONCLUSIVE, _CUT_SHORT, Reason.CUT_SHORT
    return Verdict(
        check=check,
        outcome=outcome,
        reason=reason,
        requirements=requirements,
        sentence=sentence,
        expected=finding.expected,
        evidence=tuple(finding.evidence[:_MAX_EVIDENCE]),
        occasions=finding.occasions,
        step=step.path if step else None,
        line=step.line if step else None,
    )


def make_verdict(
    check: str,
    outcome: Outcome,
    requirements: tuple[str, ...],
    sentence: str,
    step: Step | None = None,
    evidence: tuple[int, ...] = (),
) -> Verdict:
    """Return a verdict without a finding, such as one of the harness's own checks.

    `evidence` are numbers of events; `step` is the scenario's step whose path and line the verdict names, None for none.
    """
    return Verdict(
        check=check,
        outcome=outcome,
        requirements=requirements,
        sentence=sentence,
        evidence=evidence,
        step=step.path if step else None,
        line=step.line if step else None,
    )


def inconclusive_verdict(
    check: str,
    reason: Reason,
    requirements: tuple[str, ...],
    sentence: str,
    step: Step | None = None,
    evidence: tuple[int, ...] = (),
) -> Verdict:
    """Return an inconclusive verdict without a finding; the arguments are those of `make_verdict`, and the reason."""
    verdict = make_verdict(check, Outcome.INCONCLUSIVE, requirements, sentence, step, evidence)
    return verdict.model_copy(update={"reason": reason})
