"""`conformance defects`: runs the corpus on the reference with each of its defects, and prints which checks catch it.

A *defect* is a deliberate mistake in the reference. It is *caught* when a check fails and blames the requirement that
the defect breaks. A *trial* is one cell, run with one defect, or with none. Defects that need failing disks are not tried.
"""

import difflib
import json
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.candidates.lookup import reference_defects
from conformance.defects.page import page
from conformance.defects.plan import (
    FOUND_FOLDER,
    Defect,
    PlannedTrial,
    active_defects,
    disk_defects,
    plan_trials,
    retired_defects,
)
from conformance.defects.table import (
    DefectTable,
    blind_gaps,
    build_table,
    defect_gaps,
    gaps,
    without_expectations,
)
from conformance.defects.trial import Trial, TrialRunDirectory, run_trials
from conformance.drawing import draw
from conformance.execute import available_cores
from conformance.forked_process import ProcessDied
from conformance.model import RULES
from conformance.requirements.catalogue import catalogue
from conformance.results.layout import RunDirectoryError
from conformance.results.writer import delete_run, finish_run
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.loader import read_corpus

_MAX_DIFFERING_LINES = 20
"""How many lines are printed in which a published page differs from the table."""


def print_defects(
    names: list[str],
    *,
    as_json: bool,
    gate: bool,
    write: Path | None,
    check: Path | None,
    jobs: int | None,
    seed: int,
    sample: int | None = None,
    drawn_by: int = 1,
    run_dir: Path | None = None,
    fresh: bool = False,
    blind: bool = False,
) -> int:
    """Run trials of the named defects, or of all and of the reference without one, and print what caught each defect. Blocks.

    `jobs` trials run at a time, None: one for each core. `seed` is that of all random choices in them. `sample` is how many of the
    defects are tried, drawn by the seed `drawn_by`. With `names` or `sample` the reference without a defect is not tried.

    With `run_dir` the trials are stored as a run; `fresh` first deletes the run that is there. `as_json` prints a JSON list in place
    of text. `blind` prints what is caught without the expectations of scenarios. `write` is a file for the table as a page, `check`
    a page to compare the table with. `gate` looks for gaps: what the project's build refuses, such as a defect that is not caught.
    With `sample`, `gate` and `check` judge the drawn defects only.

    Returns 1 when `gate` finds a gap or `check` a difference, 2 for an unknown defect, an invalid scenario, a run directory that
    cannot be used or a process that was killed, else 0.
    """
    known = active_defects()
    if unknown := sorted(set(names) - {defect.name for defect in known}):
        typer.echo(f"no defect {unknown[0]!r}; `conformance requirements` prints the names of all", err=True)
        return 2
    named = [defect for defect in known if not names or defect.name in names]
    defects = sorted(draw(named, sample, drawn_by, lambda defect: defect.name), key=lambda defect: defect.name)
    is_part = bool(names) or sample is not None
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
    if is_part:  # of all defects the sound reference is run as well
        trials = tuple(trial for trial in trials if trial.defect is not None)
    began = time.monotonic()
    try:
        if fresh and run_dir is not None:
            delete_run(run_dir)
        stored = (
            TrialRunDirectory.create(run_dir, trials, seed, _command_line(names, run_dir))
            if run_dir is not None
            else None
        )
    except RunDirectoryError as error:
        typer.echo(error, err=True)
        return 2
    # aiosmtpd warns at each login that it uses a deprecated name itself.
    logging.getLogger("mail.log").setLevel(logging.ERROR)
    workers = jobs or available_cores()
    try:
        results = _run_with_progress(trials, seed, workers, stored)
    except ProcessDied as error:
        typer.echo(error, err=True)
        return 2
    scenarios = {trial.cell.scenario for trial in trials if trial.folder != FOUND_FOLDER}
    table = build_table(defects, scenarios, results)
    if stored is not None:
        finish_run(stored.directory, wall_seconds=time.monotonic() - began)
    printed = build_table(defects, scenarios, without_expectations(results)) if blind else table
    if as_json:
        typer.echo(json.dumps(_json_entries(printed), indent=2))
    else:
        _print_table(printed)
    text = page(table, catalogue(), retired_defects(), disk_defects())
    if write is not None:
        write.write_text(text, "utf-8")
    found_gaps: list[str] = []
    if gate:
        found_gaps += defect_gaps(table) if sample is not None else gaps(table, catalogue(), _declared_checks())
        found_gaps += blind_gaps(table)
    if check is not None:
        published = check.read_text("utf-8")
        if sample is not None:
            published, text = _lines_of(defects, published), _lines_of(defects, text)
        if differing := _differing_lines(published, text):
            for line in differing:
                typer.echo(line, err=True)
            found_gaps.append(f"{check} differs from the table: conformance defects --write {check}")
    for line in found_gaps:
        typer.echo(line, err=True)
    if gate or check is not None:
        typer.echo(f"{len(found_gaps)} gaps" if found_gaps else "no gap", err=True)
    return 1 if found_gaps else 0


def _declared_checks() -> list[str]:
    """Return the names of all declared checks, but for rules about failing disks, whose defects are not in the table."""
    on_disks = {defect.breaks for defect in reference_defects().values() if defect.on_disks}
    rules = [name for name, rule in RULES.items() if not on_disks.issuperset(rule.requirements)]
    return sorted([*(f"expect.{verb}" for verb in EXPECTATIONS), *rules])


def _lines_of(defects: Iterable[Defect], text: str) -> str:
    """Return, sorted, the table rows about these defects in the page `text`: what `--check` compares of a sample."""
    begins = tuple(f"| `{defect.name}` |" for defect in defects)
    return "\n".join(sorted(line for line in text.splitlines() if line.startswith(begins)))


def _differing_lines(published: str, computed: str) -> list[str]:
    """Return the first 20 lines in which two pages differ: `-` stands before published lines, `+` before computed ones."""
    lines = difflib.unified_diff(published.splitlines(), computed.splitlines(), lineterm="", n=0)
    changed = [line for line in lines if line.startswith(("-", "+")) and not line.startswith(("---", "+++"))]
    return changed[:_MAX_DIFFERING_LINES]


def _command_line(names: Sequence[str], run_dir: Path) -> tuple[str, ...]:
    """Return the command that the header of the stored run names as its origin."""
    return ("conformance", "defects", *names, "--run-dir", str(run_dir))


def _run_with_progress(
    trials: Sequence[PlannedTrial], seed: int, jobs: int, stored: TrialRunDirectory | None
) -> list[Trial]:
    """Run the trials, `jobs` at a time, and return their results in order; keep them in the run `stored`, if any. Blocks.

    Shows a progress bar on stderr if that is a terminal.
    """
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("trials", total=len(trials))
        return list(bar.track(run_trials(trials, seed, jobs, stored), task_id=task))


def _json_entries(table: DefectTable) -> list[dict[str, object]]:
    """Return the rows of a table as `--json` prints them."""
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
        for row in table.rows
    ]


def _print_table(table: DefectTable) -> None:
    """Print each defect with the checks that caught it, the requirements they blamed, and up to three errors of trials.

    Only a defect that some check blames on the requirement that it breaks counts as caught.
    """
    for row in table.rows:
        mark = "caught" if row.caught else "MISSED"
        typer.echo(f"{row.defect.name}  breaks {row.defect.breaks}  {mark} in {row.caught_in} of {row.trials} cells")
        typer.echo(f"  {row.defect.says}")
        typer.echo(f"  by:     {', '.join(f'{name} ({count})' for name, count in row.checks) or 'no check'}")
        typer.echo(f"  blamed: {', '.join(f'{name} ({count})' for name, count in row.blamed) or 'nothing'}")
        for error in row.errors[:3]:
            typer.echo(f"  broke:  {error}")
    caught = sum(row.caught for row in table.rows)
    typer.echo(f"{caught} of {len(table.rows)} defects caught by the requirement that they break")
