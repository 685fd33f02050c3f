"""`conformance explore`: breaks every point of a scenario once or twice, and reduces what violates the model to scenario files.

A *plan* is one cell that is run with a fault at one point, or two, and judged by the model alone. To *sweep* a scenario is to make a
plan for each fault at each point. A *campaign* has the results of the plans that were run, a *finding* a violation and the smallest
plan that shows it. An *exploration* is what the directory has: the campaign of one call, or of several that went on with it. On the
clocks `scaled` and `real` time passes by itself; on the others it jumps to the next timer. The *journal* is the file with the plans
that were run, by this call and earlier ones.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from conformance import paths
from conformance.candidates.assignment import Assignment, check_hosts, choose_clock
from conformance.candidates.description import CandidateError
from conformance.candidates.lookup import find_candidate
from conformance.clocks import CLOCKS, ClockName, default_scale
from conformance.execute import available_cores, utc_timestamp
from conformance.explore.campaign import Campaign, reduce_findings, run_plans
from conformance.explore.enumeration import draw_plans, enumerate_plans, reason_against
from conformance.explore.journal import Journal
from conformance.explore.pairs import sweep_pairs
from conformance.explore.random_plans import RandomPlans
from conformance.explore.summary import summarize, write_finding
from conformance.explore.sweep import Enumeration, ScenePlans
from conformance.forked_process import ProcessDied
from conformance.records import candidate_record
from conformance.report.exploration_page import exploration_page
from conformance.results.atomic_write import StagedFiles
from conformance.results.exploration import (
    EXPLORATION_FILE,
    PAGE_FILE,
    ExplorationHeader,
    ExplorationSummary,
    Method,
)
from conformance.results.fingerprints import environment_sha256, inputs_sha256
from conformance.results.layout import RunDirectoryError
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.loader import read_corpus
from conformance.scenarios.values import parse_duration
from conformance.suite.options import TOO_LARGE
from conformance.suite.selection import SelectionError, find_scenarios, read_id

_PLANS_PER_CORE = 8
"""Plans at the same time for each core without -n where time passes by itself: they mostly wait."""
_LINE_EVERY_S = 60
"""Seconds between two lines about the progress where there is no terminal."""
_MANY = 1_000_000
"""Random plans without --plans: more than anybody waits for."""


@dataclass(frozen=True, slots=True)
class _Task:
    """What is to be explored, on what, and how; `until` is a `time.monotonic()`: the first result after it is the last."""

    method: Method
    scenarios: tuple[str, ...]
    cells: Sequence[Cell]
    assignment: Assignment
    settings: Settings
    jobs: int
    plans: int | None
    until: float | None


def explore(
    scenarios: Sequence[str],
    *,
    faults: int = 1,
    at_random: bool = False,
    candidate: str,
    clock: ClockName | None = None,
    scale: float | None = None,
    plans: int | None,
    duration: str | None,
    seed: int,
    jobs: int | None,
    out: Path,
    as_json: bool,
    hosts: Collection[str] = (),
) -> int:
    """Sweep the first cell of each scenario (names; none: of all cheap ones), and write what violates the model to `out`.

    Each plan of a sweep has `faults` faults, 1 or 2; two need names of scenarios. With `at_random` the plans are random ones, and
    scenarios are not used. At most `plans` are run, drawn by `seed`, until the first result after `duration` (real time, such as
    `10m`). Plans that `out` has already from an earlier call are not run again, as long as nothing but `plans`, `duration` and
    `jobs` differs. Ctrl-C keeps what was found. Without `clock` the candidate decides, as in a run; `scale` is what documented
    times are divided by on the clock `scaled`. Where time passes by itself, scenarios must be named, or plans drawn at random.
    `hosts` are those other than this machine that the candidate may name.

    Returns 1 when a plan violates a rule, 2 for wrong input or when a process was killed, else 3 when no plan was sound, else 0.
    """
    console = Console(stderr=True)
    try:
        until = time.monotonic() + parse_duration(duration) if duration is not None else None
        given = Assignment(find_candidate(candidate, paths.fixtures() / "candidates"))
        check_hosts(given.candidates, hosts)
        chosen_clock, (assignment,) = choose_clock([given], clock)
        kind = CLOCKS[chosen_clock]
        if scale is not None and not (kind.scaled and 0 < scale < TOO_LARGE):
            raise ValueError("--scale: a number above 0, with --clock scaled")
        if at_random and scenarios:
            raise ValueError("random plans are made without scenarios: leave out their names, or --random")
        if faults > 1 and not scenarios:
            raise ValueError("pairs of faults are tried in scenarios that are named: give the id of one")
        if not (kind.jumps or scenarios or at_random):
            raise ValueError(f"--clock {chosen_clock} takes the time that passes: name the scenarios to sweep")
        task = _Task(
            method="random" if at_random else "sweep-2" if faults > 1 else "sweep-1",
            scenarios=tuple(scenarios),
            cells=[] if at_random else _first_cells(scenarios),
            assignment=assignment,
            settings=Settings(clock=chosen_clock, scale=scale or default_scale(chosen_clock), seed=seed, should="fail"),
            jobs=jobs or available_cores() * (1 if kind.jumps else _PLANS_PER_CORE),
            plans=plans,
            until=until,
        )
        journal = Journal.open(out, _header(task, out))
    except (ValueError, CandidateError, InvalidFile, SelectionError, RunDirectoryError, OSError) as error:
        typer.echo(error, err=True)
        return 2
    if journal.replaced:
        console.print(f"{out} had plans of another exploration, or of another version: begun anew", markup=False)
    try:
        summary, rate = _run(task, journal, console)
    except ProcessDied as error:
        typer.echo(f"{error}; the plans that were run are kept, and the same command goes on", err=True)
        return 2
    if as_json:
        typer.echo(summary.model_dump_json(indent=2))
    else:
        for line in (*_summary_lines(summary), rate, f"page       {out / PAGE_FILE}"):
            typer.echo(line)
    if summary.outcomes.get("violated"):  # also where its finding was left out, after Ctrl-C
        return 1
    return 0 if summary.outcomes.get("sound") else 3


def _header(task: _Task, out: Path) -> ExplorationHeader:
    """Return the header of an exploration that begins now in the directory `out`. Blocks while the candidate prints its version."""
    return ExplorationHeader(
        exploration=out.absolute().name,
        started=utc_timestamp(),
        candidate=candidate_record(task.assignment),
        method=task.method,
        scenarios=task.scenarios,
        seed=task.settings.seed,
        clock=task.settings.clock,
        scale=task.settings.scale,
        environment_sha256=environment_sha256(),
        inputs_sha256=inputs_sha256(),
    )


def _first_cells(names: Sequence[str]) -> list[Cell]:
    """Return the first cell of each scenario that an id names, or of all; of those that match where an id has values of axes.

    Raises InvalidFile and SelectionError.
    """
    corpus = paths.corpus()
    find_scenarios(names, [corpus], "smoke", option="")  # for its error about an unknown name
    read = read_corpus([corpus], paths.fixtures())
    if not names:
        return [scenario.cells()[0] for scenario in read]
    selectors = [read_id(name) for name in names]
    named = ([cell for cell in scenario.cells() if any(one.matches(cell) for one in selectors)] for scenario in read)
    return [cells[0] for cells in named if cells]


def _run(task: _Task, journal: Journal, console: Console) -> tuple[ExplorationSummary, str]:
    """Run the plans that the journal lacks, reduce what they found, and write findings, summary and page into its directory.

    Returns the summary of all plans, and how many were run in how much time, in words. Blocks. Raises OSError.
    """
    assignment, settings = task.assignment, task.settings
    enumeration = Enumeration()
    chosen: RandomPlans | ScenePlans
    if task.method == "random":
        chosen = RandomPlans(settings.seed, task.plans or _MANY, assignment, settings)
    else:
        enumeration = _enumerate_plans(task, journal, console)
        chosen = draw_plans(enumeration.plans, task.plans, settings.seed)
    campaign = Campaign()
    for number in range(len(chosen) if journal.results else 0):
        if (known := journal.results.get(chosen.name_of(number))) is not None:
            campaign.add(number, known)
    before = len(campaign.results)
    if before:
        console.print(f"{before} plans were run before", highlight=False)
    seconds = _run_plans(task, chosen, campaign, journal, console)
    journal.end_call(seconds)
    with console.status("reducing what was found", spinner="line"):
        findings = reduce_findings(
            campaign, chosen, assignment, settings, lambda text: console.print(text, markup=False, soft_wrap=True)
        )
    out = journal.directory
    records = [write_finding(finding, out, journal.header) for finding in findings]
    summary = summarize(campaign, enumeration, records)
    files = {name: (out / name).read_text("utf-8") for one in records for name in (one.file, one.original)}
    with StagedFiles() as staged:
        staged.write_text(out / EXPLORATION_FILE, summary.model_dump_json(indent=2) + "\n")
        staged.write_text(out / PAGE_FILE, exploration_page(journal.header, summary, files))
    ran = len(campaign.results) - before
    return summary, f"{ran} plans in {seconds:.0f} s ({ran / max(seconds, 0.001):.1f} a second)"


def _enumerate_plans(task: _Task, journal: Journal, console: Console) -> Enumeration:
    """Return the plans of a sweep, each with one fault or two, and what was left out.

    Blocks: the scenarios are run without faults, and for plans with two faults also with each single one. The first call of an
    exploration writes into the journal's header which cells are too costly; later calls leave out the same.
    """
    assignment, settings = task.assignment, task.settings
    with console.status("running the scenarios without faults", spinner="line"):
        enumeration, too_costly = enumerate_plans(
            task.cells,
            assignment,
            settings,
            task.jobs,
            named=bool(task.scenarios),
            too_costly=journal.header.too_costly,
        )
    if journal.header.too_costly is None:
        journal.note_too_costly(too_costly)
    if task.method == "sweep-1":
        return enumeration
    with console.status(f"running {len(enumeration.plans)} plans with one fault", spinner="line"):
        return sweep_pairs(
            enumeration,
            assignment,
            settings,
            task.jobs,
            lambda plan, fault: reason_against(plan, fault, assignment, settings),
        )


def _run_plans(
    task: _Task, chosen: RandomPlans | ScenePlans, campaign: Campaign, journal: Journal, console: Console
) -> float:
    """Run the plans that the campaign lacks, add them to it and to the journal, and return the seconds that it took.

    Shows a line with plans a second, states and findings. Blocks. After Ctrl-C it ends early, and what was run is kept.
    """
    before, began = len(campaign.results), time.monotonic()
    next_line = began + _LINE_EVERY_S
    known = frozenset(campaign.results)
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with journal, Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        total = None if task.method == "random" and task.plans is None else len(chosen)
        row = bar.add_task("plans", total=total, completed=before)
        try:
            for number, result in run_plans(chosen, task.assignment, task.settings, task.jobs, task.until, known):
                campaign.add(number, result)
                journal.add(result)
                now = time.monotonic()
                rate = (len(campaign.results) - before) / (now - began)
                text = f"{rate:.1f} plans/s, {campaign.progress}"
                bar.update(row, advance=1, description=text)
                if not console.is_terminal and now >= next_line:
                    console.print(f"{len(campaign.results)} plans, {text}", highlight=False)
                    next_line = now + _LINE_EVERY_S
        except KeyboardInterrupt:
            typer.echo("interrupted: what was found is kept", err=True)
    return time.monotonic() - began


def _summary_lines(summary: ExplorationSummary) -> Iterator[str]:
    """Yield the lines that are printed about findings, outcomes, what was left out, faults, states, and what was never seen."""
    for finding in summary.findings:
        yield f"{finding.file}  ({finding.plans} plans)"
        yield f"  {finding.sentence}"
        yield f"  {finding.plan}: {finding.original_size.text} ({finding.original})"
        yield f"  reduced: {finding.size.text}"
    yield ", ".join(f"{count} {outcome}" for outcome, count in summary.outcomes.items()) or "no plan was run"
    if summary.enumerated:  # random plans are drawn, and not enumerated
        yield f"{summary.enumerated} enumerated; {summary.not_run} not run; left out:"
    yield from (f"  {count}: {reason}" for reason, count in summary.pruned.items())
    yield f"{summary.faults.fired} of {summary.faults.drawn} faults fired"
    yield (
        f"{summary.states} states, {summary.transitions} transitions; the next 100 plans should show "
        f"{summary.new_states_per_100_plans} new states"
    )
    yield from (f"never seen: {sentence}" for sentence in summary.never_seen)
