"""Drafts baselines from a run: an entry for every failure, its comment left to be written by somebody who knows why."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from conformance.judge.verdicts import Outcome, Verdict
from conformance.results.reader import read_run
from conformance.suite.baseline import UNEXPLAINED


@dataclass(frozen=True, slots=True)
class Seen:
    """What a draft needs of a cell."""

    candidate: str
    scenario: str
    axes: dict[str, str]
    outcome: Outcome
    verdicts: tuple[Verdict, ...]


def write_drafts(run_dir: Path) -> tuple[Path, ...]:
    """Write `baselines/CANDIDATE.yaml` into a run's directory for every candidate that failed; return the files."""
    cells = [
        Seen(cell.header.candidate, cell.header.scenario, dict(cell.header.axes), cell.footer.outcome, cell.verdicts)
        for cell in read_run(run_dir).cells([])
        if cell.footer is not None
    ]
    written = []
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    for candidate, known in draft(cells).items():
        path = run_dir / "baselines" / f"{candidate}.yaml"
        path.parent.mkdir(exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            file.write(
                f"# Drafted from the run {run_dir.name}. Say in each comment why it fails, and whence you know.\n"
            )
            yaml.dump({"candidate": candidate, "known": known}, file)
        written.append(path)
    return tuple(written)


def draft(cells: Iterable[Seen]) -> dict[str, list[dict[str, object]]]:
    """Return the entries of each candidate that failed: one for a whole scenario where all of its cells failed alike."""
    ran: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for cell in cells:
        if cell.outcome is not Outcome.NOT_APPLICABLE:
            ran[cell.candidate, cell.scenario].append(cell)
    entries: dict[str, list[dict[str, object]]] = defaultdict(list)
    for (candidate, scenario), group in ran.items():
        reasons: dict[tuple[str, str], list[tuple[Seen, Verdict]]] = defaultdict(list)
        for cell in group:
            for (check, requirement), verdict in _failures(cell).items():
                reasons[check, requirement].append((cell, verdict))
        for (check, requirement), failing in reasons.items():
            reason = {"check": check, "requirement": requirement}
            if len(failing) == len(group):
                entries[candidate].append({"scenario": scenario, **reason, "comment": _comment(failing[0][1])})
                continue
            for cell, verdict in failing:
                entries[candidate].append(
                    {"scenario": scenario, "axes": cell.axes, **reason, "comment": _comment(verdict)}
                )
    return dict(entries)


def _failures(cell: Seen) -> dict[tuple[str, str], Verdict]:
    """Return the first failed verdict of each check and requirement; a cell that could not be judged has none."""
    if cell.outcome is not Outcome.FAIL:
        return {}
    failed = [verdict for verdict in cell.verdicts if verdict.outcome is Outcome.FAIL and verdict.requirements]
    return {(v.check, v.requirements[0]): v for v in reversed(failed)}


def _comment(verdict: Verdict) -> str:
    return f"{UNEXPLAINED} {verdict.sentence}"
