"""Verdicts: five, never merged (design: pass, fail, inconclusive, not applicable, error)."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Outcome(StrEnum):
    """The five verdicts.

    - `pass`: there was occasion to fail, and it did not
    - `fail`: the requirement is violated
    - `inconclusive`: it could not be judged: vacuous, the fault did not fire, the harness lagged, the node died for
      another reason
    - `not-applicable`: the candidate does not claim the capability
    - `error`: the harness's or the scenario's own fault
    """

    PASS = "pass"  # noqa: S105  # not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not-applicable"
    ERROR = "error"


class Reason(StrEnum):
    """Why a check could not be judged.

    - `no-occasion`: it had no chance to fail, a fault did not fire, or a moment did not come
    - `cut-short`: the scenario or its history ended before
    - `undecided`: what was seen looks like a violation, and need not be one
    - `node`: a node died, could not be started, or did not do what a step asked of it
    - `late`: the harness or its machine ran later than it may
    - `shortage`: the machine ran out of something
    """

    NO_OCCASION = "no-occasion"
    CUT_SHORT = "cut-short"
    UNDECIDED = "undecided"
    NODE = "node"
    LATE = "late"
    SHORTAGE = "shortage"


class Verdict(BaseModel):
    """What one check found in one history.

    `check` is `expect.<verb>` or `invariant.<name>`; `requirements` are blamed or confirmed by it, the first one
    foremost.
    `sentence` is for a stranger: on failure it says what was expected, what was seen, of which message, when.
    `evidence` holds the numbers of the events that show it, the offending one first. `occasions` counts how often
    the check could have failed: a check with none is not a pass but inconclusive ("vacuous").
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str
    outcome: Outcome
    requirements: tuple[str, ...] = ()
    sentence: str = ""
    expected: str = ""
    seen: str = ""
    evidence: tuple[int, ...] = ()
    occasions: int = Field(0, ge=0)
    step: str | None = Field(None, description="path of the scenario's step, for expectations")
    line: int | None = Field(None, description="line of that step in the scenario's file, 1-based")
    message: str | None = Field(None, description="the scenario's name of the message, `m#1`")
    moment: float | None = Field(None, description="seconds since the cell began, documented time")
    reason: Reason | None = Field(None, description="why it is inconclusive; nothing in runs of 0.1.0")
    remark: bool = Field(False, description="a pass with a remark: a `should` row is broken, as the sentence says")


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the outcome of a whole: error above fail above inconclusive above pass above not applicable.

    An error wins because a set-up that broke proves nothing; nothing at all is inconclusive.
    """
    order = (
        Outcome.ERROR,
        Outcome.FAIL,
        Outcome.INCONCLUSIVE,
        Outcome.PASS,
        Outcome.NOT_APPLICABLE,
    )
    present = set(outcomes)
    return next((outcome for outcome in order if outcome in present), Outcome.INCONCLUSIVE)
