"""Baselines: what is known to fail, each with its reason pinned and a comment.

A known failure must fail, and for the reason that is written there; one that does not is stale, and that is a failure
too. Only of a race of the candidate's own, which an entry has to name, it is no news when it was not lost this time. A
cell that could not be judged never counts as the failure that was expected.

A draft is made from a run: an entry for every failure, with the comment of the baseline that there was, or one that is
left to be written by somebody who knows why; and the list of the run's cells.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator
from ruamel.yaml import YAML

from conformance.results.fingerprints import harness_version
from conformance.results.reader import read_run
from conformance.scenarios.errors import ProblemReport, format_problems
from conformance.scenarios.validation import validate
from conformance.scenarios.yaml_full import read_full_yaml
from conformance.verdicts import Outcome, Verdict

UNEXPLAINED = "say why:"
"""How the comment of a drafted entry begins; nobody may leave it so."""

_MOVED = {
    ("invariant.content-unchanged", "SR-CRE-06"): "RL-CNT-01",
    ("invariant.one-final-reply", "SR-CRE-05"): "RL-RPL-01",
    ("invariant.replies-well-formed", "SR-WIR-03"): "RL-RPL-02",
}
"""Check and requirement of 0.1.0 -> the requirement that the check blames now: baselines of that version stay right."""

NEW = "new since "
"""How the text begins that is told of a failure in a cell that the baseline does not list."""

_MOST_OCTETS = 16 * 2**20
_MOST_VALUES = 500_000
"""Of a baseline: it may list every cell of a run with the full grid."""

WRITE = "write"
"""The word in place of a file that has a draft written."""


class BaselineError(ValueError):
    """A baseline file cannot be used; the text says why."""


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MatrixCell(Protocol):
    """A cell, as it is run or as it was stored."""

    @property
    def scenario(self) -> str:
        """Its scenario's id."""

    @property
    def axes(self) -> Mapping[str, str]:
        """Its place in the scenario's matrix."""


class JudgedCell(MatrixCell, Protocol):
    """A cell whose outcome is held against a baseline."""

    @property
    def waive(self) -> Mapping[str, str]:
        """The invariants that its scenario waives: what is known to fail of these cannot be stale."""


class KnownFailure(_Closed):
    """One known failure: in which cells, by which check, of which requirement, and why we live with it."""

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
        if comment.startswith(UNEXPLAINED):
            raise ValueError("a draft's comment: say why it fails, and whence you know")
        return comment

    def binds(self, cell: MatrixCell) -> bool:
        """Whether the entry speaks of a cell."""
        return self.scenario == cell.scenario and self.axes.items() <= cell.axes.items()

    def explains(self, verdict: Verdict) -> bool:
        """Whether the entry's pinned reason is a verdict's: its check, and one of the rows that it is about.

        Which of these rows is blamed first has changed between versions of the harness, and an entry outlives that.
        """
        rows = (self.requirement, _MOVED.get((self.check, self.requirement), self.requirement))
        return verdict.check == self.check and any(row in verdict.requirements for row in rows)


class Baseline(_Closed):
    """All known failures of one candidate."""

    candidate: str
    known: tuple[KnownFailure, ...] = ()
    harness: str | None = Field(None, description="the version of the harness that wrote the list of cells")
    cells: frozenset[str] | None = Field(
        None, description="ids of all cells of the run that it was written from; default: every cell there is"
    )

    def lists(self, cell: MatrixCell) -> bool:
        """Whether a cell is one of those that it was written for."""
        return self.cells is None or cell_id(cell.scenario, cell.axes) in self.cells


class BaselineResult(_Closed):
    """What a baseline makes of a cell: its outcome, whether it was known, and what to tell."""

    outcome: Outcome
    known: bool = False
    text: str = ""


def cell_id(scenario: str, axes: Mapping[str, str]) -> str:
    """Return the id of a cell as `conformance list` prints it."""
    values = ",".join(f"{name}={value}" for name, value in sorted(axes.items()))
    return f"{scenario}[{values}]" if values else scenario


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file. Raises BaselineError with everything that is wrong, each as `path:line:column: message`."""
    report = ProblemReport(str(path))
    node = read_full_yaml(path, report, most=_MOST_OCTETS, most_values=_MOST_VALUES)
    baseline = validate(Baseline, node, report) if node is not None and not report.problems else None
    if baseline is None:
        raise BaselineError(f"--baseline {format_problems(report.problems)}")
    return baseline


def read_baselines(words: Iterable[str]) -> dict[str, Baseline]:
    """Read what `--baseline` names, by candidate: files, and folders of them. Raises BaselineError."""
    found: dict[str, Baseline] = {}
    for word in words:
        if word == WRITE:
            continue
        path = Path(word)
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            baseline = read_baseline(file)
            if baseline.candidate in found:
                raise BaselineError(f"--baseline {file}: there is another for {baseline.candidate}")
            found[baseline.candidate] = baseline
    return found


def compare_with_baseline(
    baseline: Baseline,
    cell: JudgedCell,
    outcome: Outcome,
    verdicts: tuple[Verdict, ...],
    *,
    new_cells_fail: bool = False,
) -> BaselineResult:
    """Say what is left of a cell's outcome once what is known is taken off.

    A failure in a cell that the baseline does not list is told as known, as one of a new cell, unless `new_cells_fail`.
    """
    if not baseline.lists(cell):
        if outcome is not Outcome.FAIL or new_cells_fail:
            return BaselineResult(outcome=outcome)
        return BaselineResult(outcome=outcome, known=True, text=f"{NEW}{baseline.harness or 'the baseline'}")
    entries = [entry for entry in baseline.known if entry.binds(cell)]
    failed = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL]
    if outcome not in (Outcome.PASS, Outcome.FAIL):
        return BaselineResult(outcome=outcome)
    asked = [entry for entry in entries if entry.check.removeprefix("invariant.") not in cell.waive]
    missing = [entry for entry in asked if not any(entry.explains(verdict) for verdict in failed)]
    open_still = [verdict for verdict in verdicts if verdict.outcome is Outcome.INCONCLUSIVE]
    unjudged = [entry for entry in missing if any(entry.explains(verdict) for verdict in open_still)]
    if stale := [entry for entry in missing if entry not in unjudged and not entry.sometimes]:
        return BaselineResult(outcome=Outcome.FAIL, text=f"stale baseline: known to fail, and did not: {_named(stale)}")
    news = [verdict for verdict in failed if not any(entry.explains(verdict) for entry in entries)]
    if news or not failed:
        return BaselineResult(outcome=outcome)
    if unjudged:
        return BaselineResult(
            outcome=Outcome.INCONCLUSIVE, text=f"known to fail, and could not be judged: {_named(unjudged)}"
        )
    seen = [entry.comment for entry in entries if entry not in missing]
    return BaselineResult(outcome=Outcome.FAIL, known=True, text="; ".join(dict.fromkeys(seen)))


def _named(entries: Iterable[KnownFailure]) -> str:
    return "; ".join(f"{entry.check} of {entry.requirement}" for entry in entries)


@dataclass(frozen=True, slots=True)
class DraftCell:
    """What a draft needs of a cell."""

    candidate: str
    scenario: str
    axes: dict[str, str]
    outcome: Outcome
    verdicts: tuple[Verdict, ...]


def write_drafts(run_dir: Path, baselines: Mapping[str, Baseline]) -> tuple[Path, ...]:
    """Write `baselines/CANDIDATE.yaml` into a run's directory for every candidate that failed, or that had a baseline;
    return the files. Reasons are kept, and what an earlier baseline says of scenarios that were not run."""
    cells = [
        DraftCell(
            cell.header.candidate, cell.header.scenario, dict(cell.header.axes), cell.footer.outcome, cell.verdicts
        )
        for cell in read_run(run_dir).cells([])
        if cell.footer is not None
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
            file.write(
                f"# Drafted from the run {run_dir.name}. Say in each comment why it fails, and whence you know.\n"
            )
            listed = {cell_id(cell.scenario, cell.axes) for cell in cells if cell.candidate == candidate}
            before = baselines[candidate].cells if candidate in baselines else None
            yaml.dump(
                {
                    "candidate": candidate,
                    "known": drafts.get(candidate, []),
                    "harness": harness_version(),
                    "cells": sorted(listed | (before or frozenset())),
                },
                file,
            )
        written.append(path)
    return tuple(written)


def draft_entries(
    cells: Iterable[DraftCell], baselines: Mapping[str, Baseline] | None = None
) -> dict[str, list[dict[str, object]]]:
    """Return the entries of each candidate: one for a whole scenario where all of its cells failed alike, and with one
    comment. Of the earlier baselines those entries stay that speak of scenarios that were not run, and of races."""
    ran: dict[tuple[str, str], list[DraftCell]] = defaultdict(list)
    for cell in cells:
        if cell.outcome is not Outcome.NOT_APPLICABLE:
            ran[cell.candidate, cell.scenario].append(cell)
    entries: dict[str, list[dict[str, object]]] = defaultdict(list)
    for (candidate, scenario), group in ran.items():
        known = baselines[candidate].known if baselines and candidate in baselines else ()
        for (check, requirement), failing in _reasons(group).items():
            reason = {"check": check, "requirement": requirement}
            told = [(cell, _told(cell, verdict, known)) for cell, verdict in failing]
            alike = all(before is not None for _, (before, _) in told) or not any(before for _, (before, _) in told)
            if len(failing) == len(group) and alike and len({text["comment"] for _, (b, text) in told if b}) <= 1:
                entries[candidate].append({"scenario": scenario, **reason, **told[0][1][1]})
                continue
            for cell, (_, text) in told:
                entries[candidate].append({"scenario": scenario, "axes": dict(cell.axes), **reason, **text})
    for candidate, baseline in (baselines or {}).items():
        entries[candidate] += _kept(baseline, ran, entries[candidate])
    return {candidate: known for candidate, known in entries.items() if known}


def _reasons(group: Iterable[DraftCell]) -> dict[tuple[str, str], list[tuple[DraftCell, Verdict]]]:
    """Return the failing cells of a scenario by check and requirement."""
    reasons: dict[tuple[str, str], list[tuple[DraftCell, Verdict]]] = defaultdict(list)
    for cell in group:
        for reason, verdict in _failures(cell).items():
            reasons[reason].append((cell, verdict))
    return reasons


def _told(
    cell: DraftCell, verdict: Verdict, known: Iterable[KnownFailure]
) -> tuple[KnownFailure | None, dict[str, object]]:
    """Return the earlier entry for a failure, and the fields that explain it: that entry's, or a comment to be written."""
    before = next((entry for entry in known if entry.binds(cell) and entry.explains(verdict)), None)
    if before is None:
        return None, {"comment": _comment(verdict)}
    return before, before.model_dump(include={"comment", "sometimes"}, exclude_none=True)


def _kept(
    baseline: Baseline, ran: Mapping[tuple[str, str], list[DraftCell]], entries: Iterable[Mapping[str, object]]
) -> Iterator[dict[str, object]]:
    """Yield the earlier entries whose cells were not run, and those of a race that was not lost this time."""
    drafted = {(one["scenario"], one["check"], one["requirement"]) for one in entries}
    for entry in baseline.known:
        seen = [cell for cell in ran.get((baseline.candidate, entry.scenario), ()) if entry.binds(cell)]
        if not seen or (entry.sometimes and (entry.scenario, entry.check, entry.requirement) not in drafted):
            yield entry.model_dump(exclude_defaults=True)


def _failures(cell: DraftCell) -> dict[tuple[str, str], Verdict]:
    """Return the first failed verdict of each check and requirement; a cell that could not be judged has none."""
    if cell.outcome is not Outcome.FAIL:
        return {}
    failed = [verdict for verdict in cell.verdicts if verdict.outcome is Outcome.FAIL and verdict.requirements]
    return {(v.check, v.requirements[0]): v for v in reversed(failed)}


def _comment(verdict: Verdict) -> str:
    return f"{UNEXPLAINED} {verdict.sentence}"
