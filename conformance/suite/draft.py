"""Drafts baselines from a run: an entry for every failure, with the comment of the baseline that there was, or one that is
left to be written by somebody who knows why; and the list of the run's cells."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from conformance.results.identity import harness_version
from conformance.results.reader import read_run
from conformance.suite.baseline import UNEXPLAINED, Baseline, Known, cell_id
from conformance.verdicts import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Seen:
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
        Seen(cell.header.candidate, cell.header.scenario, dict(cell.header.axes), cell.footer.outcome, cell.verdicts)
        for cell in read_run(run_dir).cells([])
        if cell.footer is not None
    ]
    written = []
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    drafts = draft(cells, baselines)
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


def draft(cells: Iterable[Seen], baselines: Mapping[str, Baseline] | None = None) -> dict[str, list[dict[str, object]]]:
    """Return the entries of each candidate: one for a whole scenario where all of its cells failed alike, and with one
    comment. Of the earlier baselines those entries stay that speak of scenarios that were not run, and of races."""
    ran: dict[tuple[str, str], list[Seen]] = defaultdict(list)
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


def _reasons(group: Iterable[Seen]) -> dict[tuple[str, str], list[tuple[Seen, Verdict]]]:
    """Return the failing cells of a scenario by check and requirement."""
    reasons: dict[tuple[str, str], list[tuple[Seen, Verdict]]] = defaultdict(list)
    for cell in group:
        for reason, verdict in _failures(cell).items():
            reasons[reason].append((cell, verdict))
    return reasons


def _told(cell: Seen, verdict: Verdict, known: Iterable[Known]) -> tuple[Known | None, dict[str, object]]:
    """Return the earlier entry for a failure, and the fields that explain it: that entry's, or a comment to be written."""
    before = next((entry for entry in known if entry.binds(cell) and entry.explains(verdict)), None)
    if before is None:
        return None, {"comment": _comment(verdict)}
    return before, before.model_dump(include={"comment", "sometimes"}, exclude_none=True)


def _kept(
    baseline: Baseline, ran: Mapping[tuple[str, str], list[Seen]], entries: Iterable[Mapping[str, object]]
) -> Iterator[dict[str, object]]:
    """Yield the earlier entries whose cells were not run, and those of a race that was not lost this time."""
    drafted = {(one["scenario"], one["check"], one["requirement"]) for one in entries}
    for entry in baseline.known:
        seen = [cell for cell in ran.get((baseline.candidate, entry.scenario), ()) if entry.binds(cell)]
        if not seen or (entry.sometimes and (entry.scenario, entry.check, entry.requirement) not in drafted):
            yield entry.model_dump(exclude_defaults=True)


def _failures(cell: Seen) -> dict[tuple[str, str], Verdict]:
    """Return the first failed verdict of each check and requirement; a cell that could not be judged has none."""
    if cell.outcome is not Outcome.FAIL:
        return {}
    failed = [verdict for verdict in cell.verdicts if verdict.outcome is Outcome.FAIL and verdict.requirements]
    return {(v.check, v.requirements[0]): v for v in reversed(failed)}


def _comment(verdict: Verdict) -> str:
    return f"{UNEXPLAINED} {verdict.sentence}"
