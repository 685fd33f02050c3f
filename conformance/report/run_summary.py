"""A whole run in memory, without its events: what the run's page, the statement and the comparison are made of. What
its violations come from are causes: the rows that are violated, each with those that may follow from it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.report.cell_view import CellView, view_stored_cell
from conformance.report.escaping import visible
from conformance.report.evidence_location import EvidenceLocation, locate_evidence
from conformance.report.failure_text import clause_of, deciding_sentence
from conformance.requirements.consequences import independently_violated, root_violations
from conformance.results.layout import LATE_FOLDER
from conformance.results.reader import EVENT_LINES, Damage, read_cell, read_run
from conformance.results.schema import CellHeader, RunFooter, RunHeader
from conformance.verdicts import Outcome, Verdict
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
    offences: tuple[EvidenceLocation | None, ...]
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
    run_dir: Path, *, corpus: Path | None = None, each: Callable[[CellView, str], None] | None = None
) -> RunSummary:
    """Read a run directory; `each` is called with every cell and its slug while it is in memory with its events.

    Without `each` the events of a cell in which all is well are not read: nothing of the book is made of them.
    `corpus` is where scenarios' texts are looked for. Raises RunDirectoryError, SchemaTooNew.
    """
    run = read_run(run_dir)
    unread: list[Damage] = []
    cells: list[CellSummary] = []
    damage: list[str] = []
    for found in run.cells(unread, aside=None if each else EVENT_LINES):
        cell = read_cell(found.path) if found.aside and any(map(_points_at_events, found.verdicts)) else found
        material = view_stored_cell(cell, corpus)
        slug = cell.name
        if each is not None:
            each(material, slug)
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
        offences=tuple(
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
class RootCause:
    """A violated row of one candidate that presupposes no other violated one.

    `cells` counts the cells that lead to it, `following` names the violated rows that may follow from it, those with
    the most cells first.
    """

    candidate: str
    requirement: str
    cells: int
    following: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The cause in one line: `SR-CRE-01 is violated (90 cells); 25 rows may follow from it: ...`."""
        cells = "1 cell" if self.cells == 1 else f"{self.cells} cells"
        line = f"{self.requirement} is violated ({cells})"
        if not self.following:
            return line
        rows = "1 row" if len(self.following) == 1 else f"{len(self.following)} rows"
        return f"{line}; {rows} may follow from {self.requirement}: {', '.join(self.following)}"


def blamed_requirement(cell: CellSummary) -> str:
    """Return the row that a cell is put under: the first of the first verdict that decided it, or '' when there is none."""
    decided = (one for one in cell.verdicts if one.outcome is cell.outcome)
    return next((one.requirements[0] for one in decided if one.requirements), "")


def _violated(cell: CellSummary) -> str:
    """Return the row that a new violation in a cell is blamed on, or ''."""
    return blamed_requirement(cell) if cell.outcome is Outcome.FAIL and not cell.known else ""


def find_root_causes(cells: Sequence[CellSummary]) -> tuple[RootCause, ...]:
    """Return the causes of the violations in these cells, for each candidate the one with the most cells first; of those
    with equally many the one whose row fewer cells judge, of which it was thus violated in the larger part.

    A cell leads to the root of the row that its first violation is blamed on. A row follows from one that it
    presupposes if that is blamed in as many cells at least: what breaks a prerequisite breaks it more often than not.
    Where a cell shows that a row is broken by itself, it is the other way round: what it presupposes may follow from it.
    What is known to fail is left out.
    """
    found: list[RootCause] = []
    for candidate in dict.fromkeys(cell.header.candidate for cell in cells):
        own = [cell for cell in cells if cell.header.candidate == candidate]
        counted = Counter(row for row in map(_violated, own) if row)
        leading = independently_violated(cell.verdicts for cell in own if not cell.known)
        root = {row: _root(row, counted, leading) for row in counted}
        whole = Counter[str]()
        for row, number in counted.items():
            whole[root[row]] += number
        judged = Counter(row for cell in own for row in _judged(cell))
        for requirement, number in sorted(whole.items(), key=lambda pair: (-pair[1], judged[pair[0]], pair[0])):
            following = [row for row, _ in counted.most_common() if root[row] == requirement and row != requirement]
            found.append(RootCause(candidate, requirement, number, tuple(following)))
    return tuple(found)


def _judged(cell: CellSummary) -> frozenset[str]:
    """Return the rows that a cell was decided on: its scenario's, and that on which it is blamed."""
    decided = cell.outcome in (Outcome.PASS, Outcome.FAIL)
    return frozenset((*cell.header.requirements, *filter(None, [_violated(cell)]))) if decided else frozenset()


def _root(row: str, counted: Counter[str], leading: Mapping[str, frozenset[str]]) -> str:
    violated = {other for other in counted if counted[other] >= counted[row]}
    return root_violations(violated.union(leading, *leading.values()), independent=leading)[row]


def order_by_root_cause(cells: Sequence[CellSummary], found: Sequence[RootCause]) -> list[tuple[CellSummary, str]]:
    """Return the cells with the row that their violation may follow from ('' where there is none).

    Those of a cause stand together, its own first and then what may follow from it; causes are in the order of
    `found`. Cells that are not violations, or are known to be, come last, in their order.
    """
    place = {
        (cause.candidate, row): (number, row != cause.requirement)
        for number, cause in enumerate(found)
        for row in (cause.requirement, *cause.following)
    }
    last = (len(found), False)

    def rank(cell: CellSummary) -> tuple[int, bool]:
        return place.get((cell.header.candidate, _violated(cell)), last)

    return [(cell, found[rank(cell)[0]].requirement if rank(cell)[1] else "") for cell in sorted(cells, key=rank)]
