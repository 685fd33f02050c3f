"""What did not pass, put together: by the requirement that is blamed, and by the sentence where none is."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.report.book import Book, Entry, of_candidate
from conformance.report.causes import blamed
from conformance.report.failure import clause_of
from conformance.requirements.catalogue import Catalogue
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OVER_CELLS, TO_REPORT

_CHANGING = re.compile(r"\b(?:[0-9a-f]{8,}|\d+(?:\.\d+)?)\b|/\S+")
"""Ports, times, digests and paths: what differs between two sentences about the same thing."""
_WORST = 4
"""Groups of requirements that a candidate's summary names."""


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that did not pass for the same reason: `title` is the requirement with its text, or the sentence."""

    outcome: Outcome
    title: str
    cells: tuple[Entry, ...]
    same: bool = False
    """Whether one of the cells says it all: nothing was judged in any of them, and each says the same."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How a candidate's cells ended, and in which groups of requirements most failed: name, failed, of how many."""

    candidate: str
    counts: dict[Outcome, int]
    worst: tuple[tuple[str, int, int], ...]


def grouped(cells: Sequence[Entry]) -> tuple[Group, ...]:
    """Return the cells that did not pass in groups: violations first, then errors, then what is inconclusive.

    Violations keep the order of `cells`, in which those of a cause stand together; of the others the largest groups
    come first.
    """
    found: dict[tuple[Outcome, str], list[Entry]] = {}
    for cell in cells:
        if cell.outcome in TO_REPORT:
            found.setdefault((cell.outcome, _reason(cell)), []).append(cell)
    groups = [_group(outcome, reason, own) for (outcome, reason), own in found.items()]
    return tuple(sorted(groups, key=lambda one: (OVER_CELLS.index(one.outcome), _size(one))))


def _size(group: Group) -> int:
    return 0 if group.outcome is Outcome.FAIL else -len(group.cells)


def summaries(book: Book, catalogue: Catalogue) -> tuple[Summary, ...]:
    """Return a summary for each candidate of the run, in its order."""
    return tuple(_summary(name, of_candidate(book.cells, name), catalogue) for name in book.candidates)


def _reason(cell: Entry) -> str:
    if (row := blamed(cell)) and cell.outcome is not Outcome.ERROR:
        return row
    return f"{cell.header.candidate}: {_CHANGING.sub('*', cell.sentence)}"


def _group(outcome: Outcome, reason: str, cells: list[Entry]) -> Group:
    if (row := blamed(cells[0])) == reason:
        return Group(outcome, clause_of(row), tuple(cells))
    said = cells[0].sentence or ("cut short: the run ended in this cell" if cells[0].cut_short else str(outcome))
    return Group(outcome, f"{cells[0].header.candidate}: {said}", tuple(cells), outcome is Outcome.ERROR)


def _summary(candidate: str, cells: Sequence[Entry], catalogue: Catalogue) -> Summary:
    counts = Counter(cell.outcome for cell in cells)
    failed, judged = Counter[str](), Counter[str]()
    for cell in cells:
        row = catalogue.get(blamed(cell) or next(iter(cell.header.requirements), ""))
        if row is not None and cell.outcome is not Outcome.NOT_APPLICABLE:
            judged[row.group] += 1
            failed[row.group] += cell.outcome is Outcome.FAIL
    worst = tuple((group, count, judged[group]) for group, count in failed.most_common(_WORST) if count)
    return Summary(candidate, {outcome: counts[outcome] for outcome in OVER_CELLS}, worst)
