"""A whole run in memory, without its events: what the run's page, the statement and the comparison are made of. What
its violations come from are causes: the rows that are violated, each with those that may follow from it.
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
    """One cell of the book; `slug` is the name of its file and of its page.

    `offences` has for each of the verdicts what it points at; None for a pass, and for what points at nothing.
    `known` is the baseline's comment when all that failed is known to.
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
        """The sentences of the broken `should` rows with which the cell passed."""
        return tuple(visible(verdict.sentence, 400) for verdict in self.verdicts if verdict.remark)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run: its header, its footer (None when it did not end), and its cells in the order of their files."""

    header: RunHeader
    footer: RunFooter | None
    cells: tuple[CellSummary, ...]
    damage: tuple[str, ...] = ()

    @property
    def candidates(self) -> tuple[str, ...]:
        """Who was judged, in the header's order; then whoever has cells all the same."""
        named = [one.name for one in self.header.candidates]
        return tuple(dict.fromkeys([*named, *(cell.header.candidate for cell in self.cells)]))

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios, by file and then in it."""
        places = {(cell.header.path, cell.header.line, cell.header.scenario) for cell in self.cells}
        return tuple(dict.fromkeys(scenario for _, _, scenario in sorted(places)))

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """How many cells ended how; every outcome has an entry."""
        counts = Counter(cell.outcome for cell in self.cells)
        return {outcome: counts[outcome] for outcome in OVER_CELLS}

    def remarks(self) -> tuple[str, ...]:
        """Return what a reader has to know of how the run came to its verdicts, in words."""
        again = len(self.footer.again) if self.footer is not None else 0
        cells = "1 cell was" if again == 1 else f"{again} cells were"
        words = (
            f"{cells} run once more, alone: the harness had been late beside others (first attempts: {LATE_FOLDER}/)"
        )
        noted = sum(bool(cell.remarks) for cell in self.cells)
        passed = f"{noted} {'cell' if noted == 1 else 'cells'} passed with a remark: a `should` row is broken there"
        rows = (verdict.requirements[0] for cell in self.cells for verdict in cell.verdicts if verdict.remark)
        clauses = (clause_of(row) for row in sorted(set(rows)))
        return (*((words,) if again else ()), *((passed, *clauses) if noted else ()))

    def shortfalls(self) -> tuple[str, ...]:
        """Return why the run is no whole run of the suite, in words; nothing when it is one."""
        found = []
        if self.header.filtered:
            found.append("only a part of the suite was asked for")
        if self.footer is None:
            found.append("the run has no end")
        elif self.footer.interrupted:
            found.append("the run was interrupted")
        if missing := self.header.cells_planned - len(self.cells):
            found.append(
                f"{len(self.cells)} of {self.header.cells_planned} planned cells are there ({missing} missing)"
            )
        if cut := sum(cell.cut_short for cell in self.cells):
            found.append(f"{cut} cells were cut short")
        if self.damage:
            found.append(f"{len(self.damage)} lines or files could not be read")
        return tuple(found)


def read_run_summary(
    run_dir: Path, *, corpus: Path | None = None, on_cell: Callable[[CellView, str], None] | None = None
) -> RunSummary:
    """Read a run directory; `on_cell` is called with every cell and its slug while it is in memory with its events.

    Without `on_cell` the events of a cell in which all is well are not read: nothing of the book is made of them.
    `corpus` is where scenarios' texts are looked for. Raises RunDirectoryError, SchemaTooNew.
    """
    run = read_run(run_dir)
    unread: list[Damage] = []
    cells: list[CellSummary] = []
    damage: list[str] = []
    for found in run.cells(unread, unparsed=None if on_cell else EVENT_LINES):
        cell = read_cell(found.path) if found.unparsed and any(map(_points_at_events, found.verdicts)) else found
        material = view_stored_cell(cell, corpus)
        slug = cell.slug
        if on_cell is not None:
            on_cell(material, slug)
        damage += [str(one) for one in cell.damage]
        cells.append(summarize_cell(material, slug, cell.footer.wall_seconds if cell.footer is not None else None))
    return RunSummary(run.header, run.footer, tuple(cells), (*(str(one) for one in unread), *damage))


def _points_at_events(verdict: Verdict) -> bool:
    return (verdict.outcome is not Outcome.PASS or verdict.remark) and (
        bool(verdict.evidence) or verdict.message is not None
    )


def summarize_cell(material: CellView, slug: str, seconds: float | None = None) -> CellSummary:
    """Return a cell's entry; `seconds` is how long it took."""
    return CellSummary(
        header=material.header,
        slug=slug,
        name=material.name,
        outcome=material.outcome,
        sentence=deciding_sentence(material),
        verdicts=tuple(material.verdicts),
        evidence_locations=tuple(
            None if verdict.outcome is Outcome.PASS else locate_evidence(verdict, material)
            for verdict in material.verdicts
        ),
        cut_short=material.cut_short,
        known=material.known,
        seconds=seconds,
    )


def cells_of_candidate(cells: Sequence[CellSummary], candidate: str) -> tuple[CellSummary, ...]:
    """Return the cells that a candidate played."""
    return tuple(cell for cell in cells if cell.header.candidate == candidate)


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
