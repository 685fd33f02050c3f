"""The requirement ledger: for each row of the catalogue what the cells of one candidate say about it, and on what
evidence. Rows that nobody judged are in it too, with the reason.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from conformance.report.run_summary import CellSummary
from conformance.requirements.catalogue import Catalogue, Requirement
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import outcome_for_row, worst_over_cells

MAX_EVIDENCE = 20
"""So many pieces of evidence are listed with a row; all of them are counted."""


class RowEvidence(BaseModel):
    """One check of one cell that speaks for the row's verdict; `events` are numbers in that cell's history.

    `place` is the scenario's file and line. `exchange` and `message` tell a stranger what the first of the events was
    and which message it was about; both are '' for a pass.
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
    """A requirement and its verdict. `judged` counts the checks behind it, `evidence` lists those that decided."""

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
    """Return the rows in force, in the catalogue's order, as these cells (of one candidate) decide them.

    `conformance.verdicts.outcome` has the rules by which the verdicts of checks decide a row.
    """
    found: dict[str, list[RowEvidence]] = {}
    for cell in cells:
        for requirement, evidence in _pieces(cell):
            found.setdefault(requirement, []).append(evidence)
    generations = {generation for cell in cells for generation in cell.header.generations}
    return tuple(
        _row(requirement, found.get(requirement.id, []), generations)
        for requirement in catalogue.requirements
        if requirement.retired is None
    )


def _pieces(cell: CellSummary) -> list[tuple[str, RowEvidence]]:
    pieces = []
    for verdict, location in zip(cell.verdicts, cell.evidence_locations, strict=True):
        for rank, requirement in enumerate(verdict.requirements):
            outcome = outcome_for_row(verdict.outcome, rank, cell.outcome)
            sentence = verdict.sentence
            if outcome is not verdict.outcome and outcome is Outcome.ERROR:
                sentence = f"the cell ended in an error: {cell.sentence}"
            elif outcome is not verdict.outcome:
                sentence = f"in doubt since {verdict.requirements[0]} is violated: {verdict.sentence}"
            pieces.append(
                (
                    requirement,
                    RowEvidence(
                        cell=cell.name,
                        slug=cell.slug,
                        check=verdict.check,
                        outcome=outcome,
                        sentence=sentence,
                        events=verdict.evidence,
                        place=f"{cell.header.path}:{verdict.line or cell.header.line}",
                        exchange=location.exchange if location is not None else "",
                        message=location.message if location is not None else "",
                    ),
                )
            )
    return pieces


def _row(requirement: Requirement, pieces: list[RowEvidence], generations: set[str]) -> RequirementRow:
    outcome = worst_over_cells(piece.outcome for piece in pieces)
    deciding = [piece for piece in pieces if piece.outcome is outcome]
    reason = ""
    if outcome is None:
        if generations and not requirement.binds(generations):
            outcome = Outcome.NOT_APPLICABLE
            reason = f"binds {', '.join(requirement.generations)} only, and no such server was run"
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
