"""`conformance judge`: the stored histories of a run, judged again with the present version of the judge.

A *stored cell* is the file of a cell: its header, the events that were recorded, and the verdicts of that time. Nothing
is run again, and no file is changed.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import typer
from pydantic import ValidationError

from conformance import paths
from conformance.candidates.cell_needs import with_generations
from conformance.generations import Generation
from conformance.history.consistency import consistent_prefix
from conformance.judge.cell import JudgeSettings, judge_cell
from conformance.report.escaping import visible
from conformance.results.layout import RunDirectoryError
from conformance.results.reader import Damage, StoredCell, read_run
from conformance.results.schema import CellHeader
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.fault_grid import GRID_SIZES, GridSize
from conformance.scenarios.loader import Scenario, read_corpus
from conformance.scenarios.own_timers import OwnTimers
from conformance.topology import Topology
from conformance.verdicts import Outcome, Verdict, worst_in_cell

_CUT_SHORT_CHECKS = ("harness.run", "harness.cell-timeout")
"""Verdicts of the harness on a cell that did not end."""
_HARNESS_CHECKS = (*_CUT_SHORT_CHECKS, "harness.steps", "harness.capabilities")
"""Verdicts of the harness that judging again does not change: they come from running, not from the history."""


def judge_run(run_dir: Path, scenario_paths: list[Path]) -> int:
    """Judge every stored cell of a run again, and print where the verdicts differ from the recorded ones.

    Scenarios are read from files and folders, by default from the corpus. A cell that was cut short is judged up to its
    last event; the recorded outcome of a cell that no scenario has any more stands. Returns 1 when a cell fails, 3 when
    one cannot be judged or is damaged, else 0; 2 when the run or the scenarios cannot be read.
    """
    damage: list[Damage] = []
    try:
        run = read_run(run_dir)
        stored_cells = list(run.cells(damage))
    except RunDirectoryError as error:
        typer.echo(error, err=True)
        return 2
    try:
        names = {stored.header.scenario for stored in stored_cells}
        scenarios = read_scenarios(names, scenario_paths or [paths.corpus()])
    except OSError as error:
        typer.echo(error, err=True)
        return 2
    outcomes: list[Outcome] = [Outcome.ERROR] * len(damage)
    for damaged_line in damage:
        typer.echo(damaged_line)
    differing = 0
    for stored in stored_cells:
        try:
            # A size of fault grid that this version does not know: the full grid has every cell.
            cell = find_cell(scenarios, stored.header, GRID_SIZES.get(run.header.grid, "full"))
        except (ValidationError, InvalidFile) as error:
            typer.echo(f"{stored.path.name}:1: the cell's header cannot be used: {visible(str(error), 200)}")
            outcomes.append(Outcome.ERROR)
            continue
        if cell is None:
            typer.echo(
                f"! {visible(stored.header.nodeid)}: no such cell in the corpus (--scenarios PATH); nothing changes"
            )
            outcomes += [verdict.outcome for verdict in stored.verdicts] or [Outcome.INCONCLUSIVE]
            continue
        verdicts = _judge_with_warnings(cell, stored)
        outcomes.append(worst_in_cell(verdict.outcome for verdict in verdicts))
        if lines := differences(stored.verdicts, verdicts):
            differing += 1
            typer.echo(visible(stored.header.nodeid, 300))
            typer.echo("\n".join(lines))
    cut_short = sum(stored.cut_short for stored in stored_cells)
    note = f", {cut_short} cut short" if cut_short else ""
    typer.echo(f"{len(stored_cells)} cells judged again{note}; {differing} differ from what is recorded")
    if Outcome.FAIL in outcomes:
        return 1
    return 3 if {Outcome.ERROR, Outcome.INCONCLUSIVE} & set(outcomes) else 0


def _judge_with_warnings(cell: Cell, stored: StoredCell) -> tuple[Verdict, ...]:
    """Return today's verdicts on a stored cell; print a line where its scenario has changed or its history has gaps.

    The history is judged up to the first event that cannot be right.
    """
    label = visible(stored.header.nodeid)
    if cell.sha256 != stored.header.scenario_sha256:
        typer.echo(f"! {label}: the scenario is not the one that was run")
    if stored.cut_short:
        typer.echo(f"! {label}: cut short after {len(stored.events)} events")
    events, problem = consistent_prefix(stored.events, cell.topology.by_name)
    if problem:
        typer.echo(f"! {label}: judged as far as event {len(events)}: {visible(problem)}")
    return judge_stored_cell(cell, replace(stored, events=tuple(events)), all_events=not problem)


def judge_stored_cell(cell: Cell, stored: StoredCell, *, all_events: bool = True) -> tuple[Verdict, ...]:
    """Return the harness's own verdicts on how a stored cell ran, as they were recorded, and then today's verdicts on its history.

    A cell that was not applicable has the first only. `all_events` is whether `stored` has every event of the cell. Without
    them, what was not seen proves nothing.
    """
    header = stored.header
    recorded = tuple(verdict for verdict in stored.verdicts if verdict.check in _HARNESS_CHECKS)
    if any(verdict.check == "harness.capabilities" for verdict in recorded):  # the cell was not applicable
        return recorded
    ended = not stored.cut_short and all(verdict.check not in _CUT_SHORT_CHECKS for verdict in recorded)
    complete = all_events and ended and not stored.damage
    settings = JudgeSettings(
        clock=header.clock,
        tolerance=header.tolerance,
        claims=frozenset(header.claims),
        complete=complete,
        should=header.should,
    )
    return (*recorded, *judge_cell(cell, stored.events, settings))


def differences(before: tuple[Verdict, ...], after: tuple[Verdict, ...]) -> list[str]:
    """Return a line `CHECK STEP: OUTCOME -> OUTCOME  SENTENCE` for each check whose outcome or sentence changed."""
    old_verdicts, new_verdicts = _by_check(before), _by_check(after)
    lines = []
    for key in sorted({*old_verdicts, *new_verdicts}):
        old, new = old_verdicts.get(key), new_verdicts.get(key)
        if old != new:
            sentence = visible(new[1] if new else "", 300)
            lines.append(f"  {key[0]} {key[1]}: {old[0] if old else 'none'} -> {new[0] if new else 'none'}  {sentence}")
    return lines


def _by_check(verdicts: tuple[Verdict, ...]) -> Mapping[tuple[str, str], tuple[Outcome, str]]:
    """Return outcome and sentence by check and step, which is '' for a check that is not of one step."""
    return {(one.check, one.step or ""): (one.outcome, one.sentence) for one in verdicts}


def read_scenarios(names: set[str], files: list[Path]) -> Mapping[str, Scenario]:
    """Return the valid scenarios that have one of the names, by name. Raises OSError."""
    scenarios = read_corpus(files, paths.fixtures())
    return {scenario.id: scenario for scenario in scenarios if scenario.id in names and not scenario.problems}


def find_cell(scenarios: Mapping[str, Scenario], header: CellHeader, grid: GridSize) -> Cell | None:
    """Return the cell of the present scenarios that a stored header describes, or None when there is none any more.

    `scenarios` are by id; `grid` is the size of fault grid that the run was collected with. The cell has the candidate's own
    timers and the generations that the header recorded. Raises ValidationError for a header with invalid values, InvalidFile
    when the scenario cannot be expanded.
    """
    scenario = scenarios.get(header.scenario)
    if scenario is None:
        return None
    timers = OwnTimers.model_validate(header.own_timers) if header.own_timers is not None else None
    cell = next((cell for cell in scenario.cells(grid, timers) if cell.axes == header.axes), None)
    return None if cell is None else with_generations(cell, _generations(header))


def _generations(header: CellHeader) -> dict[str, Generation]:
    """Return the generation that each server of a stored cell was started as; empty where no topology is recorded."""
    servers = Topology.model_validate(header.topology).servers if header.topology else ()
    return {server.name: server.generation for server in servers}
