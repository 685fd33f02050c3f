"""Renders the page of a run. What did not pass is put together by the requirement that is blamed, and by the sentence
where none is.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.report.earlier_runs import EarlierOutcome, EarlierRun, find_flaky_run
from conformance.report.failure_text import clause_of
from conformance.report.rendering import render_page
from conformance.report.requirement_rows import RequirementRow, requirement_rows
from conformance.report.root_causes import blamed_requirement, find_root_causes, order_by_root_cause
from conformance.report.run_summary import CellSummary, MatrixLine, RunSummary, cells_of_candidate, outcome_matrix
from conformance.requirements.catalogue import Catalogue
from conformance.results.schema import RunHeader
from conformance.verdicts import Outcome, worst_over_cells
from conformance.verdicts.outcome import NOT_OK_OUTCOMES, OVER_CELLS

_CHANGING = re.compile(r"\b(?:[0-9a-f]{8,}|\d+(?:\.\d+)?)\b|/\S+")
"""Ports, times, digests and paths: what differs between two sentences about the same thing."""
_WORST = 4
"""Groups of requirements that a candidate's summary names."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Cells that did not pass for the same reason: `title` is the requirement with its text, or the sentence."""

    outcome: Outcome
    title: str
    cells: tuple[CellSummary, ...]
    same: bool = False
    """Whether one of the cells says it all: nothing was judged in any of them, and each says the same."""


@dataclass(frozen=True, slots=True)
class CandidateSummary:
    """How a candidate's cells ended, and in which groups of requirements most failed: name, failed, of how many."""

    candidate: str
    counts: dict[Outcome, int]
    worst: tuple[tuple[str, int, int], ...]


def group_failures(cells: Sequence[CellSummary]) -> tuple[FailureGroup, ...]:
    """Return the cells that did not pass in groups: violations first, then errors, then what is inconclusive.

    Violations keep the order of `cells`, in which those of a cause stand together; of the others the largest groups
    come first.
    """
    found: dict[tuple[Outcome, str], list[CellSummary]] = {}
    for cell in cells:
        if cell.outcome in NOT_OK_OUTCOMES:
            found.setdefault((cell.outcome, _reason(cell)), []).append(cell)
    groups = [_group(outcome, reason, own) for (outcome, reason), own in found.items()]
    return tuple(sorted(groups, key=lambda one: (OVER_CELLS.index(one.outcome), _size(one))))


def _size(group: FailureGroup) -> int:
    return 0 if group.outcome is Outcome.FAIL else -len(group.cells)


def candidate_summaries(run: RunSummary, catalogue: Catalogue) -> tuple[CandidateSummary, ...]:
    """Return a summary for each candidate of the run, in its order."""
    return tuple(_summary(name, cells_of_candidate(run.cells, name), catalogue) for name in run.candidates)


def _reason(cell: CellSummary) -> str:
    if (row := blamed_requirement(cell)) and cell.outcome is not Outcome.ERROR:
        return row
    return f"{cell.header.candidate}: {_CHANGING.sub('*', cell.sentence)}"


def _group(outcome: Outcome, reason: str, cells: list[CellSummary]) -> FailureGroup:
    if (row := blamed_requirement(cells[0])) == reason:
        return FailureGroup(outcome, clause_of(row), tuple(cells))
    said = cells[0].sentence or ("cut short: the run ended in this cell" if cells[0].cut_short else str(outcome))
    return FailureGroup(outcome, f"{cells[0].header.candidate}: {said}", tuple(cells), outcome is Outcome.ERROR)


def _summary(candidate: str, cells: Sequence[CellSummary], catalogue: Catalogue) -> CandidateSummary:
    counts = Counter(cell.outcome for cell in cells)
    failed, judged = Counter[str](), Counter[str]()
    for cell in cells:
        row = catalogue.get(blamed_requirement(cell) or next(iter(cell.header.requirements), ""))
        if row is not None and cell.outcome is not Outcome.NOT_APPLICABLE:
            judged[row.group] += 1
            failed[row.group] += cell.outcome is Outcome.FAIL
    worst = tuple((group, count, judged[group]) for group, count in failed.most_common(_WORST) if count)
    return CandidateSummary(candidate, {outcome: counts[outcome] for outcome in OVER_CELLS}, worst)


CARDS = 5
"""Failures of a group that have a card; the others are a line each."""


def run_page(
    run: RunSummary,
    catalogue: Catalogue,
    *,
    pages: Mapping[str, str] | None = None,
    others: str = "",
    statements: Mapping[str, str] | None = None,
    allure: str = "",
    earlier: Sequence[EarlierRun] = (),
    pasts: Mapping[str, Sequence[EarlierOutcome]] | None = None,
) -> str:
    """Return the self-contained page of a run.

    `pages` has the page of each cell by the name of its file, for those that have one, and `others` the
    command that makes the others ('' when none is missing); `statements` has that of each candidate's statement; `allure` is the Allure site's. `earlier` are the runs before, the oldest first, and `pasts` has
    for the slug of a cell how it ended in them.
    """
    found = find_root_causes(run.cells)
    troubles = order_by_root_cause(
        [cell for outcome in NOT_OK_OUTCOMES for cell in run.cells if cell.outcome is outcome], found
    )
    lines = outcome_matrix(run)
    rows = _joined(run, catalogue)
    shown = rows if _claims_shadows(run) else [one for one in rows if catalogue[one[0].id].profile == "relay"]
    by_group: dict[str, list[tuple[RequirementRow, list[RequirementRow], Outcome]]] = {}
    for one in shown:
        by_group.setdefault(one[0].group, []).append(one)
    mostly_not_applicable = 2 * run.outcomes[Outcome.NOT_APPLICABLE] > len(run.cells)
    return render_page(
        "run.html.j2",
        script="run.js",
        run=run,
        lines=lines,
        folders=tuple(dict.fromkeys(line.folder for line in lines)),
        causes=found,
        troubles=group_failures([cell for cell, _ in troubles]),
        roots={cell.slug: root for cell, root in troubles if root},
        cards=CARDS,
        summaries=candidate_summaries(run, catalogue),
        counts=_counts,
        verdicts=_verdicts,
        order={outcome: place for place, outcome in enumerate(OVER_CELLS)},
        unchecked=(Outcome.NOT_APPLICABLE,) if mostly_not_applicable else (),
        remarked=[cell for cell in run.cells if cell.remarks],
        bars=_bars(run.outcomes),
        trend=_trend(run, earlier),
        pasts=pasts or {},
        flaky=find_flaky_run,
        by_group=by_group,
        left_out=len(rows) - len(shown),
        groups=catalogue.groups,
        pages=pages or {},
        others=others,
        statements=statements or {},
        allure=allure,
        first=_first_evidence,
        decisive=_decisive,
    )


def _claims_shadows(run: RunSummary) -> bool:
    """Whether a candidate claims shadow redundancy; one of which nothing is known is not taken for a relay."""
    claims = [one.claims for one in run.header.candidates]
    return not all(claims) or any(claim.startswith("shadow") for own in claims for claim in own)


def _counts(lines: Sequence[MatrixLine], folder: str) -> list[tuple[Outcome, int]]:
    cells = [cell for line in lines if line.folder == folder for square in line.squares for cell in square.cells]
    return _numbers(cell.outcome for cell in cells)


def _verdicts(rows: Sequence[tuple[RequirementRow, list[RequirementRow], Outcome]]) -> list[tuple[Outcome, int]]:
    return _numbers(telling for _, _, telling in rows)


def _numbers(outcomes: Iterable[Outcome]) -> list[tuple[Outcome, int]]:
    counts = Counter(outcomes)
    return [(outcome, counts[outcome]) for outcome in OVER_CELLS if counts[outcome]]


def _bars(outcomes: Mapping[Outcome, int]) -> list[tuple[Outcome, float, float]]:
    """Return the strip of outcomes: each with where it begins and how long it is, of a hundred."""
    whole, begin, bars = max(sum(outcomes.values()), 1), 0.0, []
    for outcome in OVER_CELLS:
        length = 100 * outcomes.get(outcome, 0) / whole
        if length:
            bars.append((outcome, begin, length))
        begin += length
    return bars


def _trend(run: RunSummary, earlier: Sequence[EarlierRun]) -> list[dict[str, Any]]:
    """Return a line for each run before and for this one; nothing when there was none before."""
    lines = [_line_of(past.header, past.footer.outcomes, run.header) for past in earlier]
    return [*lines, _line_of(run.header, run.outcomes, run.header)] if lines else []


def _line_of(header: RunHeader, outcomes: Mapping[Outcome, int], now: RunHeader) -> dict[str, Any]:
    then, here = ({one.name: one.sha256 for one in run.candidates} for run in (header, now))
    parts = {
        "candidates": then != here,
        "suite": header.suite_sha256 != now.suite_sha256,
        "environment": header.environment_sha256 != now.environment_sha256,
        "seed": header.seed != now.seed,
        "clock": (header.clock, header.scale) != (now.clock, now.scale),
    }
    return {
        "run": header.run,
        "when": header.started,
        "bars": _bars(outcomes),
        "counts": [(outcome, outcomes[outcome]) for outcome in OVER_CELLS if outcomes.get(outcome)],
        "differs": [name for name, other in parts.items() if other],
    }


def _joined(run: RunSummary, catalogue: Catalogue) -> list[tuple[RequirementRow, list[RequirementRow], Outcome]]:
    """Return each requirement with its row for every candidate, and the most telling of their verdicts."""
    ledgers = [requirement_rows(cells_of_candidate(run.cells, one), catalogue) for one in run.candidates]
    joined = []
    for rows in zip(*ledgers, strict=True):
        telling = worst_over_cells(row.outcome for row in rows)
        if telling is not None:
            joined.append((rows[0], list(rows), telling))
    return joined


def _first_evidence(cell: CellSummary) -> str:
    """Return the anchor of the offending event on a cell's page, with its `#`, or ''."""
    pairs = zip(cell.verdicts, cell.evidence_locations, strict=True)
    wanted = (
        location.event_number for verdict, location in pairs if location is not None and verdict.outcome is cell.outcome
    )
    return next((f"#e{number}" for number in wanted), "")


def _decisive(cell: CellSummary) -> list[dict[str, Any]]:
    """Return what is told of the verdict that decided a cell: clause, step, exchange; empty when none did."""
    for verdict, location in zip(cell.verdicts, cell.evidence_locations, strict=True):
        if verdict.outcome is cell.outcome:
            place = f"{cell.header.path}:{verdict.line or cell.header.line}"
            clause = clause_of(verdict.requirements[0]) if verdict.requirements else ""
            return [{"clause": clause, "place": place, "location": location}]
    return []
