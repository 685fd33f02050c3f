"""The requirement rows: for each row of the catalogue the verdict of one candidate's cells, with evidence.

`statement` and `run_page` show them. A *row* is a requirement; *evidence* of it is one check of one cell that judged it. Rows
that no check judged are included, as inconclusive or not applicable, with the reason.
"""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from conformance.report.run_summary import CellSummary
from conformance.requirements.catalogue import Catalogue, Requirement
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import outcome_for_row, worst_over_cells

MAX_EVIDENCE = 20
"""Pieces of evidence that are listed with a row; `RequirementRow.judged` counts all."""


class RowEvidence(BaseModel):
    """One check of one cell that judged a row; `events` are numbers of events in that cell's history.

    `place` is the scenario's file and line. `exchange` describes the offending event: the first of `events`, or without events
    the last attempt to send the message. `message` is the message that it was about. Both are '' for a pass, or where there
    is no such event.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cell: str
    slug: str
    check: str
    outcome: Outcome
    sentence: str
    events: tuple[int, ...]
    place: str = ""
    exchange: str = ""
    message: str = ""


class RequirementRow(BaseModel):
    """A requirement and its verdict. `judged` counts the checks of it, `evidence` lists those with the row's outcome."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    group: str
    level: str
    source: tuple[str, ...]
    text: str
    outcome: Outcome
    reason: str = ""
    judged: int = 0
    evidence: tuple[RowEvidence, ...] = ()


def requirement_rows(cells: Sequence[CellSummary], catalogue: Catalogue) -> tuple[RequirementRow, ...]:
    """Return the verdicts of these cells (of one candidate) on the rows that are not retired, in the catalogue's order.

    The worst outcome over all checks of a row decides, a violation before an error. A row without a check is inconclusive or not
    applicable. `conformance.verdicts.outcome` has the rules.
    """
    by_row: dict[str, list[RowEvidence]] = {}
    for cell in cells:
        for requirement, evidence in _evidence_of_cell(cell):
            by_row.setdefault(requirement, []).append(evidence)
    generations = {generation for cell in cells for generation in cell.header.generations}
    return tuple(
        _decide_row(requirement, by_row.get(requirement.id, []), generations)
        for requirement in catalogue.requirements
        if requirement.retired is None
    )


def _evidence_of_cell(cell: CellSummary) -> Iterator[tuple[str, RowEvidence]]:
    """Yield an (id of a row, evidence) pair for each verdict of a cell and each requirement of that verdict.

    A failed verdict violates its first requirement; the others are in doubt (inconclusive). In a cell that ended in an
    error every verdict counts as an error.
    """
    for verdict, location in zip(cell.verdicts, cell.evidence_locations, strict=True):
        for rank, requirement in enumerate(verdict.requirements):
            outcome = outcome_for_row(verdict.outcome, rank, cell.outcome)
            sentence = verdict.sentence
            if outcome is not verdict.outcome and outcome is Outcome.ERROR:
                sentence = f"the cell ended in an error: {cell.sentence}"
            elif outcome is not verdict.outcome:
                sentence = f"in doubt because {verdict.requirements[0]} is violated: {verdict.sentence}"
            evidence = RowEvidence(
                cell=cell.name,
                slug=cell.slug,
                check=verdict.check,
                outcome=outcome,
                sentence=sentence,
                events=verdict.evidence,
                place=f"{cell.header.path}:{verdict.line or cell.header.line}",
                exchange=location.exchange if location is not None else "",
                message=location.message if location is not None else "",
            )
            yield requirement, evidence


def _decide_row(requirement: Requirement, pieces: list[RowEvidence], generations: set[str]) -> RequirementRow:
    """Return the verdict on a row from all its evidence; `generations` are those of the servers that were run.

    The worst outcome decides. A row that no check judged is not applicable where servers were run and it binds none of their
    generations, else inconclusive. `judged` counts all evidence; listed is that with the row's outcome, `MAX_EVIDENCE` pieces at most.
    """
    outcome = worst_over_cells(piece.outcome for piece in pieces)
    deciding = [piece for piece in pieces if piece.outcome is outcome]
    reason = ""
    if outcome is None:
        if generations and not requirement.binds(generations):
            outcome = Outcome.NOT_APPLICABLE
            reason = f"binds {', '.join(requirement.generations)} only; no server of these generations was run"
        else:
            outcome, reason = Outcome.INCONCLUSIVE, "no check of this run judged it"
    elif outcome is not Outcome.PASS:
        reason = deciding[0].sentence
    return RequirementRow(
        id=requirement.id,
        group=requirement.group,
        level=requirement.level,
        source=requirement.source,
        text=requirement.text,
        outcome=outcome,
        reason=reason,
        judged=len(pieces),
        evidence=tuple(deciding[:MAX_EVIDENCE]),
    )
