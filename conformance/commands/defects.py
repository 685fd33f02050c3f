"""`conformance defects`: the reference made wrong in every way it can be, and who notices."""

import difflib
import json
import time
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.defects.plan import PlannedTrial, active_defects, plan_trials, retired_defects
from conformance.defects.table import DefectTable, build_table, gaps, page
from conformance.defects.trial import Trial, TrialRunDirectory, run_trials
from conformance.execute import available_cores
from conformance.invariants import INVARIANTS
from conformance.requirements.catalogue import catalogue
from conformance.results.layout import RunDirectoryError
from conformance.results.writer import delete_run, finish_run
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.loader import read_corpus

SHOWN = 20
"""So many lines are shown in which a published page differs from the table."""


def print_defects(
    names: list[str],
    *,
    as_json: bool,
    gate: bool,
    write: Path | None,
    check: Path | None,
    jobs: int | None,
    seed: int,
    run_dir: Path | None = None,
    fresh: bool = False,
) -> int:
    """Try the defects, all or those named, and print who caught them. With `run_dir` the trials are kept there as a run;
    `fresh` deletes a run that is there already.

    Returns 1 with `gate` when anything is missing, and with `check` when that page says anything else; 2 when the
    run directory cannot be used.
    """
    known = active_defects()
    if unknown := sorted(set(names) - {defect.name for defect in known}):
        typer.echo(f"no defect {unknown[0]!r}; `conformance requirements` names them all", err=True)
        return 2
    defects = [defect for defect in known if not names or defect.name in names]
    try:
        cells = [
            cell
            for scenario in read_corpus([paths.corpus()], paths.fixtures())
            for cell in scenario.cells("smoke", REFERENCE.own_timers)
        ]
    except InvalidFile as error:
        typer.echo(error, err=True)
        return 2
    trials = plan_trials(defects, cells)
    if names:
        trials = tuple(trial for trial in trials if trial.defect is not None)
    began = time.monotonic()
    if fresh and run_dir is not None:
        delete_run(run_dir)
    try:
        kept = TrialRunDirectory.begin(run_dir, trials, seed, _command(names, run_dir)) if run_dir is not None else None
    except RunDirectoryError as error:
        typer.echo(error, err=True)
        return 2
    found = build_table(
        defects, {trial.cell.scenario for trial in trials}, _tried(trials, seed, jobs or available_cores(), kept)
    )
    if kept is not None:
        finish_run(kept.directory, wall_seconds=time.monotonic() - began)
    if as_json:
        typer.echo(json.dumps(_json(found), indent=2))
    else:
        _print(found)
    text = page(found, catalogue(), retired_defects())
    if write is not None:
        write.write_text(text, "utf-8")
    missing = list(gaps(found, catalogue(), _checks())) if gate else []
    if check is not None and (published := check.read_text("utf-8")) != text:
        for line in _differences(published, text):
            typer.echo(line, err=True)
        missing.append(f"{check} is another table's: conformance defects --write {check}")
    for line in missing:
        typer.echo(line, err=True)
    if gate or check is not None:
        typer.echo(f"{len(missing)} gaps" if missing else "no gap", err=True)
    return 1 if missing else 0


def _checks() -> list[str]:
    """Every check that there must be: what the judge has is not asked."""
    return sorted([*(f"expect.{verb}" for verb in EXPECTATIONS), *(f"invariant.{name}" for name in INVARIANTS)])


def _differences(published: str, found: str) -> list[str]:
    """Return the first lines in which two pages differ: `-` was published, `+` was found."""
    lines = difflib.unified_diff(published.splitlines(), found.splitlines(), lineterm="", n=0)
    changed = [line for line in lines if line.startswith(("-", "+")) and not line.startswith(("---", "+++"))]
    return changed[:SHOWN]


def _command(names: Sequence[str], run_dir: Path) -> tuple[str, ...]:
    return ("conformance", "defects", *names, "--run-dir", str(run_dir))


def _tried(trials: Sequence[PlannedTrial], seed: int, jobs: int, kept: TrialRunDirectory | None) -> list[Trial]:
    """Run the trials, with a bar on a terminal."""
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("trials", total=len(trials))
        return list(bar.track(run_trials(trials, seed, jobs, kept), task_id=task))


def _json(found: DefectTable) -> list[dict[str, object]]:
    return [
        {
            "name": row.defect.name,
            "breaks": row.defect.breaks,
            "says": row.defect.says,
            "caught_by": [check for check, _ in row.checks],
            "blamed": [requirement for requirement, _ in row.blamed],
            "first_blame": row.first_blame,
            "cells": {"tried": row.trials, "caught": row.caught_in},
        }
        for row in found.rows
    ]


def _print(found: DefectTable) -> None:
    for row in found.rows:
        mark = "caught" if row.caught else "MISSED"
        typer.echo(f"{row.defect.name}  breaks {row.defect.breaks}  {mark} in {row.caught_in} of {row.trials} cells")
        typer.echo(f"  {row.defect.says}")
        typer.echo(f"  by:     {', '.join(f'{name} ({count})' for name, count in row.checks) or 'no check'}")
        typer.echo(f"  blamed: {', '.join(f'{name} ({count})' for name, count in row.blamed) or 'nothing'}")
        for trouble in row.troubles[:3]:
            typer.echo(f"  broke:  {trouble}")
    caught = sum(row.caught for row in found.rows)
    typer.echo(f"{caught} of {len(found.rows)} defects caught by the requirement that they break")
