"""`conformance mutants`: changes the reference in one place at a time, and prints which changes no cell notices."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.execute import available_cores
from conformance.mutants.coverage import Covered, find_covered
from conformance.mutants.operators import Site, find_sites
from conformance.mutants.pins import Pins, PinsError, read_pins
from conformance.mutants.trial import MutantResult, MutantTrial, run_mutants
from conformance.requirements.catalogue import catalogue
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
    """Run mutants of the reference in the cells that execute the changed lines, and print what came of them.

    `ids` names mutants, or files of the reference; none: all. `sample` draws that many of them by `seed`. `store` is a file of
    results, one JSON object a line: mutants that it has are not run again. `write_survivors` adds new survivors to
    the committed table. Returns 1 when one survives that is neither pinned nor in that table, 2 for wrong input, else 0.
    """
    if find_spec("coverage") is None:
        typer.echo("coverage is missing: pip install 'smtp-conformance[dev]'", err=True)
        return 2
    root = paths.reference()
    folder = paths.fixtures() / "mutants"
    try:
        pins = read_pins(folder)
        corpus = read_corpus([paths.corpus()], paths.fixtures())
        cells = [cell for scenario in corpus for cell in scenario.cells("smoke", REFERENCE.own_timers)]
    except (PinsError, InvalidFile) as error:
        typer.echo(error, err=True)
        return 2
    sites = [site for site in all_sites(root) if not ids or site.id in ids or site.file in ids]
    if not sites:
        typer.echo(f"no mutant {ids[0]!r}; `conformance mutants --sample 1 --json` shows what ids look like", err=True)
        return 2
    console = Console(stderr=True)
    cores = jobs or available_cores()
    with console.status("finding the lines that each cell executes", spinner="line"):
        covered = find_covered(cells, root, seed=1, jobs=cores)
    reached = [site for site in sites if covered.cells_of(site.file, site.line)]
    drawn = sorted(random.Random(seed).sample(range(len(reached)), min(sample or len(reached), len(reached))))  # noqa: S311
    chosen = [reached[number] for number in drawn]
    stored = {result.id: result for result in _read_store(store)}
    trials = [_plan(site, cells, covered, pins) for site in chosen if site.id not in stored]
    results = {site.id: stored[site.id] for site in chosen if site.id in stored}
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("mutants", total=len(trials))
        for result in bar.track(run_mutants(trials, cells, root, 1, cores), task_id=task):
            results[result.id] = result
            if store is not None:
                with store.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
    judged = [judge_mutant(results[site.id], pins) for site in chosen]
    if write_survivors:
        _write_survivors(folder / "survivors.txt", pins, judged)
    if as_json:
        typer.echo(json.dumps([_json(one) for one in judged], indent=2))
    else:
        _print(judged, len(sites), len(reached))
    return 1 if any(one.outcome == "survived" and not one.known for one in judged) else 0


def all_sites(root: Path) -> list[Site]:
    """Return the sites of all mutants of the reference below `root`, by file."""
    files = [(path, path.relative_to(root).as_posix()) for path in sorted(root.rglob("*.py"))]
    return [
        site
        for path, file in files
        if not file.startswith(_NOT_MUTATED)
        for site in find_sites(path.read_text("utf-8"), file)
    ]


def judge_mutant(result: MutantResult, pins: Pins) -> JudgedMutant:
    """Return a result with its pin; a pinned mutant that is killed all the same is killed."""
    pin = pins.pinned.get(result.id)
    outcome = pin if pin is not None and result.outcome != "killed" else result.outcome
    row = catalogue().get(result.requirement) if result.requirement else None
    well = row is not None and row.group in pins.groups_of(result.file)
    return JudgedMutant(result, outcome, result.id in pins.survivors, well)


def _plan(site: Site, cells: Sequence[Cell], covered: Covered, pins: Pins) -> MutantTrial:
    """Return the trial of a mutant: cells that judge a row of its module's groups first, then the cheap ones."""
    groups = {row.id for row in catalogue().requirements if row.group in pins.groups_of(site.file)}

    def order(number: int) -> tuple[bool, float]:
        return groups.isdisjoint(cells[number].judged_requirements), covered.costs[number]

    return MutantTrial(site, tuple(sorted(covered.cells_of(site.file, site.line), key=order)))


def _read_store(store: Path | None) -> Iterator[MutantResult]:
    """Yield the results of an earlier run; a line that was cut off when it was interrupted is left out."""
    if store is None or not store.exists():
        return
    for line in store.read_text("utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield MutantResult(**json.loads(line))


def _write_survivors(path: Path, pins: Pins, judged: Sequence[JudgedMutant]) -> None:
    """Write the table of survivors: those known before that were not killed now, and the new ones."""
    tried = {one.result.id for one in judged}
    survivors = (pins.survivors - tried) | {one.result.id for one in judged if one.outcome == "survived"}
    head = "# Mutants of the reference that no cell notices yet: conformance mutants --write-survivors\n"
    path.write_text(head + "".join(f"{mutant}\n" for mutant in sorted(survivors)), "utf-8")


def _json(one: JudgedMutant) -> dict[str, object]:
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


def _print(judged: Sequence[JudgedMutant], sites: int, reached: int) -> None:
    """Print the survivors and the broken ones, and the totals."""
    for one in judged:
        if one.outcome in ("survived", "broken"):
            known = " (in the table)" if one.known else ""
            ran = f"{one.result.ran} cells" if one.result.ran else "no cell"
            typer.echo(f"{one.outcome}{known}: {one.result.id} (line {one.result.line}), {ran}")
    counts = Counter(one.outcome for one in judged)
    counted = counts["killed"] + counts["survived"]
    blamed = [one for one in judged if one.outcome == "killed" and one.result.requirement]
    typer.echo(f"{sites} mutants, {reached} of them on lines that cells execute; {len(judged)} tried: {dict(counts)}")
    if counted:
        typer.echo(
            f"killed {counts['killed']} of {counted} that are not pinned ({counts['killed'] / counted:.0%}), "
            f"{sum(one.blamed_well for one in blamed)} of the {len(blamed)} with a violation blamed on a group of the changed module"
        )
