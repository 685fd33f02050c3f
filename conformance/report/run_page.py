"""The page of a run: summary, failures, matrix, and requirements.

Cells that did not pass are grouped by the requirement that is blamed; those without one, and errors, by candidate and sentence.
The blamed requirement is the first one of the first verdict with the cell's outcome and a requirement. An entry of the table of
requirements is a tuple of a row for the requirement's text, the rows with the verdicts for all candidates, and the worst of their
outcomes. `site` calls `run_page`. The *trend* has a line for each earlier run and this one, with a bar of the cells' outcomes.
The template calls some functions of this module.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.report.earlier_runs import EarlierOutcome, EarlierRun, find_flaky_outcome
from conformance.report.failure_text import clause_of
from conformance.report.rendering import render_page
from conformance.report.requirement_rows import RequirementRow, requirement_rows
from conformance.report.root_causes import blamed_requirement, find_root_causes, order_by_root_cause
from conformance.report.run_summary import CellSummary, MatrixLine, RunSummary, cells_of_candidate, outcome_matrix
from conformance.requirements.catalogue import Catalogue
from conformance.results.schema import RunHeader
from conformance.verdicts import Outcome, worst_over_cells
from conformance.verdicts.outcome import NOT_OK_OUTCOMES, OVER_CELLS

_VARIABLE_PART = re.compile(r"\b(?:[0-9a-f]{8,}|\d+(?:\.\d+)?)\b|/\S+")
"""Ports, times, digests and paths, in which two sentences about the same problem differ."""
_MAX_WORST_GROUPS = 4
"""Groups of requirements that a candidate's summary names."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Cells that did not pass for the same reason; `title` is the blamed requirement with its text, or candidate and sentence."""

    outcome: Outcome
    title: str
    cells: tuple[CellSummary, ...]
    identical: bool = False
    """Whether all cells ended in the same error, so that showing one of them is enough."""


@dataclass(frozen=True, slots=True)
class CandidateSummary:
    """One candidate: its cells by outcome, and the groups of requirements with most failures.

    `worst` has (group, failed cells, judged cells) for each of those groups.
    """

    candidate: str
    counts: dict[Outcome, int]
    worst: tuple[tuple[str, int, int], ...]


def group_failures(cells: Sequence[CellSummary]) -> tuple[FailureGroup, ...]:
    """Return the failed, erroneous and inconclusive cells in groups, in that order of outcomes.

    Groups of violations keep the order of `cells` (`order_by_root_cause`); of the others the largest come first.
    """
    by_key: dict[tuple[Outcome, str], list[CellSummary]] = {}
    for cell in cells:
        if cell.outcome in NOT_OK_OUTCOMES:
            by_key.setdefault((cell.outcome, _group_key(cell)), []).append(cell)
    groups = [_make_group(outcome, key, members) for (outcome, key), members in by_key.items()]
    return tuple(sorted(groups, key=lambda group: (OVER_CELLS.index(group.outcome), _size_rank(group))))


def _size_rank(group: FailureGroup) -> int:
    """Return a sort key: largest groups first, except that violations keep their order."""
    return 0 if group.outcome is Outcome.FAIL else -len(group.cells)


def candidate_summaries(run: RunSummary, catalogue: Catalogue) -> tuple[CandidateSummary, ...]:
    """Return a summary of each candidate, in the run's order."""
    return tuple(_summarize_candidate(name, cells_of_candidate(run.cells, name), catalogue) for name in run.candidates)


def _group_key(cell: CellSummary) -> str:
    """Return what a cell has in common with its group: the blamed row, or candidate and sentence without variable parts.

    An error always has the latter.
    """
    if (row := blamed_requirement(cell)) and cell.outcome is not Outcome.ERROR:
        return row
    return f"{cell.header.candidate}: {_VARIABLE_PART.sub('*', cell.sentence)}"


def _make_group(outcome: Outcome, key: str, cells: list[CellSummary]) -> FailureGroup:
    """Return the group of cells with this key (`_group_key`), with the title made from the first cell."""
    if (row := blamed_requirement(cells[0])) == key:
        return FailureGroup(outcome, title=clause_of(row), cells=tuple(cells))
    sentence = cells[0].sentence or ("cut short: the run ended in this cell" if cells[0].cut_short else str(outcome))
    title = f"{cells[0].header.candidate}: {sentence}"
    return FailureGroup(outcome, title, cells=tuple(cells), identical=outcome is Outcome.ERROR)


def _summarize_candidate(candidate: str, cells: Sequence[CellSummary], catalogue: Catalogue) -> CandidateSummary:
    """Return the summary of a candidate from its cells.

    A cell counts for the group of its blamed requirement, else of its scenario's first one. A cell that is not applicable, or has
    no requirement of the catalogue, counts for no group.
    """
    counts = Counter(cell.outcome for cell in cells)
    failed, judged = Counter[str](), Counter[str]()
    for cell in cells:
        row = catalogue.get(blamed_requirement(cell) or next(iter(cell.header.requirements), ""))
        if row is not None and cell.outcome is not Outcome.NOT_APPLICABLE:
            judged[row.group] += 1
            failed[row.group] += cell.outcome is Outcome.FAIL
    worst = tuple((group, count, judged[group]) for group, count in failed.most_common(_MAX_WORST_GROUPS) if count)
    return CandidateSummary(candidate, counts={outcome: counts[outcome] for outcome in OVER_CELLS}, worst=worst)


CARDS = 5
"""Cells of a group that are shown as cards; each further one is one line."""


def run_page(
    run: RunSummary,
    catalogue: Catalogue,
    *,
    pages: Mapping[str, str] | None = None,
    others: str = "",
    statements: Mapping[str, str] | None = None,
    allure: str = "",
    earlier: Sequence[EarlierRun] = (),
    earlier_outcomes_by_slug: Mapping[str, Sequence[EarlierOutcome]] | None = None,
) -> str:
    """Return the HTML page of a run; it is self-contained.

    `pages` maps the slugs of cells that have a page to links; `others` is the command that writes the other pages, or ''.
    `statements` maps candidates to links to their statements, `allure` is the link to Allure's site or ''. `earlier` has the
    earlier runs, the oldest first, and `earlier_outcomes_by_slug` maps the slug of a cell to its outcomes in them.
    """
    root_causes = find_root_causes(run.cells)
    by_outcome = [cell for outcome in NOT_OK_OUTCOMES for cell in run.cells if cell.outcome is outcome]
    not_ok = order_by_root_cause(by_outcome, root_causes)
    lines = outcome_matrix(run)
    rows = _rows_of_all_candidates(run, catalogue)
    shown = (
        rows
        if _may_claim_shadow_redundancy(run)
        else [entry for entry in rows if catalogue[entry[0].id].profile == "relay"]
    )
    by_group: dict[str, list[tuple[RequirementRow, list[RequirementRow], Outcome]]] = {}
    for entry in shown:
        by_group.setdefault(entry[0].group, []).append(entry)
    # Then the page's filter by outcome hides these cells at first.
    mostly_not_applicable = 2 * run.outcomes[Outcome.NOT_APPLICABLE] > len(run.cells)
    return render_page(
        "run.html.j2",
        script="run.js",
        run=run,
        lines=lines,
        folders=tuple(dict.fromkeys(line.folder for line in lines)),
        causes=root_causes,
        failure_groups=group_failures([cell for cell, _ in not_ok]),
        roots={cell.slug: root for cell, root in not_ok if root},
        cards=CARDS,
        summaries=candidate_summaries(run, catalogue),
        folder_counts=_folder_counts,
        row_counts=_row_counts,
        order={outcome: rank for rank, outcome in enumerate(OVER_CELLS)},
        unchecked=(Outcome.NOT_APPLICABLE,) if mostly_not_applicable else (),
        remarked=[cell for cell in run.cells if cell.remarks],
        bars=_bars(run.outcomes),
        trend=_trend(run, earlier),
        earlier_outcomes_by_slug=earlier_outcomes_by_slug or {},
        find_flaky=find_flaky_outcome,
        by_group=by_group,
        left_out=len(rows) - len(shown),
        groups=catalogue.groups,
        pages=pages or {},
        others=others,
        statements=statements or {},
        allure=allure,
        deciding_verdict=_deciding_verdict,
    )


def _may_claim_shadow_redundancy(run: RunSummary) -> bool:
    """Return whether a candidate claims shadow redundancy, or has no recorded claims so that this is not known.

    Otherwise the page shows only the requirements on plain relays (the catalogue's profile `relay`).
    """
    claims = [candidate.claims for candidate in run.header.candidates]
    return not all(claims) or any(
        claim.startswith("shadow") for candidate_claims in claims for claim in candidate_claims
    )


def _folder_counts(lines: Sequence[MatrixLine], folder: str) -> list[tuple[Outcome, int]]:
    """Return the outcomes of the cells of one folder's scenarios with their numbers, the worst first, without zeros."""
    cells = [cell for line in lines if line.folder == folder for square in line.squares for cell in square.cells]
    return _nonzero_counts(cell.outcome for cell in cells)


def _row_counts(rows: Sequence[tuple[RequirementRow, list[RequirementRow], Outcome]]) -> list[tuple[Outcome, int]]:
    """Return the outcomes of these entries of the table of requirements with their numbers, the worst first, without zeros."""
    return _nonzero_counts(worst for _, _, worst in rows)


def _nonzero_counts(outcomes: Iterable[Outcome]) -> list[tuple[Outcome, int]]:
    """Return the outcomes that occur with their numbers, the worst outcome first."""
    counts = Counter(outcomes)
    return [(outcome, counts[outcome]) for outcome in OVER_CELLS if counts[outcome]]


def _bars(outcomes: Mapping[Outcome, int]) -> list[tuple[Outcome, float, float]]:
    """Return the pieces of a bar of outcomes: (outcome, begin, length), in percent of the bar, the worst first.

    `outcomes` has the number of cells by outcome. An outcome without cells has no piece.
    """
    total, begin, bars = max(sum(outcomes.values()), 1), 0.0, []
    for outcome in OVER_CELLS:
        length = 100 * outcomes.get(outcome, 0) / total
        if length:
            bars.append((outcome, begin, length))
        begin += length
    return bars


def _trend(run: RunSummary, earlier: Sequence[EarlierRun]) -> list[dict[str, Any]]:
    """Return the template's variables of a line for each earlier run and for this one; no lines without earlier runs."""
    lines = [_trend_line(run_before.header, run_before.footer.outcomes, run.header) for run_before in earlier]
    return [*lines, _trend_line(run.header, run.outcomes, run.header)] if lines else []


def _trend_line(header: RunHeader, outcomes: Mapping[Outcome, int], current: RunHeader) -> dict[str, Any]:
    """Return the template's variables of a run's line; `differs` names what is different from the current run."""
    hashes, current_hashes = ({c.name: c.sha256 for c in run.candidates} for run in (header, current))
    differs = {
        "candidates": hashes != current_hashes,
        "suite": header.suite_sha256 != current.suite_sha256,
        "environment": header.environment_sha256 != current.environment_sha256,
        "seed": header.seed != current.seed,
        "clock": (header.clock, header.scale) != (current.clock, current.scale),
    }
    return {
        "run": header.run,
        "when": header.started,
        "bars": _bars(outcomes),
        "counts": [(outcome, outcomes[outcome]) for outcome in OVER_CELLS if outcomes.get(outcome)],
        "differs": [name for name, is_different in differs.items() if is_different],
    }


def _rows_of_all_candidates(
    run: RunSummary, catalogue: Catalogue
) -> list[tuple[RequirementRow, list[RequirementRow], Outcome]]:
    """Return the entry of each requirement for the table of requirements; none for a run without candidates."""
    by_candidate = [requirement_rows(cells_of_candidate(run.cells, name), catalogue) for name in run.candidates]
    joined = []
    for rows in zip(*by_candidate, strict=True):
        worst = worst_over_cells(row.outcome for row in rows)
        if worst is not None:
            joined.append((rows[0], list(rows), worst))
    return joined


def _deciding_verdict(cell: CellSummary) -> list[dict[str, Any]]:
    """Return a list of one dictionary for the first verdict with the cell's outcome; an empty list where no verdict has it.

    It is a list so that the template can use it in a loop. `clause` is the requirement with its text, '' for none; `place` the
    scenario's file and line; `location` the offending event, None for none.
    """
    for verdict, location in zip(cell.verdicts, cell.evidence_locations, strict=True):
        if verdict.outcome is cell.outcome:
            place = f"{cell.header.path}:{verdict.line or cell.header.line}"
            clause = clause_of(verdict.requirements[0]) if verdict.requirements else ""
            return [{"clause": clause, "place": place, "location": location}]
    return []
