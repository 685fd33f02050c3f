"""`conformance mutants`: changes the reference in one place at a time, and prints which changes no cell notices.

A *mutant* is one such change, its *site* the place. A *pin* states why a mutant that survives is accepted: it is equivalent, or
no row of the catalogue is about it.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.drawing import draw
from conformance.execute import available_cores
from conformance.mutants.differences import (
    Differences,
    find_differences,
    merge_differences,
    read_differences,
    write_differences,
)
from conformance.mutants.operators import Site, find_sites
from conformance.mutants.pins import Pins, PinsError, read_pins, write_survivor_table
from conformance.mutants.trial import MutantResult, MutantTrial, run_mutants
from conformance.requirements.catalogue import catalogue
from conformance.results.atomic_write import read_whole_lines
from conformance.results.fingerprints import inputs_sha256, sha256_of_json
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.loader import read_corpus

_NOT_MUTATED = ("defects/", "readings/", "__main__.py")
"""Parts of the reference that are wrong or different on purpose, or that only start it."""


@dataclass(frozen=True, slots=True)
class JudgedMutant:
    """A result with its pin applied: `outcome` is killed, survived, equivalent, no-row or broken."""

    result: MutantResult
    outcome: str
    known: bool
    """Whether a survivor is in the committed table."""
    blamed_well: bool
    """Whether the requirement that is blamed first is of a group of the changed module."""


def print_mutants(
    ids: Sequence[str],
    *,
    sample: int | None,
    seed: int,
    jobs: int | None,
    as_json: bool,
    store: Path | None,
    write_survivors: bool,
) -> int:
    """Run mutants of the reference in the cells in which they make a difference, and print the outcome of each.

    `ids` names mutants, or files of the reference; none: all. `sample` draws that many of them by `seed`. `store` is a file of
    results, one JSON object a line: mutants that it has are not run again, unless the package, its scenarios or fixtures have
    changed since. `write_survivors` writes the committed table anew: with new survivors, and without those that were killed now.
    Returns 1 when one survives that is neither pinned nor in that table, 2 for wrong input, else 0. Blocks until all have run.
    """
    root = paths.reference()
    folder = paths.fixtures() / "mutants"
    try:
        pins = read_pins(folder)
        corpus = read_corpus([paths.corpus()], paths.fixtures())
        cells = [cell for scenario in corpus for cell in scenario.cells("smoke", REFERENCE.own_timers)]
    except (PinsError, InvalidFile) as error:
        typer.echo(error, err=True)
        return 2
    every_site = all_sites(root)
    if outdated := pins.outdated_ids(every_site):
        for mutant in outdated:
            typer.echo(f"{folder}: {mutant} no longer changes the line {pins.lines[mutant]!r}", err=True)
        typer.echo("write down the ids that these lines have now, if they are still there, or remove them", err=True)
        return 2
    sites = [site for site in every_site if not ids or site.id in ids or site.file in ids]
    if unknown := sorted(set(ids) - {name for site in sites for name in (site.id, site.file)}):
        typer.echo(
            f"no mutant {unknown[0]!r}; `conformance mutants --sample 1 --json` shows what ids look like", err=True
        )
        return 2
    # aiosmtpd warns at each login that it uses a deprecated name itself.
    logging.getLogger("mail.log").setLevel(logging.ERROR)
    console = Console(stderr=True)
    key = inputs_sha256() if store is not None else ""
    cores = jobs or available_cores()
    differences = _find_differences(sites, cells, root, cores, store, key, console)
    reached = [site for site in sites if differences.cells.get(site.id)]
    chosen = draw(reached, sample, seed, lambda site: site.id)
    stored = {result.id: result for result in _read_store(store, key)}
    trials = [plan_trial(site, cells, differences, pins) for site in chosen if site.id not in stored]
    results = {site.id: stored[site.id] for site in chosen if site.id in stored}
    with _progress_bar(console) as bar:
        task = bar.add_task("mutants", total=len(trials))
        for result in bar.track(run_mutants(trials, cells, root, seed=1, jobs=cores), task_id=task):
            results[result.id] = result
            if store is not None:
                with store.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, **asdict(result)}) + "\n")
    judged = [judge_mutant(results[site.id], pins) for site in chosen]
    if write_survivors:
        texts = {site.id: site.text for site in chosen}
        known = {mutant: pins.lines[mutant] for mutant in pins.survivors - texts.keys()}
        new = {one.result.id: texts[one.result.id] for one in judged if one.outcome == "survived"}
        write_survivor_table(folder, known | new)
    if as_json:
        typer.echo(json.dumps([_json_entry(one) for one in judged], indent=2))
    else:
        _print_results(judged, len(sites), len(reached))
    return 1 if any(one.outcome == "survived" and not one.known for one in judged) else 0


def _find_differences(
    sites: Sequence[Site], cells: Sequence[Cell], root: Path, cores: int, store: Path | None, key: str, console: Console
) -> Differences:
    """Return in which cells each mutant makes a difference, by running all cells, `cores` at a time. Blocks.

    With `store` the result is kept in a file beside it, and read from there if it is of the same sites and the same `key`, a hash
    of the package, its scenarios and its fixtures.
    """
    path = store.with_name(f"{store.name}.cells") if store is not None else None
    key = sha256_of_json([key, *(site.id for site in sites)])
    if path is not None and (kept := read_differences(path, key)) is not None:
        return kept
    with _progress_bar(console) as bar:
        found = find_differences(sites, cells, root, seed=1, jobs=cores)
        task = bar.add_task("cells", total=len(cells))
        differences = merge_differences(sites, bar.track(found, task_id=task))
    if path is not None:
        write_differences(path, key, differences)
    return differences


def _progress_bar(console: Console) -> Progress:
    """Return a progress bar, which is shown on a terminal only, and removed at its end."""
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def all_sites(root: Path) -> list[Site]:
    """Return the sites of all mutants of the reference below `root`, by file; defects, readings and `__main__.py` have none."""
    files = [(path, path.relative_to(root).as_posix()) for path in sorted(root.rglob("*.py"))]
    return [
        site
        for path, file in files
        if not file.startswith(_NOT_MUTATED)
        for site in find_sites(path.read_text("utf-8"), file)
    ]


def judge_mutant(result: MutantResult, pins: Pins) -> JudgedMutant:
    """Return a result with its pin applied: a pin is the outcome, unless the mutant was killed."""
    pin = pins.pinned.get(result.id)
    outcome = pin if pin is not None and result.outcome != "killed" else result.outcome
    row = catalogue().get(result.requirement) if result.requirement else None
    well = row is not None and row.group in pins.groups_of(result)
    return JudgedMutant(result, outcome=outcome, known=result.id in pins.survivors, blamed_well=well)


_WEIGHTS = (6, 3, 1)
"""How many of ten cells are of scenarios that judge a row of the module's first group, of another group of it, of none."""


def plan_trial(site: Site, cells: Sequence[Cell], differences: Differences, pins: Pins) -> MutantTrial:
    """Return the trial of a mutant: cells of scenarios about the module, about its other groups, and about neither.

    They are mixed 6 : 3 : 1. Each of the three kinds begins with one cell of each scenario, the cheap ones first. A site in the
    body of a class, where defaults of parameters stand, is tried first in the cells that leave parameters out.
    """
    groups = pins.groups_of(site)
    group_of = {row.id: row.group for row in catalogue().requirements}
    counts: Counter[str] = Counter()
    first: list[tuple[float, int]] = []
    kinds: tuple[list[tuple[int, float, int]], ...] = ([], [], [])
    for number in differences.cells[site.id]:
        cell, cost = cells[number], differences.costs[number]
        if site.in_class and cell.parameters == "default":  # most class bodies of the reference have defaults
            first.append((cost, number))
            continue
        judged = {group_of[row] for row in cell.judged_requirements}
        kind = 0 if judged & {*groups[:1]} else 1 if judged & {*groups} else 2
        kinds[kind].append((counts[cell.scenario], cost, number))
        counts[cell.scenario] += 1
    mixed = [
        ((place + 0.5) / weight, number)
        for entries, weight in zip(kinds, _WEIGHTS, strict=True)
        for place, (*_, number) in enumerate(sorted(entries))
    ]
    return MutantTrial(site, tuple(number for _, number in [*sorted(first), *sorted(mixed)]))


def _read_store(store: Path | None, key: str) -> Iterator[MutantResult]:
    """Yield the stored results that were made for the same key; nothing without a store or its file.

    A last line that was cut off by an interruption is cut off the file.
    """
    for line in read_whole_lines(store) if store is not None else ():
        stored = json.loads(line)
        if stored.pop("key") == key:
            yield MutantResult(**stored)


def _json_entry(one: JudgedMutant) -> dict[str, object]:
    """Return a mutant as `--json` prints it."""
    result = one.result
    return {
        "id": result.id,
        "file": f"conformance/reference/{result.file}",
        "line": result.line,
        "outcome": one.outcome,
        "check": result.check or None,
        "requirement": result.requirement or None,
    }


def _print_results(judged: Sequence[JudgedMutant], sites: int, reached: int) -> None:
    """Print the survivors and the broken ones, and the totals.

    `judged` are the mutants that were tried, `reached` counts those that make a difference in a cell, of `sites` in all.
    """
    for one in judged:
        if one.outcome in ("survived", "broken"):
            known = " (in the table)" if one.known else ""
            ran = f"{one.result.ran} of {one.result.differs} cells"
            typer.echo(f"{one.outcome}{known}: {one.result.id} (line {one.result.line}), {ran}")
    counts = Counter(one.outcome for one in judged)
    counted = counts["killed"] + counts["survived"]
    blamed = [one for one in judged if one.outcome == "killed" and one.result.requirement]
    typer.echo(
        f"{sites} mutants, {reached} of them that make a difference in a cell; {len(judged)} tried: {dict(counts)}"
    )
    if counted:
        typer.echo(
            f"killed {counts['killed']} of {counted} that are not pinned ({counts['killed'] / counted:.0%}), "
            f"{sum(one.blamed_well for one in blamed)} of the {len(blamed)} with a violation blamed on a group of the changed module; "
            f"{sum(one.result.cpu_s for one in judged) / len(judged):.1f} s of the processor for each"
        )
