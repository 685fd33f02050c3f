"""A cell as a pytest item: runs the cell, and passes, fails or skips as its outcome says.

A *cell* is one scenario with one value for each of its axes, run with one candidate.
Only a violated requirement is an AssertionError; a cell that could not be judged, or that broke, raises something else.
"""

from pathlib import Path
from typing import Any

import pytest

from conformance.candidates.assignment import Assignment
from conformance.report.escaping import visible
from conformance.scenarios.document import Cell
from conformance.shortage import describe_harness_error
from conformance.suite.baseline import BaselineResult
from conformance.suite.junit import cell_properties
from conformance.suite.run import RUN, CellReport, CollectedCell
from conformance.suite.selection import as_keywords
from conformance.verdicts import Outcome


class ConformanceFailure(AssertionError):
    """A requirement is violated; the text explains the whole failure."""


class InconclusiveCell(Exception):
    """The cell could not be judged."""


class BrokenCell(Exception):
    """The harness, or the scenario itself, is at fault."""


def raise_for(outcome: Outcome, text: str) -> None:
    """Raise the exception by which a test ends with an outcome (skip for a cell that is not applicable); return for a pass."""
    match outcome:
        case Outcome.FAIL:
            raise ConformanceFailure(text)
        case Outcome.INCONCLUSIVE:
            raise InconclusiveCell(text)
        case Outcome.ERROR:
            raise BrokenCell(text)
        case Outcome.NOT_APPLICABLE:
            pytest.skip(text)
        case Outcome.PASS:
            return


class CellItem(pytest.Item):
    """One cell of a scenario's matrix with one assignment of candidates.

    `report` is the cell's result from the end of `runtest` until the plugin has made pytest's report of it, else None. An assignment
    says which candidate plays each server of the cell. `_compared` and `_text` are the cell's outcome, compared with the known
    failures of its candidate, and its text after it was run; `_compared` is None before.
    """

    def __init__(self, *, cell: Cell, assignment: Assignment, **rest: Any) -> None:
        super().__init__(**rest)
        self.cell = cell
        self.assignment = assignment
        self.report: CellReport | None = None
        self._compared: BaselineResult | None = None
        self._text = ""
        for requirement in cell.requirements:
            self.add_marker(pytest.mark.requirement(requirement))
        self.add_marker(pytest.mark.candidate(assignment.identity))
        if "fault" in cell.axes:
            self.add_marker(pytest.mark.fault(cell.axes["fault"]))
        self.extra_keyword_matches.update(as_keywords(word) for word in (cell.id, self.name))
        for tag in cell.tags:
            if tag in ("slow", "docker"):
                self.add_marker(tag)

    @property
    def collected(self) -> CollectedCell:
        """The cell as the run takes it."""
        return CollectedCell(self.nodeid, self.path, self.cell, self.assignment)

    def runtest(self) -> None:
        """Run and judge the cell, and end with its outcome.

        A cell that has a result is not run again: if a plugin runs the item again (pytest-rerunfailures), it ends as the first
        time. Raises ConformanceFailure, InconclusiveCell, BrokenCell; skips a cell that is not applicable, xfails a failure that
        is known from the baseline. The `user_properties` go into the report, also in xdist's controller.
        """
        if self._compared is None:
            try:
                report = self.report = self.config.stash[RUN].execute(self.collected)
            except Exception as error:
                self.user_properties.append(("outcome", str(Outcome.ERROR)))
                raise BrokenCell(describe_harness_error(error)) from error
            self.user_properties.append(("outcome", str(report.compared.outcome)))
            if self.config.option.xmlpath:
                self.user_properties += cell_properties(report.view)
            for remark in report.view.remarks:
                self.user_properties.append(("remark", visible(remark.sentence, 600)))
            self._compared, self._text = report.compared, report.text
        if self._compared.known:
            pytest.xfail(self._compared.text)
        if self._compared.outcome is not Outcome.PASS:
            raise_for(self._compared.outcome, self._text)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the scenario's file, its line counted from 0, and the cell's id with its candidate, as pytest shows the item."""
        return self.path, self.cell.line - 1, f"{self.cell.id} [{self.assignment.identity}]"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the failure's text, of a known failure the cell's text; for any other exception pytest's own representation."""
        if isinstance(excinfo.value, ConformanceFailure | InconclusiveCell | BrokenCell):
            return str(excinfo.value)
        if isinstance(excinfo.value, pytest.xfail.Exception) and self._compared is not None:
            return self._text
        return super().repr_failure(excinfo, style)


def outcome_of(report: pytest.TestReport) -> Outcome | None:
    """Return a cell's outcome from a report; None if the report is not of a cell's call phase, or of a known failure.

    `CellItem.runtest` stores the outcome in the item's `user_properties`; pytest sets `wasxfail` for a known failure.
    """
    outcome = (
        dict(report.user_properties).get("outcome")
        if report.when == "call" and not hasattr(report, "wasxfail")
        else None
    )
    return Outcome(str(outcome)) if outcome else None
