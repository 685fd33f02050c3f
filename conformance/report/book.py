"""A whole run in memory, without its events: what the run's page, the statement and the comparison are made of."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.report.failure import clause_of, headline
from conformance.report.material import Material, stored
from conformance.report.offence import Offence, offence_of
from conformance.report.safe import visible
from conformance.results.layout import LATE
from conformance.results.reader import EVENTS, Damage, read_cell, read_run
from conformance.results.schema import CellHeader, RunFooter, RunHeader
from conformance.verdicts import Outcome, Verdict
from conformance.verdicts.outcome import OVER_CELLS


@dataclass(frozen=True, slots=True)
class Entry:
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
    offences: tuple[Offence | None, ...]
    cut_short: bool = False
    known: str = ""
    seconds: float | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The sentences of the broken `should` rows with which the cell passed."""
        return tuple(visible(verdict.sentence, 400) for verdict in self.verdicts if verdict.remark)


@dataclass(frozen=True, slots=True)
class Book:
    """A run: its header, its footer (None when it did not end), and its cells in the order of their files."""

    header: RunHeader
    footer: RunFooter | None
    cells: tuple[Entry, ...]
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
        words = f"{cells} run once more, alone: the harness had been late beside others (first attempts: {LATE}/)"
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


def read_book(
    run_dir: Path, *, corpus: Path | None = None, each: Callable[[Material, str], None] | None = None
) -> Book:
    """Read a run directory; `each` is called with every cell and its slug while it is in memory with its events.

    Without `each` the events of a cell in which all is well are not read: nothing of the book is made of them.
    `corpus` is where scenarios' texts are looked for. Raises RunDirectoryError, SchemaTooNew.
    """
    run = read_run(run_dir)
    unread: list[Damage] = []
    cells: list[Entry] = []
    damage: list[str] = []
    for found in run.cells(unread, aside=None if each else EVENTS):
        cell = read_cell(found.path) if found.aside and any(map(_points_at_events, found.verdicts)) else found
        material = stored(cell, corpus)
        slug = cell.name
        if each is not None:
            each(material, slug)
        damage += [str(one) for one in cell.damage]
        cells.append(entry(material, slug, cell.footer.wall_seconds if cell.footer is not None else None))
    return Book(run.header, run.footer, tuple(cells), (*(str(one) for one in unread), *damage))


def _points_at_events(verdict: Verdict) -> bool:
    return (verdict.outcome is not Outcome.PASS or verdict.remark) and (
        bool(verdict.evidence) or verdict.message is not None
    )


def entry(material: Material, slug: str, seconds: float | None = None) -> Entry:
    """Return a cell's entry; `seconds` is how long it took."""
    return Entry(
        header=material.header,
        slug=slug,
        name=material.name,
        outcome=material.outcome,
        sentence=headline(material),
        verdicts=tuple(material.verdicts),
        offences=tuple(
            None if verdict.outcome is Outcome.PASS else offence_of(verdict, material) for verdict in material.verdicts
        ),
        cut_short=material.cut_short,
        known=material.known,
        seconds=seconds,
    )


def of_candidate(cells: Sequence[Entry], candidate: str) -> tuple[Entry, ...]:
    """Return the cells that a candidate played."""
    return tuple(cell for cell in cells if cell.header.candidate == candidate)
