"""The matrix: for each scenario and candidate how many cells ended how."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.report.run_summary import CellSummary, RunSummary
from conformance.verdicts import Outcome, worst_over_cells
from conformance.verdicts.outcome import OVER_CELLS


@dataclass(frozen=True, slots=True)
class MatrixSquare:
    """The cells of one scenario played by one candidate; none means that it was not played."""

    cells: tuple[CellSummary, ...]

    @property
    def outcome(self) -> Outcome | None:
        """The most telling outcome, or None."""
        return worst_over_cells(cell.outcome for cell in self.cells)

    @property
    def counts(self) -> tuple[tuple[Outcome, int], ...]:
        """How many cells ended how, the most telling first, without zeros."""
        counts = Counter(cell.outcome for cell in self.cells)
        return tuple((outcome, counts[outcome]) for outcome in OVER_CELLS if counts[outcome])


@dataclass(frozen=True, slots=True)
class MatrixLine:
    """One scenario: its title and file, and a square for each candidate in their order."""

    scenario: str
    title: str
    path: str
    squares: tuple[MatrixSquare, ...]

    @property
    def folder(self) -> str:
        """The folder of its file: the group of requirements that it belongs to."""
        return self.path.rpartition("/")[0] or "."

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Every outcome that is in the line."""
        present = {cell.outcome for square in self.squares for cell in square.cells}
        return tuple(outcome for outcome in OVER_CELLS if outcome in present)


def outcome_matrix(book: RunSummary) -> tuple[MatrixLine, ...]:
    """Return the lines of a run, in the order of the scenarios' files."""
    cells: dict[str, list[CellSummary]] = {}
    for cell in book.cells:
        cells.setdefault(cell.header.scenario, []).append(cell)
    return tuple(_line(cells[scenario], book.candidates) for scenario in book.scenarios)


def _line(cells: Sequence[CellSummary], candidates: Sequence[str]) -> MatrixLine:
    header = cells[0].header
    squares = tuple(MatrixSquare(tuple(cell for cell in cells if cell.header.candidate == one)) for one in candidates)
    return MatrixLine(header.scenario, header.title, header.path, squares)
