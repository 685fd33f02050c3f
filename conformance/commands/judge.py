"""`conformance judge`: the stored histories of a run, judged again with the rules of today."""

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

_CUT = ("harness.run", "harness.cell-timeout")
"""What the harness says of a cell that did not come to its end."""
_KEPT = (*_CUT, "harness.steps", "harness.capabilities")


def judge_run(run_dir: Path, scenarios: list[Path]) -> int:
    """Judge every stored cell again and print where the verdicts differ; the exit code is that of `run`.

    The scenarios are looked for in `scenarios`, or in the corpus. A cell that was cut short is judged as far as it
    came: what was proven until then stays proven.
    """
    damage: list[Damage] = []
    try:
        run = read_run(run_dir)
        stored = list(run.cells(damage))
    except RunDirectoryError as error:
        typer.echo(error, err=True)
        return 2
    names = {one.header.scenario for one in stored}
    try:
        known = _scenarios(names, scenarios or [paths.corpus()])
    except OSError as error:
        typer.echo(error, err=True)
        return 2
    outcomes: list[Outcome] = [Outcome.ERROR] * len(damage)
    for lost in damage:
        typer.echo(lost)
    differing = 0
    for one in stored:
        try:
            cell = cell_of(known, one.header, GRID_SIZES.get(run.header.grid, "full"))
        except (ValidationError, InvalidFile) as error:
            typer.echo(f"{one.path.name}:1: the cell's header cannot be used: {visible(str(error), 200)}")
            outcomes.append(Outcome.ERROR)
            continue
        if cell is None:
            typer.echo(
                f"! {visible(one.header.nodeid)}: no such cell in the corpus (--scenarios PATH); nothing changes"
            )
            outcomes += [verdict.outcome for verdict in one.verdicts] or [Outcome.INCONCLUSIVE]
            continue
        if cell.sha256 != one.header.scenario_sha256:
            typer.echo(f"! {visible(one.header.nodeid)}: the scenario is not the one that was run")
        if one.cut_short:
            typer.echo(f"! {visible(one.header.nodeid)}: cut short after {len(one.events)} events")
        events, why = consistent_prefix(one.events, cell.topology.by_name)
        if why:
            typer.echo(f"! {visible(one.header.nodeid)}: judged as far as event {len(events)}: {visible(why)}")
        verdicts = judged_again(cell, replace(one, events=tuple(events)), whole=not why)
        outcomes.append(worst_in_cell(verdict.outcome for verdict in verdicts))
        lines = list(differences(one.verdicts, verdicts))
        differing += bool(lines)
        if lines:
            typer.echo(visible(one.header.nodeid, 300))
            typer.echo("\n".join(lines))
    whole = sum(not one.cut_short for one in stored)
    cut = f", {len(stored) - whole} cut short" if whole < len(stored) else ""
    typer.echo(f"{len(stored)} cells judged again{cut}; {differing} differ from what is recorded")
    if Outcome.FAIL in outcomes:
        return 1
    return 3 if {Outcome.ERROR, Outcome.INCONCLUSIVE} & set(outcomes) else 0


def judged_again(cell: Cell, stored: StoredCell, *, whole: bool = True) -> tuple[Verdict, ...]:
    """Return today's verdicts; what the harness itself said about the running of the cell stays.

    `whole`: whether these are all events that the cell had.
    """
    header = stored.header
    kept = tuple(one for one in stored.verdicts if one.check in _KEPT)
    if any(one.check == "harness.capabilities" for one in kept):
        return kept
    broken = any(one.check in _CUT for one in kept)
    complete = whole and not stored.cut_short and not stored.damage and not broken
    setting = JudgeSettings(header.clock, header.tolerance, frozenset(header.claims), complete, header.should)
    return (*kept, *judge_cell(cell, stored.events, setting))


def differences(before: tuple[Verdict, ...], after: tuple[Verdict, ...]) -> list[str]:
    """Return a line for each check whose outcome, or whose sentence, is not what it was."""
    was, now = _by_check(before), _by_check(after)
    lines = []
    for key in sorted({*was, *now}):
        if was.get(key) != now.get(key):
            old, new = was.get(key), now.get(key)
            sentence = visible(new[1] if new else "", 300)
            lines.append(f"  {key[0]} {key[1]}: {old[0] if old else 'none'} -> {new[0] if new else 'none'}  {sentence}")
    return lines


def _by_check(verdicts: tuple[Verdict, ...]) -> Mapping[tuple[str, str], tuple[Outcome, str]]:
    return {(one.check, one.step or ""): (one.outcome, one.sentence) for one in verdicts}


def _scenarios(names: set[str], where: list[Path]) -> Mapping[str, Scenario]:
    found = read_corpus(where, paths.fixtures())
    return {scenario.id: scenario for scenario in found if scenario.id in names and not scenario.problems}


def cell_of(known: Mapping[str, Scenario], header: CellHeader, grid: GridSize) -> Cell | None:
    """Return today's cell of a stored one, with the timers that the candidate had by itself then."""
    scenario = known.get(header.scenario)
    if scenario is None:
        return None
    timers = OwnTimers.model_validate(header.own_timers) if header.own_timers is not None else None
    found = next((cell for cell in scenario.cells(grid, timers) if cell.axes == header.axes), None)
    return None if found is None else with_generations(found, _generations(header))


def _generations(header: CellHeader) -> dict[str, Generation]:
    """Return the generation that each server of a stored cell was started as; empty where no topology is recorded."""
    servers = Topology.model_validate(header.topology).servers if header.topology else ()
    return {server.name: server.generation for server in servers}
