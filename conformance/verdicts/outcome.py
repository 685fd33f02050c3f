"""The verdict of a check and its five outcomes: their order within a cell and over many cells, and how they are displayed.

A *check* is one expectation of a scenario, one rule of the model, or what the harness checks of itself. A *row* is a
requirement of the catalogue.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Outcome(StrEnum):
    """The outcome of a check or of a cell. No two of them are ever counted as one.

    - `pass`: it could have failed, and did not
    - `fail`: the requirement is violated
    - `inconclusive`: it could not be judged; `Reason` says why
    - `not-applicable`: the candidate does not claim the capability, the machine cannot show it, or the cell had no occasion for a
      rule of the model
    - `error`: the harness or the scenario is at fault
    """

    PASS = "pass"  # noqa: S105  # not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not-applicable"
    ERROR = "error"


class Reason(StrEnum):
    """Why a check could not be judged.

    - `no-occasion`: it had no chance to fail, a fault did not fire, or a moment for a step did not come
    - `cut-short`: the scenario or its history ended before
    - `undecided`: what was seen looks like a violation, and need not be one
    - `node`: a node exited unexpectedly, could not be started, or did not do what a step asked of it
    - `late`: the harness or its machine ran later than is allowed
    - `shortage`: the machine ran out of memory, disk space or another resource
    """

    NO_OCCASION = "no-occasion"
    CUT_SHORT = "cut-short"
    UNDECIDED = "undecided"
    NODE = "node"
    LATE = "late"
    SHORTAGE = "shortage"


WITHIN_A_CELL = (Outcome.ERROR, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.NOT_APPLICABLE)
"""The order within one cell, worst first: an error is the worst, because a broken set-up proves nothing."""

OVER_CELLS = (Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.NOT_APPLICABLE)
"""The order over many cells, worst first: a failure is the worst, because an error in another cell does not undo it."""

NOT_JUDGED = Outcome.INCONCLUSIVE
"""The outcome of a cell without verdicts; a cell that was cut short is at best this."""

OK_OUTCOMES = frozenset({Outcome.PASS, Outcome.NOT_APPLICABLE})
"""The outcomes that need no attention."""

NOT_OK_OUTCOMES = tuple(outcome for outcome in OVER_CELLS if outcome not in OK_OUTCOMES)
"""The outcomes that need attention, in the order over cells."""


@dataclass(frozen=True, slots=True)
class OutcomeDisplay:
    """How an outcome is displayed.

    Attributes:
        sign: one character that is always displayed with the colour, since not everyone can tell red from green.
        heading: the beginning of a cell's text, in capitals; Allure's categories match it.
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
    """Return the worst outcome of a cell's checks, in the order within a cell; `NOT_JUDGED` without checks."""
    present = set(outcomes)
    return next((outcome for outcome in WITHIN_A_CELL if outcome in present), NOT_JUDGED)


def worst_over_cells(outcomes: Iterable[Outcome]) -> Outcome | None:
    """Return the worst outcome of many cells, or of one row in many cells, in the order over cells; None without cells."""
    present = set(outcomes)
    return next((outcome for outcome in OVER_CELLS if outcome in present), None)


class Verdict(BaseModel):
    """What one check found in one history.

    `check` is `expect.<verb>`, `model.<row>`, `invariant.<name>` or `harness.<name>`. `requirements` are the rows that it is
    about: a failure is blamed on the first. `sentence` is written for a reader without context: on failure it says what was
    expected, what was seen, of which message, and when. `evidence` has the numbers of the events that show it, the violating
    one first. `occasions` counts how often the check could have failed; an expectation with none is inconclusive
    ("vacuous").
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
    """Return what a verdict's outcome means for one of its rows: the row's outcome in this cell.

    `rank` is the row's place in the verdict's `requirements`, from 0; `cell` is the outcome of the whole cell. A
    failure is blamed on the first row; the others may be the reason of it, so they are inconclusive. A cell with an
    error proves nothing.
    """
    if cell is Outcome.ERROR:
        return Outcome.ERROR
    return Outcome.INCONCLUSIVE if outcome is Outcome.FAIL and rank > 0 else outcome
