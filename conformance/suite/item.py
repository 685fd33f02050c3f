"""The item: one cell as a test. It runs the cell, keeps the result for the reports, and ends as the verdict says.
Only a violation is an assertion's failure; what could not be judged is something else.
"""

from pathlib import Path
from typing import Any

import pytest

from conformance.candidates.assignment import Assignment
from conformance.report.escaping import visible
from conformance.scenarios.document import Cell
from conformance.shortage import describe_harness_error
from conformance.suite.baseline import BaselineResult
from conformance.suite.junit import properties
from conformance.suite.run import RUN, CellReport, CollectedCell
from conformance.suite.selection import as_keywords
from conformance.verdicts import Outcome


class ConformanceFailure(AssertionError):
    """A requirement is violated. The text is the whole failure, written for a stranger."""


class InconclusiveCell(Exception):
    """The cell could not be judged."""


class BrokenCell(Exception):
    """The harness, or the scenario itself, is at fault."""


def raise_for(outcome: Outcome, text: str) -> None:
    """End a test as its cell ended; returns only for a pass."""
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
    """A scenario at one point of its matrix, played by one candidate."""

    def __init__(self, *, cell: Cell, assignment: Assignment, **rest: Any) -> None:
        super().__init__(**rest)
        self.cell = cell
        self.assignment = assignment
        self.told: CellReport | None = None
        self._ended: BaselineResult | None = None
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
        """What the run is told of it."""
        return CollectedCell(self.nodeid, self.path, self.cell, self.assignment)

    def runtest(self) -> None:
        """Run and judge the cell, and end as it did.

        A cell is run once: where a plugin asks for it again (pytest-rerunfailures), it ends as the first time.
        Raises ConformanceFailure, InconclusiveCell, BrokenCell; skips what is not applicable.
        """
        if self._ended is None:
            try:
                told = self.told = self.config.stash[RUN].execute(self.collected)
            except Exception as error:
                self.user_properties.append(("outcome", str(Outcome.ERROR)))
                raise BrokenCell(describe_harness_error(error)) from error
            self.user_properties.append(("outcome", str(told.reading.outcome)))
            if self.config.option.xmlpath:
                self.user_properties += properties(told.material)
            for remark in told.material.remarks:
                self.user_properties.append(("remark", visible(remark.sentence, 600)))
            self._ended, self._text = told.reading, told.text
        if self._ended.known:
            pytest.xfail(self._ended.text)
        if self._ended.outcome is not Outcome.PASS:
            raise_for(self._ended.outcome, self._text)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the scenario's file and line."""
        return self.path, self.cell.line - 1, f"{self.cell.id} [{self.assignment.identity}]"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the text for a stranger; a traceback only where the harness itself broke."""
        if isinstance(excinfo.value, ConformanceFailure | InconclusiveCell | BrokenCell):
            return str(excinfo.value)
        if isinstance(excinfo.value, pytest.xfail.Exception) and self._ended is not None:
            return self._text
        return super().repr_failure(excinfo, style)


def outcome_of(report: pytest.TestReport) -> Outcome | None:
    """Return the verdict that a report carries, or None when it is not of a cell's call, or known to fail."""
    found = (
        dict(report.user_properties).get("outcome")
        if report.when == "call" and not hasattr(report, "wasxfail")
        else None
    )
    return Outcome(str(found)) if found else None
