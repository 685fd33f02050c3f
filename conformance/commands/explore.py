"""`conformance explore`: breaks every point of a scenario once or twice, and reduces what violates the model to scenario files.

A *plan* is one cell that is run with a fault at one point, or two, and judged by the model alone. To *sweep* a scenario is to make a plan
for each fault at each point. A *campaign* has the results of the plans that were run, a *finding* a violation and the smallest
plan that shows it.
"""

import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from conformance import paths
from conformance.candidates.assignment import Assignment, choose_clock
from conformance.candidates.description import CandidateError
from conformance.candidates.lookup import find_candidate
from conformance.clocks import CLOCKS, IN_PROCESS, ClockName, default_scale
from conformance.execute import available_cores
from conformance.explore.campaign import Campaign, Finding, reduce_findings, run_bases, run_plans
from conformance.explore.documents import write_cell
from conformance.explore.injections import Injection
from conformance.explore.pairs import sweep_pairs
from conformance.explore.random_plans import RandomPlans
from conformance.explore.sweep import Enumeration, ObservedCell, Plan, ScenePlans, sweep, without_faults
from conformance.requirements.catalogue import catalogue
from conformance.run.applicability import inapplicable_reason
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import InvalidFile
from conformance.scenarios.loader import SUFFIX, read_corpus
from conformance.scenarios.steps.sending import Send
from conformance.scenarios.values import parse_duration
from conformance.suite.selection import SelectionError, find_scenarios

_MAX_CPU_S = 0.2
"""Processor time of the run without faults: without names, costlier scenarios are left out."""
_PLANS_PER_CORE = 8
"""Plans at the same time for each core without -n where time passes by itself: they mostly wait."""
_LINE_EVERY_S = 60
"""Seconds between two lines about the progress where there is no terminal."""
_MANY = 1_000_000
"""Random plans without --plans: more than anybody waits for."""


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
) -> int:
    """Sweep scenarios (names; none: the first cell of each cheap one), and write what violates the model to `out`.

    Each plan of a sweep has `faults` faults, 1 or 2; two need names of scenarios. With `at_random` the plans are random ones, and
    scenarios are not used. At most `plans` are run, drawn by `seed`, and none is
    begun after `duration`. Ctrl-C keeps what was found. Without `clock` the candidate decides, as in a run; `scale` is what
    documented times are divided by on the clock `scaled`. Where time passes by itself, scenarios must be named.
    Returns 1 when there is a finding, 2 for wrong input, 3 when no plan could be judged, else 0.
    """
    try:
        until = time.monotonic() + parse_duration(duration) if duration is not None else None
        given = Assignment(find_candidate(candidate, paths.fixtures() / "candidates"))
        chosen_clock, (assignment,) = choose_clock([given], clock)
        kind = CLOCKS[chosen_clock]
        if scale is not None and not (kind.scaled and scale > 0):
            raise ValueError("--scale: a number above 0, with --clock scaled")
        if at_random and scenarios:
            raise ValueError("random plans are made without scenarios: leave out their names, or --random")
        if faults > 1 and not scenarios:
            raise ValueError("pairs of faults are tried in scenarios that are named: give the id of one")
        if not (kind.jumps or scenarios or at_random):
            raise ValueError(f"--clock {chosen_clock} takes the time that passes: name the scenarios to sweep")
        cells = [] if at_random else _first_cells(scenarios)
    except (ValueError, CandidateError, InvalidFile, SelectionError, OSError) as error:
        typer.echo(error, err=True)
        return 2
    settings = Settings(clock=chosen_clock, scale=scale or default_scale(chosen_clock), seed=seed, should="fail")
    jobs = jobs or available_cores() * (1 if kind.jumps else _PLANS_PER_CORE)
    console = Console(stderr=True)
    with console.status("running the scenarios without faults", spinner="line"):
        enumeration = _enumerate_plans(cells, assignment, settings, jobs, named=bool(scenarios))
    if faults > 1:
        with console.status(f"running {len(enumeration.plans)} plans with one fault", spinner="line"):
            enumeration = sweep_pairs(
                enumeration,
                assignment,
                settings,
                jobs,
                lambda plan, fault: _reason_against(plan, fault, assignment, settings),
            )
    chosen: Sequence[Plan] = (
        RandomPlans(seed, plans or _MANY, assignment, settings)
        if at_random
        else _draw_plans(enumeration.plans, plans, seed)
    )
    campaign = Campaign()
    began = time.monotonic()
    next_line = began + _LINE_EVERY_S
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("plans", total=None if at_random and plans is None else len(chosen))
        try:
            for number, result in run_plans(chosen, assignment, settings, jobs, until):
                campaign.results[number] = result
                violated = campaign.outcomes["violated"]
                bar.update(task, advance=1, description=f"plans, {violated} violations")
                if not console.is_terminal and time.monotonic() >= next_line:
                    console.print(f"{len(campaign.results)} plans, {violated} violations", highlight=False)
                    next_line += _LINE_EVERY_S
        except KeyboardInterrupt:
            typer.echo("interrupted: what was found is kept", err=True)
    seconds = time.monotonic() - began
    with console.status("reducing what was found", spinner="line"):
        findings = reduce_findings(
            campaign, chosen, assignment, settings, lambda text: console.print(text, markup=False, soft_wrap=True)
        )
    out.mkdir(parents=True, exist_ok=True)
    files = [_write_scenario(finding, out, candidate, seed) for finding in findings]
    summary = _summarize(campaign, enumeration, chosen, list(zip(findings, files, strict=True)))
    (out / "exploration.json").write_text(json.dumps(summary, indent=2) + "\n", "utf-8")
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _print_summary(summary, seconds)
    if findings:
        return 1
    return 0 if campaign.outcomes["sound"] else 3


def _first_cells(names: Sequence[str]) -> list[Cell]:
    """Return the first cell of each named scenario, or of all. Raises InvalidFile and SelectionError."""
    corpus = paths.corpus()
    if names:
        find_scenarios(names, [corpus], "smoke")  # for its error about an unknown name
    read = read_corpus([corpus], paths.fixtures())
    return [scenario.cells()[0] for scenario in read if not names or scenario.id in names]


def _enumerate_plans(
    cells: Sequence[Cell], assignment: Assignment, settings: Settings, jobs: int, *, named: bool
) -> Enumeration:
    """Return the plans of all cells; those whose run without faults is not sound, or too costly, are left out.

    Where time passes by itself the cells are run `jobs` at a time, else one after the other.
    """
    found = Enumeration()
    swept_cells = []
    for cell in map(without_faults, cells):
        if not cell.steps:
            found.pruned["a scenario without steps besides faults and expectations"] += 1
        elif not _can_reach_senders(cell):
            found.pruned["a scenario with a sender whom no report can reach"] += 1
        else:
            swept_cells.append(cell)
    bases = [Plan(cell.id, cell) for cell in swept_cells]
    for run, cpu_s in run_bases(bases, assignment, settings, 1 if CLOCKS[settings.clock].jumps else jobs):
        if run.result.outcome != "sound":
            found.pruned[f"a scenario whose run without faults is {run.result.outcome}"] += 1
        elif cpu_s > _MAX_CPU_S and not named:
            found.pruned["a scenario whose run takes too long; name it to sweep it"] += 1
        else:
            swept = sweep(
                ObservedCell.from_run(run.plan.cell, run.events),
                lambda plan, fault: _reason_against(plan, fault, assignment, settings),
            )
            found.plans.entries += swept.plans.entries
            found.pruned.update(swept.pruned)
    return found


def _can_reach_senders(cell: Cell) -> bool:
    """Return whether each sender of a cell has a mailbox, or a next hop of some server: else a failure cannot be reported."""
    topology = cell.topology
    mailboxes = {mailbox.address for mailbox in topology.mailboxes}
    senders = {step.action.sender for step in cell.all_steps if isinstance(step.action, Send)}
    return all(
        not sender or sender in mailboxes or any(topology.next_hops(name, sender) for name in topology.by_name)
        for sender in senders
    )


def _reason_against(plan: Plan, injection: Injection, assignment: Assignment, settings: Settings) -> str:
    """Return why a plan with this fault cannot be run with this assignment, '' if it can."""
    if injection.kind == "frozen" and IN_PROCESS in assignment.candidate_for(injection.node).features:
        return "a node in the process of the harness cannot be frozen: its timers go on"
    if injection.kind == "away" and not CLOCKS[settings.clock].jumps:
        return (
            "a server that stays away for hours takes minutes where time passes by itself; it comes back soon instead"
        )
    return inapplicable_reason(plan.cell, assignment, settings)


def _draw_plans(plans: ScenePlans, number: int | None, seed: int) -> ScenePlans:
    """Return `number` of the plans, all for None, in an order drawn by `seed`: what a time limit leaves out is random too."""
    size = len(plans) if number is None else min(number, len(plans))
    return plans.subset(random.Random(seed).sample(range(len(plans)), size))  # noqa: S311


def _write_scenario(finding: Finding, out: Path, candidate: str, seed: int) -> Path:
    """Write the reduced plan of a finding as a scenario file, and return its path."""
    path = out / f"{finding.name}{SUFFIX}"
    row = catalogue().get(finding.violation.requirement)
    generations = {server.generation for server in finding.reduced.cell.topology.servers}
    comments = (
        f"Found by: conformance explore, with --seed {seed}, on {candidate}.",
        f"The plan before it was reduced: {finding.original.name}.",
        f"It violates {finding.violation.check}; {finding.plans} plans did.",
    )
    named = row is not None and row.binds(generations)  # a file may name only rows that bind one of its servers
    requirements = (finding.violation.requirement,) if named else finding.reduced.cell.requirements
    cell = finding.reduced.cell.model_copy(update={"requirements": requirements})
    write_cell(
        cell,
        path,
        title=f"{finding.violation.requirement} holds in a plan that exploration has found"[:160],
        description=finding.violation.sentence,
        comments=comments,
    )
    return path


def _summarize(
    campaign: Campaign, enumeration: Enumeration, chosen: Sequence[Plan], findings: Sequence[tuple[Finding, Path]]
) -> dict[str, object]:
    """Return the campaign as `--json` prints it; equal seeds give equal summaries, whatever the number of processes."""
    coverage = campaign.coverage
    return {
        "enumerated": enumeration.enumerated,
        "pruned": dict(sorted(enumeration.pruned.items())),
        "not_run": max(0, len(enumeration.plans) - len(campaign.results)),
        "plans": len(campaign.results),
        "outcomes": dict(sorted(campaign.outcomes.items())),
        "fired": campaign.fired,
        "faults": {
            "drawn": sum(observed.faults for observed in campaign.observations),
            "fired": sum(observed.fired for observed in campaign.observations),
        },
        "states": coverage.states,
        "transitions": coverage.transitions,
        "states_seen_once": coverage.once,
        "new_states_per_100_plans": coverage.new_states_per_100_plans,
        "sometimes": campaign.sometimes,
        "never_seen": [sentence for sentence, count in campaign.sometimes.items() if not count],
        "findings": [
            {
                "file": path.name,
                "check": finding.violation.check,
                "requirement": finding.violation.requirement,
                "plan": finding.original.name,
                "sentence": finding.violation.sentence,
                "plans": finding.plans,
            }
            for finding, path in findings
        ],
    }


def _print_summary(summary: dict[str, object], seconds: float) -> None:
    """Print a summary in words."""
    for line in _summary_lines(summary):
        typer.echo(line)
    plans = summary["plans"]
    assert isinstance(plans, int)
    typer.echo(f"{plans} plans in {seconds:.0f} s ({plans / max(seconds, 0.001):.1f} a second)")


def _summary_lines(summary: dict[str, object]) -> Iterator[str]:
    """Yield the lines about findings, outcomes and what was left out."""
    findings, outcomes, pruned = summary["findings"], summary["outcomes"], summary["pruned"]
    assert isinstance(findings, list)
    assert isinstance(outcomes, dict)
    assert isinstance(pruned, dict)
    for finding in findings:
        yield f"{finding['file']}  ({finding['plans']} plans)"
        yield f"  {finding['sentence']}"
    yield ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()) or "no plan was run"
    yield f"{summary['enumerated']} enumerated; {summary['not_run']} not run; left out:"
    yield from (f"  {count}: {reason}" for reason, count in pruned.items())
    faults, never = summary["faults"], summary["never_seen"]
    assert isinstance(faults, dict)
    assert isinstance(never, list)
    yield f"{faults['fired']} of {faults['drawn']} faults fired"
    yield (
        f"{summary['states']} states, {summary['transitions']} transitions; the next 100 plans should show "
        f"{summary['new_states_per_100_plans']} new states"
    )
    yield from (f"never seen: {sentence}" for sentence in never)
