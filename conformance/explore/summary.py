"""The summary of a campaign, as the record that is stored and printed, and its findings as scenario files.

The command `conformance explore` calls this when the plans have been run and the findings reduced.
"""

from collections.abc import Sequence
from pathlib import Path

from conformance.explore.campaign import Campaign, Finding
from conformance.explore.documents import write_cell
from conformance.explore.sweep import Enumeration, Plan
from conformance.requirements.catalogue import catalogue
from conformance.results.exploration import (
    ORIGINALS_FOLDER,
    ExplorationHeader,
    ExplorationSummary,
    FaultCounts,
    FindingRecord,
    PlanSize,
)
from conformance.scenarios.loader import SUFFIX
from conformance.scenarios.steps.breaking import Disk, Fault, Partition
from conformance.scenarios.steps.nodes import Kill, Pause, PowerCut, Stop
from conformance.scenarios.steps.sending import Send

_FAULTS = (Fault, Partition, Disk, Kill, PowerCut, Pause, Stop)
"""The steps that count as a fault; what follows from one, such as `start`, does not."""


def plan_size(plan: Plan) -> PlanSize:
    """Return how many steps, faults (of links and disks, and steps that stop a node), messages and servers a plan has."""
    actions = [step.action for step in plan.cell.all_steps]
    return PlanSize(
        steps=len(actions),
        faults=sum(isinstance(action, _FAULTS) for action in actions),
        messages=sum(action.count for action in actions if isinstance(action, Send)),
        servers=len(plan.cell.topology.servers),
    )


def write_finding(finding: Finding, out: Path, header: ExplorationHeader) -> FindingRecord:
    """Write the reduced plan of a finding, and the plan as it was run, as scenario files below `out`; return its record.

    Earlier files of the same names are replaced. Raises OSError, also where the folder `out` does not exist.
    """
    reduced, original = out / f"{finding.name}{SUFFIX}", out / ORIGINALS_FOLDER / f"{finding.name}-original{SUFFIX}"
    original.parent.mkdir(exist_ok=True)
    violation = finding.violation
    found_by = f"Found by: conformance explore, with --seed {header.seed}, on {header.candidate.name}."
    count = f"{finding.plans} plan{' did' if finding.plans == 1 else 's did'}"
    _write_plan(
        finding.reduced,
        reduced,
        violation.requirement,
        violation.sentence,
        (
            found_by,
            f"The plan before it was reduced: {finding.original.name}.",
            f"It violates {violation.check}; {count}.",
        ),
    )
    _write_plan(
        finding.original,
        original,
        violation.requirement,
        violation.sentence,
        (found_by, f"This is {finding.original.name}, which was reduced to ../{reduced.name}."),
    )
    return FindingRecord(
        file=reduced.name,
        original=str(original.relative_to(out)),
        check=violation.check,
        requirement=violation.requirement,
        plan=finding.original.name,
        sentence=violation.sentence,
        plans=finding.plans,
        size=plan_size(finding.reduced),
        original_size=plan_size(finding.original),
    )


def _write_plan(plan: Plan, path: Path, requirement: str, sentence: str, comments: Sequence[str]) -> None:
    """Write a plan that violates a requirement as a scenario file; `sentence` is that of the violation. Raises OSError.

    The file names the requirement if it binds a server of the plan; else it names those of the plan.
    """
    row = catalogue().get(requirement)
    generations = {server.generation for server in plan.cell.topology.servers}
    named = row is not None and row.binds(generations)  # a file may name only rows that bind one of its servers
    cell = plan.cell.model_copy(update={"requirements": (requirement,)}) if named else plan.cell
    title = f"{requirement} holds in a plan that exploration has found"[:160]
    write_cell(cell, path, title=title, description=sentence, comments=comments)


def summarize(campaign: Campaign, enumeration: Enumeration, findings: Sequence[FindingRecord]) -> ExplorationSummary:
    """Return the campaign as it is stored and printed; equal results of plans give equal summaries.

    `enumeration` has all plans of a sweep; it is empty for random plans.
    """
    coverage, observations = campaign.coverage, campaign.observations
    return ExplorationSummary(
        enumerated=enumeration.enumerated,
        pruned=dict(sorted(enumeration.pruned.items())),
        not_run=max(0, len(enumeration.plans) - len(campaign.results)),
        plans=len(campaign.results),
        outcomes=dict(sorted(campaign.outcomes.items())),
        unfinished=dict(sorted(campaign.unfinished.items())),
        fired=campaign.fired,
        faults=FaultCounts(
            drawn=sum(observed.faults for observed in observations),
            fired=sum(observed.fired for observed in observations),
        ),
        states=coverage.states,
        transitions=coverage.transitions,
        states_seen_once=coverage.once,
        new_states_per_100_plans=coverage.new_states_per_100_plans,
        curve=campaign.curve,
        sometimes=campaign.sometimes,
        never_seen=tuple(sentence for sentence, count in campaign.sometimes.items() if not count),
        findings=tuple(findings),
    )
