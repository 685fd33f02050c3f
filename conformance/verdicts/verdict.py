"""A verdict: what one check found in one history."""

from pydantic import BaseModel, ConfigDict, Field

from conformance.verdicts.outcome import Outcome, Reason


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
