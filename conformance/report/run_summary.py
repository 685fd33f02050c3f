"""The summary of a run in memory, without events, and its matrix of scenarios and candidates.

The run's page, the terminal's summary, the conformance statement and the comparison of runs are made from it. The *slug* of a
cell names its file. A *finding* is a verdict that is neither a pass nor not applicable; the *deciding* one is the first with the
cell's outcome. A *remark* is a pass although a `should` row (requirement) is violated. The *evidence location* of a verdict is a
text about the event that shows it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.report.cell_view import CellView, view_stored_cell
from conformance.report.escaping import visible
from conformance.report.evidence_location import EvidenceLocation, locate_evidence
from conformance.report.failure_text import clause_of, deciding_sentence
from conformance.results.layout import LATE_FOLDER
from conformance.results.reader import EVENT_LINES, Damage, read_cell, read_run
from conformance.results.schema import CellHeader, RunFooter, RunHeader
from conformance.verdicts import Outcome, Verdict, worst_over_cells
from conformance.verdicts.outcome import OVER_CELLS


@dataclass(frozen=True, slots=True)
class CellSummary:
    """One cell of a run, without its events.

    `evidence_locations` has an entry for each verdict: None for a pass, and where `CellView.evidence_of` gives no event. `known`
    is the baseline's comment where every failure is known, else ''. `sentence` is that of the deciding finding, printable, '' for
    a cell without findings. `seconds` is the wall time, or None for a cell that was cut short.
    """

    header: CellHeader
    slug: str
    name: str
    outcome: Outcome
    sentence: str
    verdicts: tuple[Verdict, ...]
    evidence_locations: tuple[EvidenceLocation | None, ...]
    cut_short: bool = False
    known: str = ""
    seconds: float | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The sentences of the remarks, each cut at 400 characters; a cell that did not pass may have remarks too."""
        return tuple(visible(verdict.sentence, 400) for verdict in self.verdicts if verdict.remark)

    @property
    def deciding_location(self) -> EvidenceLocation | None:
        """The first evidence location of the verdicts with the cell's outcome, or None without one."""
        pairs = zip(self.verdicts, self.evidence_locations, strict=True)
        return next((loc for verdict, loc in pairs if loc is not None and verdict.outcome is self.outcome), None)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run: its header, its footer (None where the run has not ended), its readable cells in the order of their slugs.

    `damage` has a line `file:line: why` for each line or file that could not be read.
    """

    header: RunHeader
    footer: RunFooter | None
    cells: tuple[CellSummary, ...]
    damage: tuple[str, ...] = ()

    @property
    def candidates(self) -> tuple[str, ...]:
        """The names of the candidates in the header's order, then names that only cells have."""
        names = [candidate.name for candidate in self.header.candidates]
        return tuple(dict.fromkeys([*names, *(cell.header.candidate for cell in self.cells)]))

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The ids of the scenarios, ordered by file and line."""
        places = {(cell.header.path, cell.header.line, cell.header.scenario) for cell in self.cells}
        return tuple(dict.fromkeys(scenario for _, _, scenario in sorted(places)))

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """Outcome -> number of cells; every outcome has an entry."""
        counts = Counter(cell.outcome for cell in self.cells)
        return {outcome: counts[outcome] for outcome in OVER_CELLS}

    def notes(self) -> tuple[str, ...]:
        """Return sentences about cells that were run again, and about cells with remarks, followed by the rows violated there.

        () where there are no such cells.
        """
        again = len(self.footer.again) if self.footer is not None else 0
        cells = "1 cell was" if again == 1 else f"{again} cells were"
        run_again = f"{cells} run once more, alone: the harness was late while other cells ran"
        run_again += f" (first attempts: {LATE_FOLDER}/)"
        remarked = sum(bool(cell.remarks) for cell in self.cells)
        have = "1 cell has" if remarked == 1 else f"{remarked} cells have"
        broken = f"{have} a remark: a `should` row is broken there"
        rows = (verdict.requirements[0] for cell in self.cells for verdict in cell.verdicts if verdict.remark)
        clauses = (clause_of(row) for row in sorted(set(rows)))
        return (*((run_again,) if again else ()), *((broken, *clauses) if remarked else ()))

    def shortfalls(self) -> tuple[str, ...]:
        """Return the reasons why the run is not a complete run of the suite; none for a complete one.

        It may be filtered, without an end, interrupted or damaged, and cells may be missing or cut short.
        """
        reasons = []
        if self.header.filtered:
            reasons.append("only a part of the suite was asked for")
        if self.footer is None:
            reasons.append("the run has no end")
        elif self.footer.interrupted:
            reasons.append("the run was interrupted")
        if missing := self.header.cells_planned - len(self.cells):
            reasons.append(
                f"{len(self.cells)} of {self.header.cells_planned} planned cells were run ({missing} missing)"
            )
        if cut := sum(cell.cut_short for cell in self.cells):
            reasons.append(f"{cut} cells were cut short")
        if self.damage:
            reasons.append(f"{len(self.damage)} lines or files could not be read")
        return tuple(reasons)


def read_run_summary(
    run_dir: Path, *, corpus: Path | None = None, on_cell: Callable[[CellView, str], None] | None = None
) -> RunSummary:
    """Read a run directory, one cell at a time, and return its summary; call `on_cell` with each cell's view and slug.

    Without `on_cell`, events are parsed only for cells with a verdict whose evidence must be located. Scenarios' files are
    read from the directory `corpus`, if given. Raises RunDirectoryError, SchemaTooNew.
    """
    run = read_run(run_dir)
    unreadable_cells: list[Damage] = []
    cells: list[CellSummary] = []
    damage: list[str] = []
    for stored in run.cells(unreadable_cells, unparsed=None if on_cell else EVENT_LINES):
        if stored.unparsed and any(map(_needs_events, stored.verdicts)):
            stored = read_cell(stored.path)  # the same cell, with its events
        cell = view_stored_cell(stored, corpus)
        if on_cell is not None:
            on_cell(cell, stored.slug)
        damage += map(str, stored.damage)
        seconds = stored.footer.wall_seconds if stored.footer is not None else None
        cells.append(summarize_cell(cell, stored.slug, seconds))
    return RunSummary(
        header=run.header, footer=run.footer, cells=tuple(cells), damage=(*map(str, unreadable_cells), *damage)
    )


def _needs_events(verdict: Verdict) -> bool:
    """Return whether the summary of a verdict has an evidence location, for which the cell's events are needed.

    A finding without evidence, but about a message, is located at the last attempt to send the message.
    """
    return verdict.outcome is not Outcome.PASS and (bool(verdict.evidence) or verdict.message is not None)


def summarize_cell(cell: CellView, slug: str, seconds: float | None = None) -> CellSummary:
    """Return the summary of a cell; `slug` names its file, `seconds` is its wall time, None if it was cut short."""
    return CellSummary(
        header=cell.header,
        slug=slug,
        name=cell.name,
        outcome=cell.outcome,
        sentence=deciding_sentence(cell),
        verdicts=tuple(cell.verdicts),
        evidence_locations=tuple(
            None if verdict.outcome is Outcome.PASS else locate_evidence(verdict, cell) for verdict in cell.verdicts
        ),
        cut_short=cell.cut_short,
        known=cell.known,
        seconds=seconds,
    )


def cells_of_candidate(cells: Sequence[CellSummary], candidate: str) -> tuple[CellSummary, ...]:
    """Return the cells whose candidate has this name."""
    return tuple(cell for cell in cells if cell.header.candidate == candidate)


@dataclass(frozen=True, slots=True)
class MatrixSquare:
    """The cells of one scenario and one candidate; no cells where that candidate did not run the scenario."""

    cells: tuple[CellSummary, ...]

    @property
    def outcome(self) -> Outcome | None:
        """The worst outcome over the cells, or None without cells."""
        return worst_over_cells(cell.outcome for cell in self.cells)

    @property
    def counts(self) -> tuple[tuple[Outcome, int], ...]:
        """The outcomes of the cells with their numbers, the worst outcome first, without zeros."""
        counts = Counter(cell.outcome for cell in self.cells)
        return tuple((outcome, counts[outcome]) for outcome in OVER_CELLS if counts[outcome])


@dataclass(frozen=True, slots=True)
class MatrixLine:
    """One scenario: its title and file, and a square for each candidate of the run in their order."""

    scenario: str
    title: str
    path: str
    squares: tuple[MatrixSquare, ...]

    @property
    def folder(self) -> str:
        """The folder of the scenario's file; pages group scenarios by it."""
        return self.path.rpartition("/")[0] or "."

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of the line's cells, each once, the worst first."""
        present = {cell.outcome for square in self.squares for cell in square.cells}
        return tuple(outcome for outcome in OVER_CELLS if outcome in present)


def outcome_matrix(run: RunSummary) -> tuple[MatrixLine, ...]:
    """Return a line for each scenario of a run, in the order of `RunSummary.scenarios`."""
    by_scenario: dict[str, list[CellSummary]] = {}
    for cell in run.cells:
        by_scenario.setdefault(cell.header.scenario, []).append(cell)
    return tuple(_matrix_line(by_scenario[scenario], run.candidates) for scenario in run.scenarios)


def _matrix_line(cells: Sequence[CellSummary], candidates: Sequence[str]) -> MatrixLine:
    """Return the line of a scenario, from its cells of all candidates, at least one; title and file are the first cell's."""
    header = cells[0].header
    squares = tuple(MatrixSquare(cells_of_candidate(cells, candidate)) for candidate in candidates)
    return MatrixLine(scenario=header.scenario, title=header.title, path=header.path, squares=squares)
