"""Baselines: files that list a candidate's known failures, each with the check and requirement that fail and a comment.

A *check* gives one verdict on a cell: an expectation of its scenario, or a rule of the model, which judges every cell. Where a scenario
*waives* a rule, that gives no verdict. How a cell is compared with its candidate's baseline (`compare_with_baseline`):

- A failure that an entry matches is known: the cell ends as an expected failure (xfail), with the entry's comment.
- An entry whose cell did not fail for its reason is stale, and makes the cell fail: the entry has to be removed.
- An entry with `sometimes` is about a race of the candidate, and is never stale.
- A failure that no entry matches is new, and the cell fails; one of a rule of the model (`model.`) about the requirement of an
  entry for the cell is explained by that entry.
- A cell that could not be judged is inconclusive: it never counts as the failure that was expected. So is a cell without a new
  failure in which the check of an entry could not be judged.
- A failure in a cell that did not exist when the baseline was written is reported as known, under "new since VERSION".

A draft (`--baseline write`) has an entry for every failure of a run, with the comment of the earlier baseline or one that has
to be written by hand, and the list of the run's cells.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator
from ruamel.yaml import YAML

from conformance.invariants import is_waived
from conformance.results.fingerprints import harness_version
from conformance.results.reader import read_run
from conformance.scenarios.errors import ProblemReport, format_problems
from conformance.scenarios.validation import validate
from conformance.scenarios.yaml_full import read_full_yaml
from conformance.verdicts import Outcome, Verdict

UNEXPLAINED = "say why:"
"""How the comment of a drafted entry begins; a baseline that still has it is not accepted."""

_RENUMBERED = {
    ("invariant.content-unchanged", "SR-CRE-06"): "RL-CNT-01",
    ("invariant.one-final-reply", "SR-CRE-05"): "RL-RPL-01",
    ("invariant.replies-well-formed", "SR-WIR-03"): "RL-RPL-02",
}
"""Check and requirement of version 0.1.0, and the requirement blamed now; keeps baselines of 0.1.0 valid."""

NEW_CELL = "new since "
"""How the text begins for a failure in a cell that the baseline does not list."""

_MAX_OCTETS = 16 * 2**20
_MAX_VALUES = 500_000
"""Limits of a baseline file: it may list every cell of a run with the full grid."""

WRITE = "write"
"""The value of `--baseline` that asks for a draft, in place of a file."""


class BaselineError(ValueError):
    """A baseline file cannot be used; the text says why."""


class _StrictModel(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MatrixCell(Protocol):
    """A cell that is run, or one that was stored."""

    @property
    def scenario(self) -> str:
        """The id of its scenario."""

    @property
    def axes(self) -> Mapping[str, str]:
        """Its value on each axis of the scenario's matrix."""


class JudgedCell(MatrixCell, Protocol):
    """A cell whose outcome is compared with a baseline."""

    @property
    def waive(self) -> Mapping[str, str]:
        """The invariants that its scenario waives, with the reason; entries about these cannot be stale."""


class KnownFailure(_StrictModel):
    """An entry of a baseline: the cells that fail, the check and the requirement, and why that is accepted."""

    scenario: str
    axes: dict[str, str] = Field({}, description="only cells with these axis values; default: all of the scenario")
    check: str = Field(description="the check that fails: `expect.mailbox`, `invariant.content-unchanged`")
    requirement: str = Field(description="the requirement that it blames first")
    comment: str = Field(min_length=10, description="why it fails, and where that is known from")
    sometimes: str | None = Field(
        None,
        min_length=10,
        description="of a race of the candidate's: what it depends on that it fails; default: always",
    )

    @field_validator("comment")
    @classmethod
    def _explained(cls, comment: str) -> str:
        """Return the comment. Raises ValueError for that of a draft, which was not replaced."""
        if comment.startswith(UNEXPLAINED):
            raise ValueError("a draft's comment: say why it fails, and how you know")
        return comment

    def covers(self, cell: MatrixCell) -> bool:
        """Whether the entry is about a cell: it has the scenario, and in its id the values on the entry's axes."""
        return self.scenario == cell.scenario and self.axes.items() <= cell.axes.items()

    def matches(self, verdict: Verdict) -> bool:
        """Whether a verdict has the entry's check, and the entry's requirement among those that it is about.

        Not only the first of them: which requirement is blamed first has changed between versions of the harness.
        """
        rows = (self.requirement, _RENUMBERED.get((self.check, self.requirement), self.requirement))
        return verdict.check == self.check and any(row in verdict.requirements for row in rows)

    def explains(self, verdict: Verdict) -> bool:
        """Whether a failure is known by the entry: it matches, or is that of a rule of the model about the same requirement.

        A rule that was added later sees the failure for which the entry was written in its own way.
        """
        return self.matches(verdict) or (
            verdict.check.startswith("model.") and self.requirement in verdict.requirements
        )


class Baseline(_StrictModel):
    """All known failures of one candidate."""

    candidate: str
    known: tuple[KnownFailure, ...] = ()
    harness: str | None = Field(None, description="the version of the harness that wrote the list of cells")
    cells: frozenset[str] | None = Field(
        None, description="ids of all cells of the run that it was written from; default: every cell there is"
    )

    def lists(self, cell: MatrixCell) -> bool:
        """Whether a cell is one of those for which the baseline was written."""
        return self.cells is None or cell_id(cell.scenario, cell.axes) in self.cells


class BaselineResult(_StrictModel):
    """A cell compared with its baseline: the outcome to report, whether it is known, and the baseline's text about it or ''."""

    outcome: Outcome
    known: bool = False
    text: str = ""


def cell_id(scenario: str, axes: Mapping[str, str]) -> str:
    """Return the id of a cell as `conformance list` prints it: `scenario[axis=value,...]`."""
    values = ",".join(f"{name}={value}" for name, value in sorted(axes.items()))
    return f"{scenario}[{values}]" if values else scenario


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a file. Raises BaselineError with its problems (at most 50), each as `path:line:column: message`."""
    report = ProblemReport(str(path))
    node = read_full_yaml(path, report, max_octets=_MAX_OCTETS, max_values=_MAX_VALUES)
    baseline = validate(Baseline, node, report) if node is not None and not report.problems else None
    if baseline is None:
        raise BaselineError(f"--baseline {format_problems(report.problems)}")
    return baseline


def read_baselines(words: Iterable[str]) -> dict[str, Baseline]:
    """Return the baselines in the files and folders that `--baseline` names, by candidate; the word `write` is skipped.

    Raises BaselineError, also for a second baseline of one candidate.
    """
    baselines: dict[str, Baseline] = {}
    for word in words:
        if word == WRITE:
            continue
        path = Path(word)
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            baseline = read_baseline(file)
            if baseline.candidate in baselines:
                raise BaselineError(f"--baseline {file}: there is another for {baseline.candidate}")
            baselines[baseline.candidate] = baseline
    return baselines


def compare_with_baseline(
    baseline: Baseline,
    cell: JudgedCell,
    outcome: Outcome,
    verdicts: tuple[Verdict, ...],
    *,
    new_cells_fail: bool = False,
) -> BaselineResult:
    """Return the outcome to report for a cell, by the rules at the top of this module.

    With `new_cells_fail` a failure in a cell that the baseline does not list is not reported as known. The text of a known failure
    has the comments of the entries that explain a failure of the cell.
    """
    if not baseline.lists(cell):
        if outcome is not Outcome.FAIL or new_cells_fail:
            return BaselineResult(outcome=outcome)
        return BaselineResult(outcome=outcome, known=True, text=f"{NEW_CELL}{baseline.harness or 'the baseline'}")
    if outcome not in (Outcome.PASS, Outcome.FAIL):
        return BaselineResult(outcome=outcome)
    entries = [entry for entry in baseline.known if entry.covers(cell)]
    failed = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL]
    inconclusive = [verdict for verdict in verdicts if verdict.outcome is Outcome.INCONCLUSIVE]
    # a waived invariant has no verdict, so an entry about it is not missing
    unmatched = [entry for entry in entries if not any(entry.matches(verdict) for verdict in failed)]
    missing = [entry for entry in unmatched if not is_waived(entry.check, cell.waive)]
    unjudged = [entry for entry in missing if any(entry.matches(verdict) for verdict in inconclusive)]
    if stale := [entry for entry in missing if entry not in unjudged and not entry.sometimes]:
        text = f"stale baseline: known to fail, and did not: {_describe(stale)}"
        return BaselineResult(outcome=Outcome.FAIL, text=text)
    new = [verdict for verdict in failed if not any(entry.explains(verdict) for entry in entries)]
    if new or not failed:
        return BaselineResult(outcome=outcome)
    if unjudged:
        text = f"known to fail, and could not be judged: {_describe(unjudged)}"
        return BaselineResult(outcome=Outcome.INCONCLUSIVE, text=text)
    comments = [entry.comment for entry in entries if any(entry.explains(verdict) for verdict in failed)]
    return BaselineResult(outcome=Outcome.FAIL, known=True, text="; ".join(dict.fromkeys(comments)))


def _describe(entries: Iterable[KnownFailure]) -> str:
    """Return the check and requirement of each entry: `expect.mailbox of SR-DUP-01; ...`."""
    return "; ".join(f"{entry.check} of {entry.requirement}" for entry in entries)


@dataclass(frozen=True, slots=True)
class DraftCell:
    """A cell of a run, with what a draft needs to know about it."""

    candidate: str
    scenario: str
    axes: dict[str, str]
    outcome: Outcome
    verdicts: tuple[Verdict, ...]


def write_drafts(run_dir: Path, baselines: Mapping[str, Baseline]) -> tuple[Path, ...]:
    """Write `baselines/CANDIDATE.yaml` into a run's directory for each candidate with a failure or a baseline; return the files.

    `baselines` are the earlier ones, by candidate: their comments are kept, and their entries about cells that were not run or
    about a race. A candidate of which no cell ended in this run gets no file. Raises OSError; RunDirectoryError and SchemaTooNew where
    the run cannot be read.
    """
    cells = [
        DraftCell(
            cell.header.candidate, cell.header.scenario, dict(cell.header.axes), cell.footer.outcome, cell.verdicts
        )
        for cell in read_run(run_dir).cells([])  # []: unreadable ones are skipped
        if cell.footer is not None  # else the cell was cut short
    ]
    written = []
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    drafts = draft_entries(cells, baselines)
    for candidate in sorted({*drafts, *baselines} & {cell.candidate for cell in cells}):
        path = run_dir / "baselines" / f"{candidate}.yaml"
        path.parent.mkdir(exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            file.write(f"# Drafted from the run {run_dir.name}. Say in each comment why it fails, and how you know.\n")
            cell_ids = {cell_id(cell.scenario, cell.axes) for cell in cells if cell.candidate == candidate}
            before = baselines[candidate].cells if candidate in baselines else None
            yaml.dump(
                {
                    "candidate": candidate,
                    "known": drafts.get(candidate, []),
                    "harness": harness_version(),
                    "cells": sorted(cell_ids | (before or frozenset())),  # ids in the earlier baseline's list stay
                },
                file,
            )
        written.append(path)
    return tuple(written)


def draft_entries(
    cells: Iterable[DraftCell], baselines: Mapping[str, Baseline] | None = None
) -> dict[str, list[dict[str, object]]]:
    """Return the drafted entries of each candidate that has any: one for each failing cell, check and requirement.

    One entry stands for a whole scenario if all of its cells that were run failed for one reason, and were all known with one
    comment or all not known. Entries of the earlier baselines are added if none of their cells was run, or if they are about a
    race that none of their cells lost now. A cell that was not applicable was not run.
    """
    ran: dict[tuple[str, str], list[DraftCell]] = defaultdict(list)
    for cell in cells:
        if cell.outcome is not Outcome.NOT_APPLICABLE:
            ran[cell.candidate, cell.scenario].append(cell)
    entries: dict[str, list[dict[str, object]]] = defaultdict(list)
    for (candidate, scenario), group in ran.items():
        known = baselines[candidate].known if baselines and candidate in baselines else ()
        for (check, requirement), failing in _failing_cells(group).items():
            reason = {"check": check, "requirement": requirement}
            # of each failing cell: the cell, whether an earlier entry matches it, and the fields of its entry
            explained = [(cell, *_find_explanation(cell, verdict, known)) for cell, verdict in failing]
            states = {was_known for _, was_known, _ in explained}
            comments = {fields["comment"] for _, was_known, fields in explained if was_known}
            if len(failing) == len(group) and len(states) == 1 and len(comments) <= 1:
                entries[candidate].append({"scenario": scenario, **reason, **explained[0][2]})
                continue
            for cell, _, fields in explained:
                entries[candidate].append({"scenario": scenario, "axes": dict(cell.axes), **reason, **fields})
    for candidate, baseline in (baselines or {}).items():
        entries[candidate] += _carried_over(baseline, ran)
    return {candidate: known for candidate, known in entries.items() if known}


def _failing_cells(group: Iterable[DraftCell]) -> dict[tuple[str, str], list[tuple[DraftCell, Verdict]]]:
    """Return the failing cells of a scenario with the verdict, by check and first requirement, the blamed one."""
    reasons: dict[tuple[str, str], list[tuple[DraftCell, Verdict]]] = defaultdict(list)
    for cell in group:
        for reason, verdict in _failures_by_reason(cell).items():
            reasons[reason].append((cell, verdict))
    return reasons


def _find_explanation(
    cell: DraftCell, verdict: Verdict, known: Iterable[KnownFailure]
) -> tuple[bool, dict[str, object]]:
    """Return whether an earlier entry matches a failure, and the draft's fields: that entry's, or a comment to be written."""
    before = next((entry for entry in known if entry.covers(cell) and entry.matches(verdict)), None)
    if before is None:
        return False, {"comment": f"{UNEXPLAINED} {verdict.sentence}"}
    return True, before.model_dump(include={"comment", "sometimes"}, exclude_none=True)


def _carried_over(baseline: Baseline, ran: Mapping[tuple[str, str], list[DraftCell]]) -> Iterator[dict[str, object]]:
    """Yield, as fields of a draft, the earlier entries whose cells were not run, and those about a race that none of them lost now.

    `ran` has the cells that were run, by candidate and scenario.
    """
    for known in baseline.known:
        cells = [cell for cell in ran.get((baseline.candidate, known.scenario), ()) if known.covers(cell)]
        # as in `_find_explanation`, which has drafted the entry where it matches
        lost = any(known.matches(verdict) for cell in cells for verdict in _failures_by_reason(cell).values())
        if not cells or (known.sometimes and not lost):
            yield known.model_dump(exclude_defaults=True)


def _failures_by_reason(cell: DraftCell) -> dict[tuple[str, str], Verdict]:
    """Return the first failed verdict by check and first requirement; {} for a cell that did not fail."""
    if cell.outcome is not Outcome.FAIL:
        return {}
    failed = [verdict for verdict in cell.verdicts if verdict.outcome is Outcome.FAIL and verdict.requirements]
    # reversed: of several with the same key the first stays
    return {(v.check, v.requirements[0]): v for v in reversed(failed)}
