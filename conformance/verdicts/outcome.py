"""The five outcomes, their order within a cell and over many cells, and the words and signs that stand for them. A
verdict is what one check found in one history; what the verdicts of its checks come to for a row of the catalogue
stands here too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Outcome(StrEnum):
    """How a check or a cell ended. Outcomes are never merged.

    - `pass`: there was occasion to fail, and it did not
    - `fail`: the requirement is violated
    - `inconclusive`: it could not be judged: vacuous, the fault did not fire, the harness lagged, the node died for
      another reason
    - `not-applicable`: the candidate does not claim the capability
    - `error`: the harness or the scenario is at fault
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


WITHIN_A_CELL = (Outcome.ERROR, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.NOT_APPLICABLE)
"""The order within one cell: an error comes first, because a set-up that broke proves nothing."""

OVER_CELLS = (Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.NOT_APPLICABLE)
"""The order over many cells: a failure comes first, because an error in one cell does not undo the failure of another."""

NOT_JUDGED = Outcome.INCONCLUSIVE
"""The outcome of a cell or row about which nothing was recorded; a cell that was cut short is no better than this."""

OK_OUTCOMES = frozenset({Outcome.PASS, Outcome.NOT_APPLICABLE})
"""The outcomes that leave nothing to report."""

NOT_OK_OUTCOMES = tuple(outcome for outcome in OVER_CELLS if outcome not in OK_OUTCOMES)
"""The other outcomes, in the order over cells."""


@dataclass(frozen=True, slots=True)
class OutcomeDisplay:
    """How an outcome is shown.

    Attributes:
        sign: one character beside every colour, so that nobody has to tell red from green.
        heading: how the text of a cell begins, in capitals; Allure's categories recognise it.
        category: pytest's category in the summary line.
        letter: pytest's progress letter.
        style: Rich's style on a terminal.
    """

    sign: str
    heading: str
    category: str
    letter: str
    style: str


OUTCOME_DISPLAY = {
    Outcome.PASS: OutcomeDisplay("✓", "PASS", "passed", ".", "green"),
    Outcome.FAIL: OutcomeDisplay("✗", "VIOLATION", "failed", "F", "bold red"),
    Outcome.INCONCLUSIVE: OutcomeDisplay("?", "INCONCLUSIVE", "inconclusive", "I", "yellow"),
    Outcome.NOT_APPLICABLE: OutcomeDisplay("–", "NOT APPLICABLE", "not applicable", "n", "dim"),  # noqa: RUF001  # an en dash
    Outcome.ERROR: OutcomeDisplay("!", "HARNESS ERROR", "error", "E", "bold magenta"),
}


def worst_in_cell(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the outcome of one cell from those of its checks; a cell without checks was not judged."""
    present = set(outcomes)
    return next((outcome for outcome in WITHIN_A_CELL if outcome in present), NOT_JUDGED)


def worst_over_cells(outcomes: Iterable[Outcome]) -> Outcome | None:
    """Return the outcome of many cells together, or None when there are no cells."""
    present = set(outcomes)
    return next((outcome for outcome in OVER_CELLS if outcome in present), None)


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


def outcome_for_row(outcome: Outcome, rank: int, cell: Outcome) -> Outcome:
    """Return what a check's outcome means for one of the rows that the check names.

    `rank` is the row's place among them, from 0; `cell` is the outcome of the whole cell. A failure is blamed on the
    first row; the others may be the reason, so they are inconclusive. A cell that ended in an error proves nothing.
    """
    if cell is Outcome.ERROR:
        return Outcome.ERROR
    return Outcome.INCONCLUSIVE if outcome is Outcome.FAIL and rank > 0 else outcome
